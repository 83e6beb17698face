"""One pseudo-row per public point gives the same fit as one per neighbour."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from fedrelax import FedRelax, Graph, Network
from tests.conftest import classification_network, regression_network

GRID = np.random.default_rng(9).normal(size=(200, 3))


def both(network, rows=GRID, **settings):
    results = [
        FedRelax(engine="sites", collapse=c, rounds=3, tol=0, **settings).solve(network)
        for c in (True, False)
    ]
    return [np.array([model.predict(rows) for model in r.local_models.values()]) for r in results]


@pytest.mark.parametrize("objective", ["paper", "gtvmin"])
@pytest.mark.parametrize("weighting", ["mean", "rows"])
@pytest.mark.parametrize("model", [LinearRegression(), Ridge(alpha=0.3)])
def test_linear(model, objective, weighting):
    network = regression_network(np.random.default_rng(0), model)
    collapsed, expanded = both(network, alpha=0.7, objective=objective, weighting=weighting)
    assert np.abs(collapsed - expanded).max() < 1e-10


@pytest.mark.parametrize("seed", range(5))
def test_trees_predict_the_same(seed):
    """On the public rows, which the trees are fitted to and which are all that neighbours see.

    Between two fitted rows every feature splits equally well, and which one a tree takes is a draw.
    """
    model = DecisionTreeRegressor(max_depth=4, random_state=0)
    network = regression_network(np.random.default_rng(seed), model, m_pub=30)
    collapsed, expanded = both(network, rows=network.public.common, alpha=0.5)
    assert np.abs(collapsed - expanded).max() < 1e-9


def test_classes():
    rng = np.random.default_rng(0)
    model = LogisticRegression(tol=1e-10, max_iter=10000)
    collapsed, expanded = both(classification_network(rng, model), alpha=0.5)
    assert np.abs(collapsed - expanded).max() < 1e-5
    rng = np.random.default_rng(0)
    network = classification_network(rng, DecisionTreeClassifier(max_depth=3, random_state=0))
    collapsed, expanded = both(network, rows=network.public.common, alpha=0.5)
    assert np.abs(collapsed - expanded).max() < 1e-9


def test_absolute_loss_does_not_collapse_and_is_left_expanded():
    from fedrelax import LinearModel

    network = regression_network(np.random.default_rng(0), LinearModel(loss="absolute"))
    collapsed, expanded = both(network, alpha=0.5, loss="absolute")
    assert np.array_equal(collapsed, expanded)


class Counting(DecisionTreeRegressor):
    """Notes how many rows it is fitted to."""

    seen: ClassVar[list[int]] = []

    def fit(self, X, y, sample_weight=None):
        Counting.seen.append(len(X))
        return super().fit(X, y, sample_weight=sample_weight)


@pytest.mark.parametrize("common", [True, False], ids=["common", "per-node"])
def test_the_work_of_a_fit_grows_with_the_edges_unless_public_rows_are_common(common):
    """Own rows and 7 public ones for each neighbour; in a common set, 7 whatever the degree."""
    rng = np.random.default_rng(0)
    graph = Graph.from_edges([(0, 1), (0, 2), (0, 3), (1, 2)])
    network = Network(graph, public=rng.normal(size=(7, 2)) if common else None)
    for i in graph.labels:
        X = rng.normal(size=(5, 2))
        own = None if common else rng.normal(size=(7, 2))
        network.add(i, X, X[:, 0], Counting(max_depth=2), public=own)
    Counting.seen.clear()
    FedRelax(engine="sites", alpha=0.5, rounds=1, tol=0).solve(network)
    degrees = [3, 2, 2, 1]
    assert Counting.seen == [5] * 4 + [5 + 7 * (1 if common else k) for k in degrees]
