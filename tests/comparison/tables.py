"""Rows of nodes that are alike, or not, and a model for them."""

from __future__ import annotations

import numpy as np

from fedrelax import FedRelax, FedRelaxRegressor
from fedrelax.datasets import clustered
from fedrelax.models import LinearModel


def flat(network):
    """All rows of a synthetic network, training and validation, below each other."""
    X = np.concatenate([network.X, network.X_val], axis=1)
    y = np.concatenate([network.y, network.y_val], axis=1)
    n, m, d = X.shape
    return X.reshape(n * m, d), y.ravel(), np.repeat(np.arange(n), m)


def apart(n=6, rows=40, d=3, seed=0):
    """Nodes whose weights have nothing in common."""
    rng = np.random.default_rng(seed)
    X, nodes = rng.normal(size=(n * rows, d)), np.repeat(np.arange(n), rows)
    weights = 5 * rng.normal(size=(n, d))
    return X, np.einsum("rd,rd->r", X, weights[nodes]) + 0.3 * rng.normal(size=len(X)), nodes


def few(n=4, rows=10, seed=0):
    return flat(clustered((n,), m=rows, m_val=0, d=3, sigma=0.5, random_state=seed))


def linear(graph=None, rounds=10):
    return FedRelaxRegressor(
        LinearModel(ridge=1.0), graph, rounds=rounds, solver=FedRelax(tol=1e-3), alpha=0.1
    )
