"""The objective that a network minimises, by its formula on explicit rows."""

from __future__ import annotations

import numpy as np

from .linear_networks import Net


def objective(net: Net, models: np.ndarray, alpha: float) -> float:
    """Return GTVMin's ``sum_i L_i + alpha GTV``, the symmetric system's minimum."""
    total = 0.0
    for i in range(net.n):
        error = net.rows(net.X[i]) @ models[i] - net.y[i]
        coefficients = models[i][: net.X[i].shape[1]]
        total += np.sum(error**2) / len(error) + net.ridge[i] * np.sum(coefficients**2)
        for j in np.flatnonzero(net.A[i]):
            seen = net.public(j) @ (models[i] - models[j])
            total += alpha * net.A[i, j] * np.sum(seen**2) / len(seen)
    return float(total)
