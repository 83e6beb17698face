"""The benchmarks measure what they say, on problems small enough for a test."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks import autograd, results
from benchmarks.speed.__main__ import app
from benchmarks.speed.linear import measure, scaling
from benchmarks.speed.problems import nearest_graph
from benchmarks.speed.wiring import cost
from fedrelax.engines.linear import GradientRounds
from fedrelax.linear import LinearProblem


@pytest.mark.parametrize("public", ["common", "per-node"])
def test_fit_and_the_engine_are_timed_on_the_same_problem(public):
    found = measure(300, 4, public=public)
    fit, engine = found["fit"], found["engine"]
    assert engine["converged"]
    assert fit["largest_difference"] < 5e-3
    assert fit["times_the_engine"] == pytest.approx(fit["seconds"] / engine["seconds"])
    assert fit["peak_bytes_of_process"] >= fit["peak_bytes_above_input"]
    assert engine["round_over_memcpy"] == pytest.approx(
        engine["round_seconds"] / engine["memcpy_seconds"]
    )


@pytest.mark.parametrize("stacked", [False, True])
def test_the_plain_loop_and_the_engine_do_the_same(stacked):
    """The baseline computes what the engine computes, or the comparison would be void."""
    torch = pytest.importorskip("torch", reason="the plain loop needs torch")
    data = autograd.papers_problem(12, 3, public_rows=20)
    loop = autograd.AutogradLoop(data, 0.05, stacked)
    start = np.stack([model.weight.detach().numpy().ravel().copy() for model in loop.models])
    problem = LinearProblem(data.X, data.y, data.graph.adjacency, data.public)
    rounds = GradientRounds(problem, 0.05, start[:, :, None])
    for _ in range(20):
        loop.step()
        rounds.step()
    ours = rounds.models[:, :, 0]
    theirs = np.stack([model.weight.detach().numpy().ravel() for model in loop.models])
    assert torch is not None
    assert np.abs(ours - theirs).max() < 1e-9


def test_scaling_fits_an_exponent():
    found = scaling([100, 200], 3)
    assert [line["nodes"] for line in found["lines"]] == [100, 200]
    assert np.isfinite(found["exponent"])


def test_the_graph_has_the_degree_asked_for():
    graph = nearest_graph(3000, 10)
    assert graph.adjacency.nnz / 3000 == pytest.approx(10, rel=0.1)


@pytest.mark.slow
def test_the_command_prints_json_only():
    assert results.bench("linear", nodes=600, features=3)["fit"]["nodes"] == 600


def test_a_wrong_word_is_refused():
    refused = CliRunner().invoke(app, ["linear", "--public", "some"])
    assert refused.exit_code == 2
    assert "--public some must be one of common, per-node" in refused.output
    refused = CliRunner().invoke(app, ["linear", "--scaling", "1000"])
    assert refused.exit_code == 2
    assert "two or more" in refused.output


def test_the_cost_of_wiring_is_measured_on_equal_rounds():
    found = cost(nodes=120, features=3, degree=4, rounds=24, repeats=1)
    assert found["nodes"] == 120
    assert found["rounds"] == 24
    assert found["ratio"] == pytest.approx(found["rewire_seconds"] / found["fixed_seconds"])


def test_the_page_of_results_begins_with_fit(monkeypatch):
    monkeypatch.setattr(results, "SIZES", (60, 120))
    monkeypatch.setattr(results, "find_spec", lambda name: None)

    def here(name, **options):
        """The same measurements, smaller and in this process."""
        if name == "wiring":
            return {"wiring": cost(nodes=60, features=3, degree=4, rounds=24, repeats=1)}
        return measure(**{**options, "nodes": min(options["nodes"], 120)})

    monkeypatch.setattr(results, "bench", here)
    page = results.page()
    first, second, _ = page.split("\n## ")[1:]
    assert first.startswith("`FedRelaxRegressor.fit`")
    for text in (first, second):
        columns = [line.count("|") for line in text.splitlines() if line.startswith("|")]
        assert len(columns) == 2 + 4
        assert len(set(columns)) == 1
