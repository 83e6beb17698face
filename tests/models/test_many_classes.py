"""Newton's method for softmax regression with many classes."""

from __future__ import annotations

import numpy as np
import pytest

from fedrelax.linear import softmax as newton


def soft_rows(classes: int, rows: int = 120, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows and their soft labels: the first half soft, the others one class each, of any weight."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 5))
    scores = np.exp(2 * X @ rng.normal(size=(5, classes)))
    target = scores / scores.sum(axis=1, keepdims=True)
    target[rows // 2 :] = np.eye(classes)[target[rows // 2 :].argmax(axis=1)]
    return X, target


@pytest.mark.parametrize("ridge", [1e-3, 1e-1])
@pytest.mark.parametrize("classes", [12, 40])
def test_without_forming_the_hessian_newton_finds_the_same(classes, ridge, monkeypatch):
    X, target = soft_rows(classes)
    X = np.hstack([X, np.ones((len(X), 1))])
    weight, penalty = np.full(len(X), 1 / len(X)), np.append(np.full(5, ridge), 0.0)
    start = np.zeros((6, classes))
    node = newton.SoftmaxNodes(X[None], target[None], weight[None], penalty[None])
    exact = newton.minimise_softmax(node, start[None])[0]
    monkeypatch.setattr(newton, "MOST_WEIGHTS", 0)
    found = newton.minimise_softmax(node, start[None])[0]
    shares = [np.exp(X @ W) / np.exp(X @ W).sum(axis=1, keepdims=True) for W in (exact, found)]
    assert shares[1] == pytest.approx(shares[0], abs=1e-7)


def test_with_very_many_classes_newton_ends_where_no_slope_is_left():
    X, target = soft_rows(200, rows=80)
    weight, penalty = np.ones(len(X)), np.full(5, 1e-3)
    node = newton.SoftmaxNodes(X[None], target[None], weight[None], penalty[None])
    W = newton.minimise_softmax(node, np.zeros((1, 5, 200)))[0]
    scores = np.exp(X @ W - (X @ W).max(axis=1, keepdims=True))
    pull = scores / scores.sum(axis=1, keepdims=True) - target
    slope = X.T @ pull + 2 * penalty[:, None] * W
    start = X.T @ (1 / 200 - target)
    assert np.abs(slope).max() < 1e-4 * np.abs(start).max()
