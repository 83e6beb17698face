"""The loss for class probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

from fedrelax.losses.base import Loss
from fedrelax.typing import FloatArray

SMALLEST = 1e-15
"""Probabilities are clipped here, so that a sure and wrong answer costs much but not infinity."""


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
