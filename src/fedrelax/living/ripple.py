"""Refits that spread along edges from what has changed, while answers move, and then stop."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fedrelax.typing import FloatArray, Label

if TYPE_CHECKING:
    from fedrelax.living.network import LivingNetwork

MOST = 2000
"""A node is fitted at most so often in one ripple; models that never rest (``MOST_RESTLESS``) less."""
MOST_RESTLESS = 3


@dataclass
class Ripple:
    """A queue of nodes that have something new to hear.

    A node whose answers have moved by more than ``tol`` since its neighbours last heard of it, relative to
    their size, puts these in the queue; what moved less is not lost, as it counts from the same point next
    time. ``hops`` is how far from the first nodes the ripple may go, None as far as it does.
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
    _queue: deque[Label] = field(default_factory=deque)
    _queued: set[Label] = field(default_factory=set)

    def moved_from(self, label: Label, before: FloatArray | None) -> None:
        """Say that a node was fitted: what its neighbours have heard of it until now, None if nothing."""
        self.refits[label] = self.refits.get(label, 0) + 1
        self._distance.setdefault(label, 0)
        if before is not None:
            self._first.setdefault(label, before)
            self._heard[label] = before

    def start(self, labels: Iterable[Label], distance: int = 0) -> None:
        """Put nodes in the queue, whatever they have heard."""
        for label in labels:
            self._add(label, distance)

    def spread(self, label: Label) -> None:
        """Put a node's neighbours in the queue, if its answers have moved since they heard of it."""
        network, now = self.network, self.network.said[label]
        before = self._heard.get(label)
        if before is not None and distance_of(now, before) <= self.tol:
            return
        self._heard[label] = now
        further = self._distance.get(label, 0) + 1
        if network.leans_on_itself(label):
            self._add(label, self._distance.get(label, 0))
        for other in network.links[label]:
            self._add(other, further)

    def _add(self, label: Label, distance: int) -> None:
        network = self.network
        self._distance[label] = min(distance, self._distance.get(label, distance))
        if label in self._queued or label in network.stayed or label not in network.models:
            return
        if (self.hops is not None and distance > self.hops) or not network.can_refit(label):
            self.waiting[label] = None
            return
        self._queue.append(label)
        self._queued.add(label)

    def run(self) -> None:
        """Refit until the queue is empty."""
        network = self.network
        while self._queue:
            label = self._queue.popleft()
            self._queued.discard(label)
            most = MOST if network.models[label].settles else MOST_RESTLESS
            if self.refits.get(label, 0) >= most:
                continue
            before = network.said[label]
            self._first.setdefault(label, before)
            self._heard.setdefault(label, before)
            network.refit(label)
            self.refits[label] = self.refits.get(label, 0) + 1
            self.spread(label)
        moves = [distance_of(network.said[i], old) for i, old in self._first.items()]
        self.movement = max(moves, default=0.0)


def distance_of(now: FloatArray, before: FloatArray) -> float:
    """Return the root mean square change of answers relative to their size.

    >>> distance_of(np.array([[3.0], [4.0]]), np.array([[3.0], [4.0]]))
    0.0
    """
    change = now - before
    size = max(float(np.vdot(now, now)), np.finfo(float).tiny)
    return float(np.sqrt(np.vdot(change, change) / size))
