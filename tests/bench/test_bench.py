"""The benchmarks measure what they say, on problems small enough for a test."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from fedrelax.bench.autograd import AutogradLoop
from fedrelax.bench.linear import acceleration, engine, scaling
from fedrelax.bench.problems import block_graph, make_problem, nearest_graph
from fedrelax.engines.linear import GradientRounds, LinearProblem
from fedrelax.errors import FedRelaxError


@pytest.mark.parametrize("public", ["common", "per-node"])
@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_engine_solves_and_reports(public, dtype):
    found = engine(300, 4, public=public, dtype=dtype, public_rows=20)
    assert found["converged"]
    assert found["round_over_memcpy"] == pytest.approx(
        found["round_seconds"] / found["memcpy_seconds"]
    )
    assert found["stored_bytes"] >= found["problem_bytes"]


@pytest.mark.parametrize("stacked", [False, True])
def test_the_plain_loop_and_the_engine_do_the_same(stacked):
    """The baseline computes what the engine computes, or the comparison would be void."""
    torch = pytest.importorskip("torch", reason="the plain loop needs torch")
    data = make_problem(block_graph(12), 10, 3, "per-node", 20, np.float64)
    loop = AutogradLoop(data, 0.05, stacked)
    start = np.stack([model.weight.detach().numpy().ravel().copy() for model in loop.models])
    problem = LinearProblem(data.X, data.y, data.adjacency, data.public)
    rounds = GradientRounds(problem, 0.05, start[:, :, None])
    for _ in range(20):
        loop.step()
        rounds.step()
    ours = rounds.models[:, :, 0]
    theirs = np.stack([model.weight.detach().numpy().ravel() for model in loop.models])
    assert torch is not None
    assert np.abs(ours - theirs).max() < 1e-9


def test_acceleration_needs_at_most_a_fifth_of_the_rounds():
    assert acceleration(features=5, nodes=60)["ratio"] >= 5


def test_scaling_fits_an_exponent():
    found = scaling([100, 200], 3)
    assert [line["nodes"] for line in found["lines"]] == [100, 200]
    assert np.isfinite(found["exponent"])


def test_the_graph_has_the_degree_asked_for():
    assert nearest_graph(3000, 10).nnz / 3000 == pytest.approx(10, rel=0.1)


def test_too_large_is_refused_before_work():
    with pytest.raises(FedRelaxError, match="GB"):
        engine(10**9, 100, public="per-node")


def test_the_command_prints_json_only():
    command = [
        sys.executable,
        "-m",
        "fedrelax",
        "bench",
        "linear",
        "--nodes",
        "600",
        "--features",
        "3",
    ]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["engine"]["nodes"] == 600
    refused = subprocess.run(
        [*command, "--dtype", "f16"], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2
    assert "f16" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_cost_of_wiring_is_measured_on_equal_rounds():
    from fedrelax.bench.wiring import cost

    found = cost(nodes=120, features=3, degree=4, rounds=24, repeats=1)
    assert found["nodes"] == 120
    assert found["rounds"] == 24
    assert found["ratio"] == pytest.approx(found["rewire_seconds"] / found["fixed_seconds"])
