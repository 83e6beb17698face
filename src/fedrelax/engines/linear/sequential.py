"""Rounds of exact updates in which one node follows another."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fedrelax.errors import FedRelaxError
from fedrelax.linear.fixed_point import ExactUpdate
from fedrelax.typing import AnyArray, IntArray, SparseMatrix


class SequentialRounds:
    """Gauss-Seidel order: nodes 0, 1, 2, ... as given, each responding to the newest messages.

    A node sends its new model, or with ``damping``, ``(1 - damping) argmin + damping last message``.
    Nodes that do not depend on each other are updated together; the result is the same as one by one.
    On the symmetric objective, an undamped update never increases the objective.
    """

    def __init__(
        self, update: ExactUpdate, initial: npt.ArrayLike | None = None, *, damping: float = 0.0
    ) -> None:
        problem = update.problem
        self.update = update
        if not 0 <= damping < 1:
            raise FedRelaxError(f"damping: expected a number in [0, 1), found {damping}")
        self.damping = damping
        self.rounds = 0
        self.messages = problem.start(initial)
        self.W = self.messages.copy()
        self.s = np.zeros_like(self.W)
        self._sent = update.coupling.on_public(self.messages, np.empty_like(self.W))
        graph = update.coupling.exchange.graph
        self._levels = [(nodes, graph[nodes]) for nodes in levels(graph)]

    def step(self) -> None:
        """Run one pass over all nodes."""
        update, problem = self.update, self.update.problem
        for nodes, graph in self._levels:
            s = problem.moment[nodes] + _sums(graph, self._sent)
            if update.coupling.symmetric:
                s += self._on_public(nodes, _sums(graph, self.messages))
            self.s[nodes] = s
            self.W[nodes] = new = update.inverse[nodes] @ s
            if self.damping:
                new = (1 - self.damping) * new + self.damping * self.messages[nodes]
            self.messages[nodes] = new
            self._sent[nodes] = self._on_public(nodes, new)
        self.rounds += 1

    def state(self) -> dict[str, AnyArray]:
        """Return what the next pass starts from."""
        return {"messages": self.messages, "models": self.W, "s": self.s, "sent": self._sent}

    def resume(self, state: dict[str, AnyArray]) -> None:
        """Restore that state."""
        for name, own in self.state().items():
            np.copyto(own, state[name])

    def _on_public(self, nodes: AnyArray, W: AnyArray) -> AnyArray:
        coupling, public = self.update.coupling, self.update.problem.public
        if coupling.common is not None:
            return coupling.common @ W
        assert public is not None
        return public.dense(nodes) @ W

    @property
    def models(self) -> AnyArray:
        """All models (n, d, q)."""
        return self.W.copy()


def _sums(graph: Any, values: AnyArray) -> AnyArray:
    """Return the neighbour sums of the nodes whose rows of the adjacency are given."""
    flat = graph @ values.reshape(len(values), -1)
    return np.asarray(flat).reshape(graph.shape[0], *values.shape[1:])


def levels(adjacency: SparseMatrix) -> list[IntArray]:
    """Group nodes so that each comes after its lower-numbered neighbours; no edge is within a group."""
    n = adjacency.shape[0]
    rows = np.repeat(np.arange(n), np.diff(adjacency.indptr))
    later = adjacency.indices > rows
    starts = np.concatenate([[0], np.cumsum(later)])[adjacency.indptr]
    targets = adjacency.indices[later]
    waiting = np.diff(adjacency.indptr) - np.diff(starts)
    found = []
    front = np.flatnonzero(waiting == 0)
    while front.size:
        found.append(front)
        sizes = starts[front + 1] - starts[front]
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        released, times = np.unique(
            targets[np.repeat(starts[front], sizes) + within], return_counts=True
        )
        waiting[released] -= times
        front = released[waiting[released] == 0]
    return found
