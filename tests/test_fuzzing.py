"""Every parser meets made-up inputs with a valid result or one sentence; ``benchmarks.fuzz`` has more."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzzing import PARSERS, sentence_or_result


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PARSERS)
def test_a_result_or_a_sentence(name):
    @settings(max_examples=40, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data):
        sentence_or_result(name, data.draw(PARSERS[name][1]))

    check()


def test_the_check_can_fail(monkeypatch):
    monkeypatch.setitem(PARSERS, "bad", (lambda text: {}[text], st.text()))
    with pytest.raises(KeyError):
        sentence_or_result("bad", "x")
