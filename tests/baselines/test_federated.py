"""Partial pooling by exchange as a way to compare with: the real rounds, with all nodes in one process."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

from fedrelax import FedRelaxClassifier, FedRelaxRegressor, Graph, Network
from fedrelax.baselines import Alone, Federation, Pooled
from fedrelax.comparison.ways import usual_ways
from fedrelax.typing import FloatArray, IntArray
from tests.baselines.test_mixed import slopes


def network_of(X: FloatArray, y: FloatArray, node: IntArray) -> Network:
    network = Network(Graph.complete(range(int(node.max()) + 1)), public=X[:4])
    for i in np.unique(node):
        network.add(int(i), X[node == i], y[node == i], Ridge())
    return network


def test_random_slopes_are_learned_nearly_as_well_as_if_they_were_known() -> None:
    """The error is that of the best linear prediction, which knows all variances, but for a few percent."""
    X, y, node = slopes(n=30, rows=16)
    known = np.tile(np.arange(16) < 8, 30)
    network = network_of(X[known], y[known], node[known])
    errors = {}
    for way in (Federation(), Alone(), Pooled()):
        models = way.run(network).models
        left = [
            y[i] - models[int(node[i])].predict(X[i : i + 1])[0, 0] for i in np.flatnonzero(~known)
        ]
        errors[way.name] = float(np.sqrt(np.mean(np.square(left))))
    Z = np.column_stack([(X - [3.0, 0.0]) / [1.0, 50.0], np.ones(len(X))])
    mean, precision = np.array([1.0, -2.0, 4.0]), 0.25 / np.array([1.0, 1.0, 4.0])
    left = []
    for i in range(30):
        own, new = known & (node == i), ~known & (node == i)
        gram = Z[own].T @ Z[own] + np.diag(precision)
        w = np.linalg.solve(gram, Z[own].T @ y[own] + precision * mean)
        left.append(y[new] - Z[new] @ w)
    best = float(np.sqrt(np.mean(np.square(left))))
    assert 0.95 * best < errors["federation"] < 1.05 * best
    assert errors["federation"] < 0.99 * errors["alone"] < 0.5 * errors["pooled"]


def test_nodes_that_are_alike_end_with_one_model() -> None:
    X, y, node = slopes(n=12, rows=10, levels=0.0, spread=0.0)
    models = Federation().run(network_of(X, y, node)).models
    answers = np.stack([models[i].predict(X)[:, 0] for i in range(12)])
    assert answers.std(axis=0).max() < 0.1 * y.std()


def test_who_names_a_model_has_no_such_line() -> None:
    def names(estimator: FedRelaxRegressor | FedRelaxClassifier) -> set[str]:
        return {way.name for way in usual_ways(estimator)}

    assert Federation.name in names(FedRelaxRegressor())
    assert Federation.name not in names(FedRelaxRegressor(Ridge()))


def test_classes_are_pooled_too_and_several_outputs_are_not() -> None:
    rng = np.random.default_rng(0)
    node = np.repeat(np.arange(10), 12)
    X = rng.normal(size=(120, 2))
    y = (X[:, 0] + rng.normal(size=10)[node] > 0).astype(int)
    network = Network(Graph.complete(range(10)), "classification", public=X)
    several = Network(Graph.complete(range(2)), public=X)
    for i in range(10):
        network.add(i, X[node == i], y[node == i], LogisticRegression())
    for i in range(2):
        several.add(i, X, np.column_stack([y, y]).astype(float), Ridge())
    models = Federation().run(network).models
    answers = np.array([models[int(i)].predict(X[r : r + 1])[0, 1] for r, i in enumerate(node)])
    assert ((answers > 0.5) == y).mean() > 0.85
    assert "several outputs" in str(Federation().unsupported_reason(several))
