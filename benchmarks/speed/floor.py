"""How close a round is to memory bandwidth: its time against a copy of the bytes it must move."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from fedrelax.linear import ExactUpdate
from fedrelax.typing import SparseMatrix


@dataclass(frozen=True)
class Floor:
    """The bytes that a round must move, and the median seconds of a round and of a copy of them."""

    bytes_moved: int
    round_seconds: float
    copy_seconds: float

    @property
    def ratio(self) -> float:
        """Round time divided by copy time."""
        return self.round_seconds / self.copy_seconds


def round_bytes(update: ExactUpdate) -> int:
    """Return the least number of bytes that an exact round must move.

    The nodes' matrices (an inverse, and Q where every node has its own), the graph, b and the last round's
    vectors are read once, the new vectors are written once. Intermediate vectors are not counted.
    """
    problem = update.problem
    matrices = update.inverse.nbytes + problem.public.nbytes * int(problem.public.ndim == 3)
    return int(matrices + _graph_bytes(problem.adjacency) + 3 * problem.moment.nbytes)


def stored_bytes(update: ExactUpdate) -> int:
    """Return the size of a problem and its update in bytes."""
    problem = update.problem
    arrays = (update.inverse, update.matrices, problem.own, problem.public, problem.moment)
    return int(sum(array.nbytes for array in arrays) + _graph_bytes(problem.adjacency))


def _graph_bytes(graph: SparseMatrix) -> int:
    return int(graph.data.nbytes + graph.indices.nbytes + graph.indptr.nbytes)


def measure_floor(step: Callable[[], object], moved: int, *, repeats: int = 7) -> Floor:
    """Time rounds and copies of the bytes that one must move, in turn, after one of each."""
    source = np.ones(moved, dtype=np.uint8)
    target = np.zeros_like(source)
    actions = (step, partial(np.copyto, target, source))
    times = np.array([[seconds_of(action) for action in actions] for _ in range(repeats + 1)])
    return Floor(moved, *np.median(times[1:], axis=0).tolist())


def seconds_of(action: Callable[[], object]) -> float:
    """Return the time of one call."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start
