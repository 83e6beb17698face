"""The quantities that a network minimises, by their formulas."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedrelax.engines.linear.measures import Variation
from fedrelax.linear import LinearProblem
from fedrelax.typing import FloatArray


def local_losses(problem: LinearProblem, models: npt.ArrayLike) -> FloatArray:
    """Return ``|X_i w_i - y_i|^2/m_i + w_i'R_i w_i`` per node."""
    W = problem.start(models)
    inner = problem.own.apply(W, np.empty_like(W)) - 2 * problem.moment
    inner += problem.ridge[:, :, None] * W
    loss: FloatArray = (W * inner).sum(axis=(1, 2)) + problem.power.sum(axis=1)
    return loss


def variations(problem: LinearProblem, models: npt.ArrayLike) -> FloatArray:
    """Return ``sum_j A_ij (w_i - w_j)'Q_j(w_i - w_j)`` per node i; GTV is their sum."""
    W = problem.start(models)
    total: FloatArray = Variation(problem).nodes(W, W)
    return total


def objective(problem: LinearProblem, models: npt.ArrayLike, alpha: float) -> float:
    """Return GTVMin's ``sum_i L_i + alpha GTV``, the symmetric system's minimum.

    With one common public set the paper's rounds at alpha minimise this at alpha/2.
    """
    losses = float(local_losses(problem, models).sum())
    return losses + alpha * float(variations(problem, models).sum())
