"""Softmax nodes: every round ends at each node's optimum."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

from fedrelax.errors import FedRelaxError
from fedrelax.linear import LogisticRounds


def network(seed, n=6, m=12, features=2, K=3, m_pub=15):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m, features))
    Y = rng.dirichlet(np.ones(K), size=(n, m))
    U = np.triu(rng.random((n, n)) < 0.6, 1) * rng.uniform(0.5, 2, (n, n))
    U[0] = U[:, 0] = 0
    return X, Y, sparse.csr_array(U + U.T), rng.normal(size=(m_pub, features))


def node_objective(w, i, X, Y, A, P, taught, alpha, ridge, intercept):
    """The definition, with one term per neighbour."""
    d = X.shape[2] + intercept
    W = w.reshape(d, Y.shape[2])
    pad = (lambda x: np.column_stack([x, np.ones(len(x))])) if intercept else (lambda x: x)

    def log_p(x):
        s = pad(x) @ W
        return s - np.log(np.exp(s).sum(axis=1, keepdims=True))

    total = -(Y[i] * log_p(X[i])).sum(axis=1).mean()
    total += ridge * (W[: X.shape[2]] ** 2).sum()
    for j in range(len(X)):
        total -= alpha * A[i, j] * (taught[j] * log_p(P)).sum(axis=1).mean()
    return total


@pytest.mark.parametrize("curvature", ["newton", "bound"])
@pytest.mark.parametrize(("intercept", "ridge"), [(False, 0.0), (True, 0.1)])
def test_a_round_minimises_every_nodes_objective(curvature, intercept, ridge):
    X, Y, A, P = network(0)
    start = np.random.default_rng(1).normal(size=(6, 2 + intercept, 3))
    rounds = LogisticRounds(
        X,
        Y,
        A,
        P,
        0.7,
        start,
        intercept=intercept,
        ridge=ridge,
        max_steps=5000,
        curvature=curvature,
    )
    pad = np.column_stack([P, np.ones(len(P))]) if intercept else P
    scores = np.exp(pad @ start)
    taught = scores / scores.sum(axis=2, keepdims=True)
    rounds.step()
    assert rounds.gradient_size <= 1e-8
    for i in range(6):
        data = (i, X, Y, A.toarray(), P, taught, 0.7, ridge, intercept)
        ours = node_objective(rounds.models[i].ravel(), *data)
        best = minimize(node_objective, rounds.models[i].ravel() * 0, args=data, tol=1e-10)
        assert ours <= best.fun + 1e-9


def test_at_the_fixed_point_no_node_can_improve():
    X, Y, A, P = network(2)
    rounds = LogisticRounds(X, Y, A, P, 0.5, intercept=True, ridge=0.05)
    assert rounds.solve(tol=1e-9)
    assert np.abs(rounds.gradients()).max() < 1e-7


def test_unequal_nodes_and_hard_labels():
    X, Y, A, P = network(3)
    hard = np.eye(3)[Y.argmax(axis=2)]
    counts = np.array([12, 3, 1, 7, 12, 0])
    keep = np.arange(12) < counts[:, None]
    rounds = LogisticRounds(
        X[keep], hard[keep], A, P, 0.5, offsets=np.cumsum([0, *counts]), ridge=0.1
    )
    assert rounds.solve(tol=1e-8)
    assert np.abs(rounds.gradients()).max() < 1e-6
    assert np.abs(rounds.models.sum(axis=2)).max() < 1e-8


def test_many_classes_and_features_use_the_bound():
    X, Y, A, P = network(4, features=30, K=8, m=40, m_pub=60)
    rounds = LogisticRounds(X, Y, A, P, 0.5, ridge=0.1, max_steps=2000, tol=1e-6)
    assert rounds.curvature == "bound"
    rounds.step()
    assert rounds.gradient_size <= 1e-6


def test_bad_input_is_named():
    X, Y, A, P = network(0)
    with pytest.raises(FedRelaxError, match="add up to 1"):
        LogisticRounds(X, 2 * Y, A, P, 0.5)
    with pytest.raises(FedRelaxError, match="one common set"):
        LogisticRounds(X, Y, A, np.ones((6, 4, 2)), 0.5)
    with pytest.raises(FedRelaxError, match="alpha"):
        LogisticRounds(X, Y, A, P, -1)
