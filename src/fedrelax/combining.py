"""How a node combines its neighbours' answers on one set of public rows: their mean, or more carefully.

A neighbour that lies, or whose data are damaged, can pull a mean as far as it likes. The other ways bound
what a minority can do. Each gives one pseudo-target per public row, so any model can learn from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedrelax.errors import FedRelaxError, did_you_mean
from fedrelax.typing import FloatArray as Array

Pair = tuple[Array, Array]

__all__ = ["Clipped", "Combine", "Huber", "Mean", "Median", "Nearest", "Trimmed", "as_combine"]

ENDLESS = 1e150
"""The squares of larger numbers soon overflow."""


class Combine(ABC):
    """A way to make one target per public row from several answers (neighbours, rows, outputs)."""

    name: ClassVar[str]
    compares: ClassVar[bool] = True
    """Whether neighbours are compared with each other, for which they must answer the same rows."""

    @abstractmethod
    def __call__(self, answers: Array, weights: Array, own: Array, span: Pair) -> Pair:
        """Return targets (rows, outputs) and the weight of every row.

        ``own`` are the node's own answers, ``span`` the smallest and largest of its own targets.
        """


@dataclass(frozen=True)
class Mean(Combine):
    """The weighted mean: exactly the coupling of the paper. One liar moves it anywhere."""

    name, compares = "mean", False

    def __call__(self, answers: Array, weights: Array, own: Array, span: Pair) -> Pair:
        """Return the mean."""
        return _mean(answers, weights[:, None, None])


@dataclass(frozen=True)
class Median(Combine):
    """The weighted median of every coordinate: liars with less than half of the weight are outvoted."""

    name = "median"

    def __call__(self, answers: Array, weights: Array, own: Array, span: Pair) -> Pair:
        """Return the median; between two answers of equal weight, their middle."""
        ordered, parts = _sorted(answers, weights)
        below, half = np.cumsum(parts, axis=0), weights.sum() / 2
        place = (below < half * (1 - 1e-9)).sum(axis=0, keepdims=True)
        value = np.take_along_axis(ordered, place, axis=0)[0]
        tie = np.take_along_axis(below, place, axis=0)[0] <= half * (1 + 1e-9)
        after = np.minimum(place + 1, len(ordered) - 1)
        other = np.take_along_axis(ordered, after, axis=0)[0]
        return np.where(tie, (value + other) / 2, value), np.full(len(own), weights.sum())


@dataclass(frozen=True)
class Trimmed(Combine):
    """The mean of every coordinate without the lowest and the highest ``share`` of the weight."""

    name = "trimmed"
    share: float = 0.25

    def __post_init__(self) -> None:
        if not 0 <= self.share < 0.5:
            raise FedRelaxError(f"Trimmed(share={self.share!r}) must be from 0 to below 0.5")

    def __call__(self, answers: Array, weights: Array, own: Array, span: Pair) -> Pair:
        """Return the mean of the middle; an answer at the border counts in part."""
        ordered, parts = _sorted(answers, weights)
        end, total = np.cumsum(parts, axis=0), weights.sum()
        low, high = self.share * total, (1 - self.share) * total
        inside = np.clip(end, low, high) - np.clip(end - parts, low, high)
        return _mean(ordered, inside)[0], np.full(len(own), total)


@dataclass(frozen=True)
class Clipped(Combine):
    """The mean of answers clipped to the range of the node's own targets, widened by ``margin`` of it."""

    name, compares = "clipped", False
    margin: float = 0.25

    def __post_init__(self) -> None:
        if not 0 <= self.margin < np.inf:
            raise FedRelaxError(f"Clipped(margin={self.margin!r}) must be at least 0")

    def __call__(self, answers: Array, weights: Array, own: Array, span: Pair) -> Pair:
        """Return the mean of what is left."""
        low, high = span
        more = self.margin * (high - low)
        return _mean(np.clip(answers, low - more, high + more), weights[:, None, None])


@dataclass(frozen=True)
class Huber(Combine):
    """A Huber discrepancy for any model: answers far from the node's own count for less.

    An answer at distance r counts min(1, delta / r), with delta ``times`` the median distance: the step of
    iteratively reweighted least squares, so a fixed point is one of the Huber discrepancy.
    """

    name, compares = "huber", False
    times: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.times < np.inf:
            raise FedRelaxError(f"Huber(times={self.times!r}) must be above 0")

    def __call__(self, answers: Array, weights: Array, own: Array, span: Pair) -> Pair:
        """Return the reweighted mean, and the weight that is left."""
        distance = np.linalg.norm(answers - own, axis=2)
        delta = self.times * float(np.median(distance))
        factor = np.minimum(1.0, delta / np.maximum(distance, np.finfo(float).tiny))
        return _mean(answers, (weights[:, None] * (factor if delta > 0 else 1.0))[..., None])


@dataclass(frozen=True)
class Nearest(Combine):
    """The mean of those who agree with the node: at most ``times`` as far from its own answers as the
    nearest ``share`` of its neighbours are on average, in mean square. The others are ignored."""

    name = "nearest"
    share: float = 0.25
    times: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise FedRelaxError(f"Nearest(share={self.share!r}) must be above 0 and at most 1")
        if not 1 <= self.times < np.inf:
            raise FedRelaxError(f"Nearest(times={self.times!r}) must be at least 1")

    def __call__(self, answers: Array, weights: Array, own: Array, span: Pair) -> Pair:
        """Return the mean of those who agree, with the weight of all."""
        apart = np.square(answers - own).mean(axis=(1, 2))
        first = np.sort(apart)[: max(1, round(self.share * len(apart)))]
        near = apart <= max(self.times * first.mean(), first[-1])
        target, _ = _mean(answers[near], weights[near, None, None])
        return target, np.full(len(own), weights.sum())


WAYS: dict[str, type[Combine]] = {
    kind.name: kind for kind in (Mean, Median, Trimmed, Clipped, Huber, Nearest)
}


def as_combine(given: str | Combine) -> Combine:
    """Return the way with this name, or the object itself.

    >>> as_combine("trimmed")
    Trimmed(share=0.25)
    """
    if isinstance(given, Combine):
        return given
    if not isinstance(given, str) or given not in WAYS:
        raise FedRelaxError(
            f"combine={given!r} must be one of {', '.join(WAYS)}, or a fedrelax.combining object"
            f"{did_you_mean(given, WAYS)}"
        )
    return WAYS[given]()


def usable(answer: Array, shape: tuple[int, ...], classes: bool) -> Array | None:
    """Return an answer that may be used, or None if it has another shape, NaN or numbers too large.

    What should be probabilities is made so: negative numbers become 0, and rows are scaled to sum to 1.
    """
    if answer.shape != shape or not (np.abs(answer) < ENDLESS).all():
        return None
    if not classes:
        return answer
    total = answer.sum(axis=-1, keepdims=True)
    if answer.min(initial=0.0) >= 0 and (np.abs(total - 1) < 1e-6).all():
        return answer
    positive = np.maximum(answer, 0.0)
    total = positive.sum(axis=-1, keepdims=True)
    return np.asarray(positive / total) if (total > 0).all() else None


def _sorted(answers: Array, weights: Array) -> tuple[Array, Array]:
    """Return every coordinate's answers from the smallest to the largest, and their weights."""
    order = np.argsort(answers, axis=0, kind="stable")
    return np.take_along_axis(answers, order, axis=0), weights[order]


def _mean(answers: Array, weights: Array) -> tuple[Array, Array]:
    """Return the mean of each coordinate, and the weight of each row."""
    weights = np.broadcast_to(weights, answers.shape)
    total = weights.sum(axis=0)
    return np.asarray((answers * weights).sum(axis=0) / total), np.asarray(total[:, 0])
