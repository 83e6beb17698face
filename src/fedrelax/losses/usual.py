"""The losses: squared, absolute and Huber for numbers, of which several are summed, and log for classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

from fedrelax.errors import FedRelaxError
from fedrelax.losses.base import Loss
from fedrelax.typing import FloatArray

BOTH = frozenset({"regression", "classification"})
REGRESSION = frozenset({"regression"})
SMALLEST = 1e-15
"""Probabilities are clipped here, so that a sure and wrong answer costs much but not infinity."""


@dataclass(frozen=True, repr=False)
class Squared(Loss):
    """(t - p)^2; on class probabilities, the Brier score."""

    name, tasks, symmetric, collapses = "squared", BOTH, True, True

    def per_row(self, target: FloatArray, prediction: FloatArray) -> FloatArray:
        """Return the squared distance of each row."""
        difference = target - prediction
        return np.asarray(np.einsum("...q,...q->...", difference, difference))

    def gradient(self, target: FloatArray, prediction: FloatArray) -> FloatArray:
        """Return 2 (p - t)."""
        return 2.0 * (prediction - target)


@dataclass(frozen=True, repr=False)
class Absolute(Loss):
    """|t - p|: the median instead of the mean, so outliers count less."""

    name, tasks, symmetric, collapses = "absolute", REGRESSION, True, False

    def per_row(self, target: FloatArray, prediction: FloatArray) -> FloatArray:
        """Return the absolute distance of each row."""
        return np.asarray(np.abs(target - prediction).sum(axis=-1))

    def gradient(self, target: FloatArray, prediction: FloatArray) -> FloatArray:
        """Return the sign of p - t (a subgradient)."""
        return np.sign(prediction - target)


@dataclass(frozen=True, repr=False)
class Huber(Loss):
    """(t - p)^2 / 2 near zero and delta (|t - p| - delta / 2) beyond ``delta``."""

    delta: float = 1.0
    name, tasks, symmetric, collapses = "huber", REGRESSION, True, False

    def __post_init__(self) -> None:
        if not (np.isfinite(self.delta) and self.delta > 0):
            raise FedRelaxError(f"Huber(delta={self.delta!r}): delta must be a positive number")

    def per_row(self, target: FloatArray, prediction: FloatArray) -> FloatArray:
        """Return the Huber distance of each row."""
        size = np.abs(target - prediction)
        near = np.minimum(size, self.delta)
        return np.asarray((near * (size - near / 2)).sum(axis=-1))

    def gradient(self, target: FloatArray, prediction: FloatArray) -> FloatArray:
        """Return p - t, clipped to +-delta."""
        return np.clip(prediction - target, -self.delta, self.delta)

    def __repr__(self) -> str:
        return f"Huber(delta={self.delta:g})"


@dataclass(frozen=True, repr=False)
class Log(Loss):
    """sum_c t_c log(t_c / p_c): the log loss for a hard label, Kullback-Leibler for a soft one.

    It differs from cross-entropy by the entropy of the target, which no learner can change, and is
    zero where two nodes agree.
    """

    name, tasks, symmetric, collapses = "log", frozenset({"classification"}), False, True

    def per_row(self, target: FloatArray, prediction: FloatArray) -> FloatArray:
        """Return the divergence of each row."""
        likely = np.clip(prediction, SMALLEST, 1.0)
        return np.asarray((xlogy(target, target) - target * np.log(likely)).sum(axis=-1))

    def gradient(self, target: FloatArray, prediction: FloatArray) -> FloatArray:
        """Return -t / p."""
        return -target / np.clip(prediction, SMALLEST, 1.0)
