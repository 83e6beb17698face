"""Learning the difference: a node's model is what its neighbours say plus its own difference from that."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from fedrelax import FedRelax, FedRelaxError, FedRelaxRegressor, Graph, Network
from fedrelax.datasets import clustered
from fedrelax.models import LinearModel
from fedrelax.models.difference import SumRegressor

D = 3


def lines(graph, model, rows=8, seed=0):
    rng = np.random.default_rng(seed)
    network = Network(graph, public=rng.normal(size=(30, D)))
    for label in graph.labels:
        X = rng.normal(size=(rows, D))
        w = np.array([1.0, -2.0, 3.0]) + 0.5 * rng.normal(size=D)
        network.add(label, X, X @ w + 0.3 * rng.normal(size=rows), model)
    return network


def complete(n):
    return Graph.from_edges([(i, j) for i in range(n) for j in range(i)])


def weights_of(result):
    return np.array([model.coef_ for model in result.models.values()])


def test_lines_on_a_complete_graph_are_the_mixed_model():
    """Generalised least squares and best linear unbiased predictions for random slopes of precision L."""
    penalty = 2.0
    network = lines(complete(6), LinearModel(ridge=penalty, fit_intercept=False))
    result = FedRelax(1e-12, update="difference", rounds=400, tol=1e-13).solve(network)
    S = np.array([node.X.T @ node.X for node in network])
    b = np.array([node.X.T @ node.y for node in network])
    M = np.linalg.inv(S + penalty * np.eye(D))
    common = np.linalg.solve((M @ S).sum(axis=0), (M @ b[:, :, None]).sum(axis=0))[:, 0]
    effects = np.einsum("nij,nj->ni", M, b - S @ common)
    assert weights_of(result) == pytest.approx(common + effects, abs=1e-8)
    assert effects.sum(axis=0) == pytest.approx(np.zeros(D), abs=1e-8)


@pytest.mark.parametrize("weighting", ["mean", "rows"])
def test_lines_on_any_graph_solve_a_linear_system(weighting):
    ring = Graph.from_edges([(i, (i + 1) % 5, 1.0 + i) for i in range(5)])
    network = lines(ring, LinearModel(ridge=0.5, fit_intercept=False))
    alpha, P = 0.1, network.public.common
    settings = FedRelax(alpha, update="difference", weighting=weighting, rounds=2000, tol=1e-14)
    found = weights_of(settings.solve(network))
    A, n = ring.adjacency.toarray(), 5
    system, right = np.zeros((n * D, n * D)), np.zeros(n * D)
    for i, node in enumerate(network):
        S, degree, heard = node.X.T @ node.X, A[i].sum(), (A[i] > 0).sum()
        scale = len(node.X) / len(P) if weighting == "mean" else 1.0
        L = 0.5 * np.eye(D) + alpha * degree * scale * P.T @ P
        mean = A[i] / degree * heard / (heard + 1)
        mean[i] = 1 / (heard + 1)
        here = slice(i * D, (i + 1) * D)
        right[here] = node.X.T @ node.y
        for j in range(n):
            there = slice(j * D, (j + 1) * D)
            system[here, there] = (i == j) * (S + L) - mean[j] * L
    wanted = np.linalg.solve(system, right).reshape(n, D)
    assert found == pytest.approx(wanted, abs=1e-8)


def test_the_sum_of_lines_is_a_line_to_take_away():
    model = FedRelaxRegressor(Ridge(), alpha=0.1, rounds=3, solver=FedRelax(update="difference"))
    rng = np.random.default_rng(0)
    X, nodes = rng.normal(size=(40, 2)), np.repeat(list("abcd"), 10)
    model.fit(X, X @ [1.0, 2.0], nodes=nodes)
    own = model.models_["a"]
    assert type(own) is Ridge
    np.testing.assert_allclose(own.predict(X[:10]), model.predict(X[:10], nodes=nodes[:10]))


def test_trees_do_not_drift_and_learn_from_their_neighbours():
    data = clustered((10, 10), d=10, m=10, random_state=0)
    network = Network(data.graph, public=data.public[:, :20].reshape(-1, 10))
    for i, label in enumerate(data.graph.labels):
        network.add(label, data.X[i], data.y[i], DecisionTreeRegressor(max_depth=5, random_state=0))

    def error(models):
        guesses = [model.predict(X) for model, X in zip(models, data.X_val, strict=True)]
        return np.mean((np.array(guesses) - data.y_val) ** 2)

    errors = [
        error(FedRelax(1e-3, update="difference", rounds=k, tol=0).solve(network).models.values())
        for k in (1, 3, 6)
    ]
    alone = error(FedRelax(0.0, rounds=1).solve(network).models.values())
    assert max(errors) < 0.8 * alone


def test_classes_are_refused_in_a_sentence():
    network = Network(complete(2), "classification", public=np.zeros((3, 1)))
    for label in range(2):
        network.add(label, np.arange(4.0)[:, None], [0, 1, 0, 1], DecisionTreeRegressor())
    with pytest.raises(FedRelaxError, match="update='difference' serves regression only"):
        FedRelax(0.1, update="difference").solve(network)


@parametrize_with_checks([SumRegressor(Ridge(), DecisionTreeRegressor(max_depth=2))])
def test_scikit_learn_accepts_the_sum(estimator, check):
    check(estimator)
