"""Every parser meets made-up inputs with a valid result or one sentence; ``benchmarks.fuzz`` has more."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzzed_files import MUTANTS, VALID, mutant
from tests.fuzzing import PARSERS, corpus, from_corpus, sentence_or_result
from tests.ugly_tables import outcome_of, ugly_table


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PARSERS)
def test_a_result_or_a_sentence(name):
    @settings(max_examples=40, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data):
        sentence_or_result(name, data.draw(PARSERS[name][1]))

    check()


@pytest.mark.slow
@pytest.mark.parametrize("name", [*VALID, "whole result"])
def test_mutants_of_valid_inputs(name):
    rng = random.Random(name)
    for _ in range(40 if name == "whole result" else 200):
        sentence_or_result(name, mutant(name, rng))


@pytest.mark.parametrize("name", VALID)
def test_what_mutants_are_made_of_is_valid(name):
    for content in VALID[name]():
        parse, _ = PARSERS[name]
        parse(content if name in MUTANTS else content.decode())


KEPT = [(name, path) for name in PARSERS for path in corpus(name)]


@pytest.mark.parametrize(("name", "path"), KEPT, ids=lambda part: getattr(part, "name", part))
def test_inputs_that_once_broke_something(name, path):
    sentence_or_result(name, from_corpus(name, path))


@pytest.mark.parametrize("number", [*range(108, 133), 100307])
def test_ugly_tables_are_fitted_and_predicted_or_refused_by_a_sentence(number, tmp_path):
    outcome_of(ugly_table(number), tmp_path)


def test_the_check_can_fail(monkeypatch):
    monkeypatch.setitem(PARSERS, "bad", (lambda text: {}[text], st.text()))
    with pytest.raises(KeyError):
        sentence_or_result("bad", "x")
