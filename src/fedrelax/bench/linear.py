"""The linear engine: how near to the memory limit, how it grows, and against a plain loop."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedrelax.bench.autograd import AutogradLoop
from fedrelax.bench.problems import (
    BenchProblem,
    block_graph,
    make_problem,
    nearest_graph,
    peak_bytes,
    resident_bytes,
)
from fedrelax.engines.linear import (
    ExactUpdate,
    GradientRounds,
    LinearProblem,
    estimate_bytes,
    measure_floor,
    require_memory,
    solve_accelerated,
    solve_conjugate,
    solve_rounds,
)

ALPHA = 0.1
TOLERANCE = 1e-6
DTYPES = {"f64": np.float64, "f32": np.float32}
Progress = Callable[[str, int, int], None]


def silent(step: str, done: int, total: int) -> None:
    """Take progress and show nothing."""


def engine(
    nodes: int,
    features: int,
    degree: float = 10.0,
    public: str = "common",
    dtype: str = "f64",
    rows: int = 10,
    public_rows: int = 100,
    floor: bool = True,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Build, solve and time one problem on a nearest-neighbour graph; all in this process."""
    kind = DTYPES[dtype]
    edges = int(nodes * degree / 2)
    method = "conjugate" if public == "common" else "accelerated"
    sizes = {"m": rows, "m_pub": None if public == "common" else public_rows, "dtype": kind}
    needed = estimate_bytes(nodes, features, 1, edges, public=public, method=method, **sizes)  # type: ignore[arg-type]
    require_memory(needed, n=nodes, d=features, common=public == "common")
    data = make_problem(nearest_graph(nodes, degree), rows, features, public, public_rows, kind)
    before, start = resident_bytes(), time.perf_counter()
    problem = LinearProblem(
        data.X,
        data.y,
        data.adjacency,
        data.public,
        dtype=kind,
        progress=lambda done, total: progress("Gram matrices", done, total),
    )
    built = time.perf_counter()
    stored = problem.nbytes
    update = ExactUpdate(problem, ALPHA)
    factored = time.perf_counter()
    solve = solve_conjugate if public == "common" else solve_accelerated
    solution = solve(
        update,
        tol=TOLERANCE,
        progress=lambda done, residual: progress(f"solving, residual {residual:.1e}", done, 0),
    )
    solved, peak = time.perf_counter(), peak_bytes()
    result: dict[str, Any] = {
        "nodes": nodes,
        "features": features,
        "degree": round(data.degree, 2),
        "public": public,
        "dtype": dtype,
        "gram_seconds": built - start,
        "factor_seconds": factored - built,
        "solve_seconds": solved - factored,
        "end_to_end_seconds": solved - start,
        "rounds_to_1e-6": solution.rounds,
        "converged": solution.converged,
        "problem_bytes": stored,
        "stored_bytes": stored + update.nbytes,
        "peak_bytes_above_input": max(peak - before, 0),
        "peak_bytes_of_process": peak,
    }
    if floor:
        found = measure_floor(update, repeats=9)
        result |= {
            "round_seconds": found.round_seconds,
            "bytes_per_round": found.bytes_moved,
            "memcpy_seconds": found.copy_seconds,
            "round_over_memcpy": found.ratio,
        }
    return result


def against_autograd(features: int, nodes: int = 150, public_rows: int = 100) -> dict[str, Any]:
    """Time one RMSprop round of the engine and of the plain PyTorch loop on the paper's problem."""
    data = make_problem(block_graph(nodes), 10, features, "per-node", public_rows, np.float64)
    problem = LinearProblem(data.X, data.y, data.adjacency, data.public)
    result: dict[str, Any] = {"nodes": nodes, "features": features, "degree": round(data.degree, 1)}
    seconds = {
        "rmsprop": _per_round(GradientRounds(problem, 0.01).step, 300),
        "exact": _per_round(_exact_step(problem, 0.01), 300),
    }
    result |= {f"{name}_seconds": value for name, value in seconds.items()}
    if importlib.util.find_spec("torch") is None:
        return result | {"autograd": "torch is not installed"}
    for name, stacked in (("loop", False), ("stacked", True)):
        plain = AutogradLoop(data, 0.01, stacked).seconds_per_round()
        result[f"autograd_{name}_seconds"] = plain
        result[f"rmsprop_times_faster_than_{name}"] = plain / seconds["rmsprop"]
    return result


def _exact_step(problem: LinearProblem, alpha: float) -> Callable[[], object]:
    from fedrelax.engines.linear import SimultaneousRounds

    return SimultaneousRounds(ExactUpdate(problem, alpha)).step


def _per_round(step: Callable[[], object], rounds: int) -> float:
    """Return the least mean time per round over five runs."""
    step()
    means = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(rounds):
            step()
        means.append((time.perf_counter() - start) / rounds)
    return min(means)


def acceleration(features: int = 10, nodes: int = 150) -> dict[str, Any]:
    """Count rounds to 1e-6 at alpha = 1: plain simultaneous updates against the accelerated."""
    data: BenchProblem = make_problem(block_graph(nodes), 10, features, "per-node", 100, np.float64)
    update = ExactUpdate(LinearProblem(data.X, data.y, data.adjacency, data.public), 1.0)
    plain = solve_rounds(update, tol=TOLERANCE, max_rounds=100_000)
    fast = solve_accelerated(update, tol=TOLERANCE)
    return {
        "nodes": nodes,
        "features": features,
        "plain_rounds": plain.rounds,
        "accelerated_rounds": fast.rounds,
        "ratio": plain.rounds / fast.rounds,
    }


def scaling(
    sizes: Sequence[int], features: int, progress: Progress = silent, **settings: Any
) -> dict[str, Any]:
    """Time end to end over several n and fit seconds ~ n^exponent."""
    lines = []
    for number, n in enumerate(sizes):
        progress(f"n = {n:,}", number, len(sizes))
        lines.append(engine(n, features, floor=False, **settings))
    seconds = [line["end_to_end_seconds"] for line in lines]
    exponent = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
    keep = ("nodes", "end_to_end_seconds", "rounds_to_1e-6", "stored_bytes")
    return {"exponent": exponent, "lines": [{name: line[name] for name in keep} for line in lines]}
