"""The paper's benchmark of methods, against the target figures, and what fedrelax adds to it."""

from __future__ import annotations

import pytest

from fedrelax.paper.reproduce import reproduce
from tests.reproduction.figures import assert_targets_hold, reproduced


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    return reproduced(["fig1c"], tmp_path_factory.mktemp("figures"))


@pytest.mark.figures
def test_every_target_holds_within_three_combined_standard_errors(done, linear_targets):
    assert_targets_hold(done, linear_targets, "1c benchmark")


@pytest.mark.figures
def test_the_order_of_the_methods_in_the_benchmark(done):
    found = next(f for f in done.findings if f.statement.startswith("Oracle <"))
    assert found.verdict == "confirmed", found.numbers


@pytest.mark.figures
def test_what_the_paper_does_not_have(tmp_path):
    """FedProx has a line, and automatic wiring reaches what the oracle reaches."""
    done = reproduce(["fig1c"], tmp_path, runs=1)
    last = done.frames["fig1c"].query("iteration == 499").set_index("method")["mean"]
    assert last["fedprox"] > 0.4
    assert last["fedrelax auto"] <= 0.005
    assert last["fedrelax .01"] > 0.4
