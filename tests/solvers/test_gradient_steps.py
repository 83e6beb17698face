"""Gradient steps and RMSprop through the solver."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge

from fedrelax import FedRelax, Network
from fedrelax.errors import FedRelaxError
from fedrelax.solvers import GradientFedRelax
from tests.conftest import random_graph, regression_network


def benchmark_like(common: bool, intercept: bool) -> Network:
    """Targets so large that no node arrives: RMSprop would then divide rounding by rounding."""
    rng = np.random.default_rng(4)
    network = Network(random_graph(rng, 5), public=rng.normal(size=(7, 3)) if common else None)
    for label in range(5):
        X = rng.normal(size=(int(rng.integers(2, 7)), 3))
        y = 30 * (X @ rng.normal(size=3)) + 100
        public = None if common else rng.normal(size=(6 + label, 3))
        model = (
            Ridge(0.2 * label, fit_intercept=intercept)
            if label
            else LinearRegression(fit_intercept=intercept)
        )
        network.add(label, X, y, model, public=public)
    return network


def slow_rounds(network: Network, alpha: float, W: np.ndarray, steps: int, zeros: bool):
    """The authors' iteration node by node on rows, with the GTV before every step."""
    nodes, public, A = list(network), network.public, network.graph.adjacency.toarray()
    intercept = nodes[0].model.fit_intercept

    def design(X):
        return np.column_stack([X, np.ones(len(X))]) if intercept else X

    P = [design(public.of(node.label)) for node in nodes]
    v = np.zeros_like(W)
    for k in range(steps + 1):
        sent = [(0 if zeros and k == 0 else 1) * (P[j] @ W[j]) for j in range(len(nodes))]
        gtv = sum(
            A[i, j] * np.mean((P[j] @ W[i] - sent[j]) ** 2)
            for i in range(len(nodes))
            for j in range(len(nodes))
        )
        yield W, gtv
        new = W.copy()
        for i, node in enumerate(nodes):
            X, m = design(node.X), len(node.X)
            penalty = np.full(W.shape[1], getattr(node.model, "alpha", 0.0) / m)
            penalty[3:] = 0
            g = 2 * X.T @ (X @ W[i] - node.y) / m + 2 * penalty * W[i]
            for j in range(len(nodes)):
                g = g + 2 * alpha * A[i, j] * P[j].T @ (P[j] @ W[i] - sent[j]) / len(P[j])
            v[i] = 0.99 * v[i] + 0.01 * g**2
            new[i] = W[i] - 0.01 * g / (np.sqrt(v[i]) + 1e-8)
        W = new


@pytest.mark.parametrize("common", [True, False], ids=["common set", "a set per node"])
@pytest.mark.parametrize(("intercept", "first"), [(False, "zeros"), (True, "models")])
def test_rmsprop_is_the_authors_iteration_in_every_one_of_500_rounds(common, intercept, first):
    network = benchmark_like(common, intercept)
    d = 3 + intercept
    start = np.random.default_rng(7).uniform(-1 / np.sqrt(3), 1 / np.sqrt(3), (5, d, 1))[:, :, 0]
    engine = GradientFedRelax(
        alpha=0.3,
        rounds=500,
        tol=0.0,
        initial="uniform",
        first_exchange=first,
        random_state=7,
    )
    result = engine.solve(network)
    slow = list(slow_rounds(network, 0.3, start, 500, first == "zeros"))
    expected = np.array([gtv for _, gtv in slow])
    np.testing.assert_allclose(result.history["gtv"], expected, rtol=1e-9)
    last = slow[-1][0]
    for label, model in result.models.items():
        np.testing.assert_allclose(model.coef_, last[label, :3], rtol=1e-9, atol=1e-12)
        if intercept:
            assert model.intercept_ == pytest.approx(last[label, 3], rel=1e-9)
    alone = FedRelax(rounds=0, engine="sites").solve(network).alone
    X = np.random.default_rng(0).normal(size=(9, 3))
    for label, model in alone.items():
        np.testing.assert_allclose(result.alone[label].predict(X), model.predict(X), rtol=1e-8)


def test_uniform_weights_come_from_the_seed_and_fit_the_number_of_features():
    network = regression_network(np.random.default_rng(3), LinearRegression(), d=4)
    found = [
        np.array(
            [
                m.coef_
                for m in GradientFedRelax(initial="uniform", rounds=0, random_state=seed)
                .solve(network)
                .models.values()
            ]
        )
        for seed in (1, 1, 2)
    ]
    assert np.array_equal(found[0], found[1]) and not np.array_equal(found[0], found[2])
    assert np.abs(found[0]).max() <= 0.5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"step": "newton"}, "step='newton' must be one of rmsprop, plain"),
        ({"initial": "zero"}, "initial='zero' must be one of"),
        ({"alpha": -1.0}, "alpha="),
        ({"rounds": 1.5}, "rounds="),
        ({"rate": -1.0}, "rate="),
        ({"smoothing": 1.0}, "smoothing="),
        ({"epsilon": -1.0}, "epsilon="),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    network = regression_network(np.random.default_rng(3), LinearRegression())
    with pytest.raises(FedRelaxError, match=message):
        GradientFedRelax(**settings).solve(network)
