"""At convergence no node can lower its own objective: one test for every loss x exact model."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, QuantileRegressor, Ridge

from fedrelax import FedRelax, LinearModel, SoftmaxModel
from fedrelax.losses import Huber, Squared, Weighted, get_loss
from tests.conftest import classification_network, regression_network


def where_it_matters(X):
    """A weight that falls off with the first feature, and is 0 for some rows."""
    return np.maximum(1.0 - X[:, 0], 0.0)


REGRESSION = [
    (LinearRegression(), "squared", None),
    (Ridge(alpha=0.5), "squared", None),
    (LinearModel(), "squared", None),
    (LinearModel(), "huber", None),
    (LinearModel(), "absolute", None),
    (LinearModel(ridge=0.2), "huber", None),
    (QuantileRegressor(quantile=0.5, alpha=0.0), "absolute", None),
    (LinearModel(), "squared", "huber"),
    (LinearModel(), Huber(2.0), "squared"),
    (Ridge(alpha=0.5), "squared", Weighted(Squared(), where_it_matters)),
    (LinearModel(), Huber(2.0), Weighted(Squared(), where_it_matters)),
]


def penalty(model) -> float:
    if isinstance(model, Ridge):
        return model.alpha * float((model.coef_**2).sum())
    if isinstance(model, LinearModel | SoftmaxModel):
        return model.ridge * float((model.coef_**2).sum())
    if isinstance(model, LogisticRegression):
        return 0.5 / model.C * float((model.coef_**2).sum())
    return 0.0


def own_objective(network, result, label, model, predict, alpha, loss, discrepancy) -> float:
    """m_i (L_i + alpha sum_j A_ij d(i, j)) + the model's own penalty, with the others as they are."""
    node, task = network.nodes[label], result.task
    total = loss.mean(task.encode(node.y), predict(model, node.X))
    for j, a in result.graph.neighbours(label).items():
        rows = network.public.of(j)
        theirs = result.local_models[j].predict(rows)
        weights = discrepancy.weights(rows)
        losses = discrepancy.plain.per_row(theirs, predict(model, rows))
        total += alpha * a * float((losses if weights is None else weights * losses).mean())
    return len(node.X) * total + penalty(model)


def check_no_better(network, result, predict, alpha, loss, discrepancy, slack) -> None:
    rng = np.random.default_rng(0)
    for label, model in result.models.items():
        args = (alpha, loss, discrepancy)
        best = own_objective(network, result, label, model, predict, *args)
        for size in (1e-3, 1e-2, 1e-1):
            for _ in range(20):
                other = copy.deepcopy(model)
                other.coef_ = model.coef_ + size * rng.normal(size=np.shape(model.coef_))
                other.intercept_ = model.intercept_ + size * rng.normal(
                    size=np.shape(model.intercept_)
                )
                assert own_objective(network, result, label, other, predict, *args) >= best - slack


@pytest.mark.slow
@pytest.mark.parametrize("common", [True, False], ids=["common", "per-node"])
@pytest.mark.parametrize(
    ("model", "loss", "discrepancy"), REGRESSION, ids=lambda v: repr(v) if v is not None else "same"
)
def test_regression(model, loss, discrepancy, common):
    network = regression_network(np.random.default_rng(2), model, n=4, d=2, common=common)
    solver = FedRelax(
        engine="sites", alpha=0.3, loss=loss, discrepancy=discrepancy, rounds=400, tol=1e-10
    )
    result = solver.solve(network)

    def predict(m, X):
        return np.asarray(m.predict(X)).reshape(len(X), 1)

    first = get_loss(loss, "regression")
    second = first if discrepancy is None else get_loss(discrepancy, "regression", "discrepancy")
    check_no_better(network, result, predict, 0.3, first, second, slack=1e-6)


@pytest.mark.parametrize(
    "model", [SoftmaxModel(ridge=0.1), LogisticRegression(C=2.0, tol=1e-8, max_iter=5000)]
)
def test_classification(model):
    network = classification_network(np.random.default_rng(2), model, n=3)
    result = FedRelax(engine="sites", alpha=0.3, rounds=300, tol=1e-9).solve(network)

    def predict(m, X):
        return m.predict_proba(X)

    log = get_loss("log", "classification")
    check_no_better(network, result, predict, 0.3, log, log, slack=1e-5)


def test_the_test_can_fail():
    """A model that ignores its neighbours is caught by the same check."""
    network = regression_network(np.random.default_rng(2), LinearModel(), n=4, d=2)
    result = FedRelax(engine="sites", alpha=0.3, rounds=0).solve(network)

    def predict(m, X):
        return np.asarray(m.predict(X)).reshape(len(X), 1)

    squared = get_loss("squared", "regression")
    with pytest.raises(AssertionError):
        check_no_better(network, result, predict, 0.3, squared, squared, slack=1e-6)
