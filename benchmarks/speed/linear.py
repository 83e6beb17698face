"""Networks of linear models: the cost of ``FedRelaxRegressor.fit``, and of the bare engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.speed.floor import Floor, measure_floor, round_bytes, seconds_of, stored_bytes
from benchmarks.speed.problems import (
    BenchProblem,
    exponent,
    make_problem,
    nearest_graph,
    peak_bytes,
    resident_bytes,
)
from fedrelax.engines.linear.engine import RESIDUAL, LinearEngine
from fedrelax.estimators import FedRelaxRegressor
from fedrelax.linear import ExactUpdate, LinearProblem, solve_fixed_point
from fedrelax.models import LinearModel
from fedrelax.solvers import FedRelax
from fedrelax.splits import group_rows
from fedrelax.typing import AnyArray

ALPHA, RIDGE = 0.1, 0.1
TOLERANCE = RESIDUAL
"""The residual to which ``fit`` solves, too."""
ROWS, PUBLIC_ROWS = 10, 100
WARM_NODES = 100
Progress = Callable[[str], None]


def silent(step: str) -> None:
    """Ignore progress."""


def measure(
    nodes: int,
    features: int,
    degree: float = 10.0,
    public: str = "common",
    progress: Progress = silent,
) -> dict[str, Any]:
    """Time ``fit`` and then the bare engine on one nearest-neighbour graph, both in this process.

    ``fit`` comes first, so that the peak memory of the process is its own; it has the settings of a user
    who gives only alpha and a ridge penalty. The engine builds its problem from the same arrays and
    solves it to a relative residual of 1e-8, as ``fit`` does. Both have run once on a small network
    before the clock starts; then each runs twice, and the faster run counts.
    """
    warm = make_problem(nearest_graph(WARM_NODES, 5), ROWS, features, public, PUBLIC_ROWS)
    _fit(warm, silent)
    _solve(warm, silent)
    progress(f"drawing {nodes:,} nodes")
    data = make_problem(nearest_graph(nodes, degree), ROWS, features, public, PUBLIC_ROWS)
    progress("FedRelaxRegressor.fit")
    fit, weights, floor = _fit(data, progress)
    runs = [_solve(data, progress) for _ in range(2)]
    engine, models = min(runs, key=lambda run: run[0]["seconds"])
    engine |= {
        "round_seconds": floor.round_seconds,
        "bytes_per_round": floor.bytes_moved,
        "memcpy_seconds": floor.copy_seconds,
        "round_over_memcpy": floor.ratio,
    }
    setting = {"nodes": nodes, "features": features, "degree": round(data.degree, 2)}
    fit["times_the_engine"] = fit["seconds"] / engine["seconds"]
    fit["largest_difference"] = float(np.abs(weights - models).max())
    return {"fit": {**setting, "public": public, **fit}, "engine": engine}


def _fit(data: BenchProblem, progress: Progress) -> tuple[dict[str, Any], AnyArray, Floor]:
    """Return time and memory of ``fit`` on plain arrays, and the weights (n, d) that it found.

    A plain round is then timed by the engine for a given number of rounds, on the network of ``fit``.
    """
    n, m, d = data.X.shape
    X, y, nodes = data.X.reshape(n * m, d), data.y.ravel(), np.repeat(np.arange(n), m)
    public: Any = data.public if data.public.ndim == 2 else dict(enumerate(data.public))
    model = LinearModel(ridge=RIDGE, fit_intercept=False)
    estimator = FedRelaxRegressor(model, data.graph, alpha=ALPHA, public=public)
    before, first = resident_bytes(), seconds_of(lambda: estimator.fit(X, y, nodes=nodes))
    peak, second = peak_bytes(), seconds_of(lambda: estimator.fit(X, y, nodes=nodes))
    found = {
        "seconds": min(first, second),
        "rounds": estimator.n_rounds_,
        "peak_bytes_above_input": max(peak - before, 0),
        "peak_bytes_of_process": peak,
    }
    weights = np.stack([estimator.models_[i].coef_ for i in range(n)])
    progress("one round against memcpy")
    labels = estimator.result_.graph.labels
    rows = group_rows(nodes, len(X)).arranged(X, y, "regression", labels)
    network = estimator.network_of(X, y, rows, rows.held_out(0.0, np.random.default_rng())[1])
    engine = LinearEngine.of(network, FedRelax(alpha=ALPHA, rounds=1))
    engine.share(0)
    floor = measure_floor(engine.refit, round_bytes(engine.exact), repeats=9)
    return found, weights, floor


def _solve(data: BenchProblem, progress: Progress) -> tuple[dict[str, Any], AnyArray]:
    """Return times and sizes of the bare engine, and its weights (n, d)."""
    start = time.perf_counter()
    progress("engine: Gram matrices")
    problem = LinearProblem(data.X, data.y, data.graph.adjacency, data.public, ridge=RIDGE / ROWS)
    built = time.perf_counter()
    progress("engine: inverses")
    update = ExactUpdate(problem, ALPHA)
    factored = time.perf_counter()
    progress("engine: rounds")
    solution = solve_fixed_point(update, tol=TOLERANCE)
    solved = time.perf_counter()
    found = {
        "seconds": solved - start,
        "gram_seconds": built - start,
        "factor_seconds": factored - built,
        "solve_seconds": solved - factored,
        "rounds": solution.rounds,
        "converged": solution.converged,
        "stored_bytes": stored_bytes(update),
    }
    return found, solution.models[:, :, 0]


def scaling(
    sizes: Sequence[int], features: int, progress: Progress = silent, **settings: Any
) -> dict[str, Any]:
    """Time several n in this process and fit seconds ~ n^exponent."""
    lines = []
    for n in sizes:
        found = measure(n, features, progress=progress, **settings)
        fit, engine = found["fit"], found["engine"]
        lines.append(
            {
                "nodes": n,
                "fit_seconds": fit["seconds"],
                "engine_seconds": engine["seconds"],
                "times_the_engine": fit["times_the_engine"],
            }
        )
    return {"exponent": exponent(lines, "fit_seconds"), "lines": lines}
