"""Nets of one architecture, trained all at once and one by one: the same rounds, the same results."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.speed.problems import exponent
from fedrelax.extras import need
from fedrelax.graph import Graph
from fedrelax.network import Network
from fedrelax.runtime import Callback, Record
from fedrelax.solvers import FedRelax, Result
from fedrelax.typing import AnyArray, FloatArray

ROWS, FEATURES, HIDDEN, PUBLIC_ROWS, NEAREST = 10, 10, 32, 100, 10
COMPARED = (("float64", 10), ("float32", 1), ("float32", 5))
"""The precisions in which, and the rounds after which, the two ways are compared."""

Progress = Callable[[str], None]


class _Clock(Callback):
    """Records when each round ends."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def after_round(self, record: Record) -> None:
        """Record the time."""
        self.times.append(time.perf_counter())

    @property
    def rounds(self) -> FloatArray:
        """The seconds of every round: share, measure, update; without the first fit."""
        return np.diff(self.times)


def network(nodes: int, steps: int, batched: bool, dtype: str = "float32") -> Network:
    """Return nodes in the plane with a perceptron 10-32-1 each and one common public set."""
    need("torch", "torch")
    from fedrelax.models.torch import MLP, TorchModel

    rng = np.random.default_rng(0)
    places = rng.uniform(size=(nodes, 2))
    spots = dict(enumerate(map(tuple, places.tolist())))
    graph = Graph.from_coordinates(spots, k=min(NEAREST, nodes - 1), metric="euclidean")
    made = Network(graph, public=rng.standard_normal((PUBLIC_ROWS, FEATURES)))
    model = TorchModel(MLP((HIDDEN,)), steps=steps, batched=batched, dtype=dtype)
    slope = rng.standard_normal(FEATURES)
    for i in range(nodes):
        X = rng.standard_normal((ROWS, FEATURES))
        made.add(i, X, np.sin(X @ slope) + 0.1 * rng.standard_normal(ROWS), model)
    return made


def _run(made: Network, rounds: int) -> tuple[Result, FloatArray]:
    clock = _Clock()
    result = FedRelax(rounds=rounds, tol=0.0).solve(made, [clock])
    return result, clock.rounds


def _answers(result: Result, X: AnyArray) -> FloatArray:
    return np.stack([model.predict(X) for model in result.local_models.values()])


def _difference(nodes: int, steps: int, rounds: int, dtype: str) -> float:
    """Return the largest difference of any node's predictions on the public rows."""
    both = []
    for batched in (True, False):
        made = network(nodes, steps, batched, dtype)
        both.append(_answers(_run(made, rounds)[0], made.public.of(0)))
    return float(np.abs(both[0] - both[1]).max())


def against_loop(
    nodes: int = 150,
    steps: int = 10,
    rounds: int = 5,
    repeats: int = 3,
    progress: Progress = lambda step: None,
) -> dict[str, Any]:
    """Return the seconds of a round both ways, and their ratio: the median over pairs of runs.

    The times are for single precision, in which nets are trained by default. There, sums in another
    order sooner or later send one of many nets across a kink of its ReLU, and from then on the two
    runs diverge. Double precision shows that they compute the same.
    """
    pairs = []
    for repeat in range(repeats):
        progress(f"pair of runs {repeat + 1} of {repeats}")
        together = _run(network(nodes, steps, True), 4 * rounds)[1]
        one_by_one = _run(network(nodes, steps, False), rounds)[1]
        pairs.append((float(np.median(together)), float(np.median(one_by_one))))
    progress("comparing the results")
    batched, loop = np.median(pairs, axis=0)
    return {
        "nodes": nodes,
        "steps_per_round": steps,
        "batched_round_seconds": float(batched),
        "loop_round_seconds": float(loop),
        "times_faster": float(np.median([b / a for a, b in pairs])),
        **{
            f"max_difference_{dtype}_rounds_{after}": _difference(nodes, steps, after, dtype)
            for dtype, after in COMPARED
        },
    }


def scaling(
    sizes: Sequence[int],
    steps: int = 10,
    rounds: int = 10,
    progress: Progress = lambda step: None,
) -> dict[str, Any]:
    """Return the seconds of a batched round for networks of growing size, and how they grow."""
    lines = []
    for nodes in sizes:
        progress(f"{nodes} nodes")
        seconds = float(np.median(_run(network(nodes, steps, True), rounds)[1]))
        lines.append(
            {"nodes": nodes, "round_seconds": seconds, "per_node_us": seconds / nodes * 1e6}
        )
    return {"exponent": exponent(lines, "round_seconds"), "lines": lines}
