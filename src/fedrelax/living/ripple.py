"""Refits that spread along edges from what changed, as long as answers move."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy

import numpy as np

from fedrelax.errors import counted
from fedrelax.living.network import LivingNetwork, check_finite
from fedrelax.solvers.base import USUAL_TOL
from fedrelax.typing import FloatArray, Label
from fedrelax.validation import check_number

RESTLESS_TOL = 0.1
"""The change that counts as converged where models never quite converge, such as trees."""
MOST, MOST_RESTLESS = 2000, 3
"""The most fits of a node in one ripple: if its model converges, and if it never quite does."""
TOGETHER = (
    "the models of this network were found for all nodes together, so the others stay as they are; fit "
    "again with all rows to let them follow"
)


class Ripple:
    """A queue of nodes that have something new to hear.

    A node whose answers have moved by more than ``tol``, relative to their size, since its neighbours last
    heard them puts these in the queue; a smaller movement is not lost, as it counts from the same point
    next time. Least-squares models that were once in the queue form a region, which is solved as a whole.

    tol : by default, as suits the models of the nodes ``near`` the change, which has not happened yet.
    """

    def __init__(self, network: LivingNetwork, near: Iterable[Label], tol: float | None) -> None:
        if tol is None:
            models = [network.models[label] for label in near]
            tol = USUAL_TOL if all(model.settles for model in models) else RESTLESS_TOL
        check_number("tol", tol, least=0)
        self.network, self.tol = network, tol
        self.refits: dict[Label, int] = {}
        self.waiting: dict[Label, None] = {}
        self._before = copy(network.said)
        self._heard: dict[Label, FloatArray] = {}
        self._queue: dict[Label, None] = {}
        self._region: dict[Label, None] = {}

    def fitted(self, label: Label) -> None:
        """Record that a node was fitted."""
        self.refits[label] = self.refits.get(label, 0) + 1
        if label in self._before:
            self._heard.setdefault(label, self._before[label])

    def spread(self, label: Label) -> None:
        """Put a node's neighbours in the queue if its answers have moved since they heard them."""
        network, answer = self.network, self.network.said[label]
        before = self._heard.get(label)
        if before is not None and relative_change(answer, before) <= self.tol:
            return
        self._heard[label] = answer
        inside = label in self._region
        if network.moves_in_steps and not inside:
            self.add(label)
        for other in network.links[label]:
            if not (inside and other in self._region):
                self.add(other)

    def add(self, label: Label) -> None:
        """Put a node in the queue, whatever it has heard, or note that its rows are not available."""
        network = self.network
        if label not in network.stayed and label in network.models:
            (self._queue if network.can_refit(label) else self.waiting)[label] = None

    def run(self) -> None:
        """Refit until the queue is empty."""
        network = self.network
        while self._queue:
            queue, self._queue = list(self._queue), {}
            solvable = [label for label in queue if network.least_squares.serves(label)]
            if solvable:
                self._region |= dict.fromkeys(solvable)
                network.least_squares.solve(list(self._region), self.tol)
                for label in self._region:
                    self.fitted(label)
                for label in self._region:
                    self.spread(label)
            for label in queue:
                most = MOST if network.models[label].settles else MOST_RESTLESS
                if label not in self._region and self.refits.get(label, 0) < most:
                    network.refit(label)
                    self.fitted(label)
                    self.spread(label)

    @property
    def movement(self) -> float:
        """The largest change of a node's answers, relative to their size."""
        said, before = self.network.said, self._before
        moves = {i: relative_change(said[i], before[i]) for i in self.refits if i in before}
        for label, move in moves.items():
            check_finite(label, move)
        return max(moves.values(), default=0.0)

    @property
    def notes(self) -> tuple[str, ...]:
        """Who does not follow, and why, a sentence each."""
        if self.network.found_together:
            return (TOGETHER,)
        if not self.waiting:
            return ()
        who = counted(len(self.waiting), "neighbour")
        return (f"not refitted, as their rows are not available: {who}",)


def relative_change(now: FloatArray, before: FloatArray) -> float:
    """Return the root mean square change of answers relative to their size.

    >>> relative_change(np.array([[3.0], [4.0]]), np.array([[3.0], [4.0]]))
    0.0
    """
    size = max(float(np.linalg.norm(now)), np.finfo(float).tiny)
    return float(np.linalg.norm(now - before)) / size
