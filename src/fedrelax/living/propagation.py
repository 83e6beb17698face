"""Refits that spread along edges from what changed, as long as answers move."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from fedrelax.living.network import LivingNetwork, overflow
from fedrelax.typing import FloatArray, Label

MOST, MOST_RESTLESS = 2000, 3
"""The most fits of a node in one ripple: if its model converges, and if it never quite does."""


@dataclass
class Propagation:
    """A queue of nodes that have something new to hear.

    A node whose answers have moved by more than ``tol``, relative to their size, since its neighbours last
    heard them puts these in the queue; a smaller movement is not lost, as it counts from the same point
    next time. Least-squares models that were once in the queue form a region, which is solved as a whole.
    ``hops`` is how far from the first nodes the ripple may go; None sets no limit.
    """

    network: LivingNetwork
    tol: float
    hops: int | None = None
    refits: dict[Label, int] = field(default_factory=dict)
    waiting: dict[Label, None] = field(default_factory=dict)
    movement: float = 0.0
    _heard: dict[Label, FloatArray] = field(default_factory=dict)
    _first: dict[Label, FloatArray] = field(default_factory=dict)
    _distance: dict[Label, int] = field(default_factory=dict)
    _queue: dict[Label, None] = field(default_factory=dict)
    _region: dict[Label, None] = field(default_factory=dict)

    def start(self, labels: Iterable[Label], distance: int = 0) -> None:
        """Put nodes in the queue, whatever they heard."""
        for label in labels:
            self._add(label, distance)

    def fitted(self, label: Label, before: FloatArray | None) -> None:
        """Record that a node was fitted; ``before`` is what its neighbours last heard from it."""
        self.refits[label] = self.refits.get(label, 0) + 1
        self._distance.setdefault(label, 0)
        if before is not None:
            self._first.setdefault(label, before)
            self._heard.setdefault(label, before)

    def spread(self, label: Label) -> None:
        """Put a node's neighbours in the queue if its answers have moved since they heard them."""
        network, now = self.network, self.network.said[label]
        before = self._heard.get(label)
        if before is not None and distance_of(now, before) <= self.tol:
            return
        self._heard[label] = now
        distance = self._distance.get(label, 0)
        if network.leans_on_itself(label) and label not in self._region:
            self._add(label, distance)
        for other in network.links[label]:
            if not (label in self._region and other in self._region):
                self._add(other, distance + 1)

    def _add(self, label: Label, distance: int) -> None:
        network = self.network
        self._distance[label] = min(distance, self._distance.get(label, distance))
        if label in self._queue or label in network.stayed or label not in network.models:
            return
        if (self.hops is not None and distance > self.hops) or not network.can_refit(label):
            self.waiting[label] = None
            return
        self._queue[label] = None

    def run(self) -> None:
        """Refit until the queue is empty."""
        network = self.network
        while self._queue:
            queue, self._queue = list(self._queue), {}
            region = [label for label in queue if network.least_squares.serves(label)]
            if region:
                self._solve(region)
            for label in queue:
                if label not in self._region:
                    self._refit(label)
        moves = {label: distance_of(network.said[label], old) for label, old in self._first.items()}
        for label, move in moves.items():
            if not math.isfinite(move):
                raise overflow(label)
        self.movement = max(moves.values(), default=0.0)

    def _solve(self, more: list[Label]) -> None:
        """Solve for all nodes of the region, and spread what changed beyond it."""
        network = self.network
        self._region.update(dict.fromkeys(more))
        labels = list(self._region)
        before = [network.said[label] for label in labels]
        network.least_squares.solve(labels, self.tol)
        for label, old in zip(labels, before, strict=True):
            self.fitted(label, old)
        for label in labels:
            self.spread(label)

    def _refit(self, label: Label) -> None:
        network = self.network
        most = MOST if network.models[label].settles else MOST_RESTLESS
        if self.refits.get(label, 0) < most:
            before = network.said[label]
            network.refit(label)
            self.fitted(label, before)
            self.spread(label)


def distance_of(now: FloatArray, before: FloatArray) -> float:
    """Return the root mean square change of answers relative to their size.

    >>> distance_of(np.array([[3.0], [4.0]]), np.array([[3.0], [4.0]]))
    0.0
    """
    change = now - before
    size = max(float(np.vdot(now, now)), np.finfo(float).tiny)
    return float(np.sqrt(np.vdot(change, change) / size))
