"""Many classes cost no copies of rows, and the models are those that copies would give."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from fedrelax import FedRelax, FedRelaxClassifier
from fedrelax.linear import softmax as newton
from fedrelax.losses import Log
from fedrelax.models import scikit
from fedrelax.models.base import Rows, Task
from fedrelax.models.scikit import ScikitModel


def soft_rows(classes: int, rows: int = 120, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows and their soft labels: the first half soft, the others one class each, of any weight."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 5))
    scores = np.exp(2 * X @ rng.normal(size=(5, classes)))
    target = scores / scores.sum(axis=1, keepdims=True)
    target[rows // 2 :] = np.eye(classes)[target[rows // 2 :].argmax(axis=1)]
    return X, target


@pytest.mark.parametrize("settings", [{}, {"C": 50.0}, {"C": 0.02}, {"fit_intercept": False}])
def test_logistic_regression_without_copies_is_that_with_copies(settings, monkeypatch):
    X, target = soft_rows(30)
    weight = np.random.default_rng(1).uniform(0.01, 1, len(X))
    task = Task("classification", 30, np.arange(100, 130))
    model = ScikitModel(LogisticRegression(max_iter=10000, tol=1e-9, **settings), task)
    terms = [Rows(X, target, weight, Log())]
    copied = model.fit(terms, seed=0)
    monkeypatch.setattr(scikit, "MANY_NUMBERS", 0)
    soft = model.fit(terms, seed=0)
    assert np.array_equal(soft.estimator.classes_, copied.estimator.classes_)
    assert soft.estimator.coef_ == pytest.approx(copied.estimator.coef_, abs=1e-5)
    assert soft.predict(X) == pytest.approx(copied.predict(X), abs=1e-6)
    assert np.array_equal(soft.estimator.predict(X), copied.estimator.predict(X))


def test_what_is_not_known_exactly_is_copied():
    share = np.full((300, 100), 0.01)
    assert scikit.is_served(LogisticRegression(), share)
    assert not scikit.is_served(LogisticRegression(), share[:10, :10])
    for other in (
        LogisticRegression(solver="saga"),
        LogisticRegression(class_weight="balanced"),
        LogisticRegression(warm_start=True),
        StandardScaler(),
    ):
        assert not scikit.is_served(other, share)
    assert not scikit.is_served(LogisticRegression(), np.eye(1500))


def test_a_whole_run_is_the_same_without_copies(monkeypatch):
    rng = np.random.default_rng(3)
    X, nodes = rng.normal(size=(240, 3)), np.arange(240) % 3
    y = (X @ rng.normal(size=(3, 25)) + rng.gumbel(size=(240, 25))).argmax(axis=1)
    logistic = LogisticRegression(max_iter=10000, tol=1e-9)
    model = FedRelaxClassifier(
        logistic, rounds=2, solver=FedRelax(tol=0.0), public_rows=40, alpha=0.1
    )
    copied = model.fit(X, y, nodes).predict_proba(X, nodes)
    monkeypatch.setattr(scikit, "MANY_NUMBERS", 0)
    assert model.fit(X, y, nodes).predict_proba(X, nodes) == pytest.approx(copied, abs=1e-6)


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
