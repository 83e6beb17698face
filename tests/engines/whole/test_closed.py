"""A complete network in closed form: equal to the engine, to the block system, to refitting."""

from __future__ import annotations

import numpy as np
import pytest

from fedrelax.engines.whole.closed import (
    NodeSums,
    learn_coupling,
    leave_one_out,
    level_and_shape,
    negative_log_evidence,
    solve_complete,
    solve_one,
)
from fedrelax.linear import ExactUpdate, LinearProblem, solve_fixed_point


def rows(seed=0, n=7, features=3, least=2, most=9):
    rng = np.random.default_rng(seed)
    counts = rng.integers(least, most, n)
    node = np.repeat(np.arange(n), counts)
    X = rng.normal(size=(len(node), features)) + 0.5
    slopes = 1.0 + 0.3 * rng.normal(size=(n, features))
    y = (X * slopes[node]).sum(axis=1) + 3 * rng.normal(size=n)[node] + rng.normal(size=len(node))
    return X, y, node, n


def with_constant(X):
    return np.column_stack([X, np.ones(len(X))])


def setting(X, strength=0.3, level=1.0, ridge=0.2):
    X = with_constant(X)
    Q = level_and_shape(X.T @ X / len(X), X.mean(axis=0), level)
    return np.append(np.full(X.shape[1] - 1, ridge), 0.0), strength * Q


def test_equals_the_fixed_point_of_the_linear_engine() -> None:
    X, y, node, n = rows()
    counts = np.bincount(node)
    alpha, ridge = 0.05, 0.2
    problem = LinearProblem(
        X,
        y,
        np.ones((n, n)) - np.eye(n),
        X,
        offsets=np.append(0, np.cumsum(counts)),
        intercept=True,
        ridge=ridge,
    )
    found = solve_fixed_point(ExactUpdate(problem, alpha), tol=1e-13).models[..., 0]
    R, Q = setting(X, strength=alpha * n, ridge=ridge)
    sums = NodeSums.of(with_constant(X), y, node, n, weight=1.0 / counts)
    assert np.abs(solve_complete(sums, R, Q).models - found).max() < 1e-8


@pytest.mark.parametrize("strength", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize("level", [1.0, 0.1, 1e-3])
def test_equals_the_block_system_with_a_level_share(strength: float, level: float) -> None:
    X, y, node, n = rows(1)
    R, P = setting(X, strength, level)
    sums = NodeSums.of(with_constant(X), y, node, n)
    d = len(R)
    system = np.kron(np.eye(n) - 1.0 / n, P)
    for i in range(n):
        system[i * d : (i + 1) * d, i * d : (i + 1) * d] += sums.gram[i] + np.diag(R)
    expected = np.linalg.solve(system, sums.moment.reshape(-1)).reshape(n, d)
    net = solve_complete(sums, R, P)
    close = 1e-10 if strength < 1e6 else 1e-8
    assert np.abs(net.models - expected).max() < close * np.abs(expected).max()
    blocks = np.linalg.inv(system).reshape(n, d, n, d)[np.arange(n), :, np.arange(n)]
    assert np.abs(net.covariances() - blocks).max() < close * np.abs(blocks).max()


def test_the_limits_are_alone_and_one_model() -> None:
    X, y, node, n = rows(2)
    R, P = setting(X, 1.0)
    sums = NodeSums.of(with_constant(X), y, node, n)
    alone = solve_complete(sums, R, 0.0 * P).models
    expected = np.linalg.solve(sums.gram + np.diag(R), sums.moment[..., None])[..., 0]
    assert np.allclose(alone, expected, atol=1e-12)
    one = solve_one(sums, R)[0]
    assert np.allclose(solve_complete(sums, R, 1e9 * P).models, one, atol=1e-6)


def test_left_out_residuals_are_those_of_refitting_without_the_row() -> None:
    X, y, node, n = rows(3, n=4)
    X = with_constant(X)
    weight = np.array([1.0, 0.5, 2.0, 1.0])
    R, P = setting(X[:, :-1], 0.7, 0.1)
    net = solve_complete(NodeSums.of(X, y, node, n, weight), R, P)
    found = leave_one_out(X, y, node, net.models, net.covariances(), weight)
    for r in range(len(y)):
        rest = np.arange(len(y)) != r
        other = solve_complete(NodeSums.of(X[rest], y[rest], node[rest], n, weight), R, P)
        assert found[r] == pytest.approx(y[r] - X[r] @ other.models[node[r]], abs=1e-9)


def test_evidence_is_the_restricted_likelihood_of_the_mixed_model() -> None:
    X, y, node, n = rows(4)
    X1 = with_constant(X)
    found, expected = [], []
    for strength, level, ridge in [(0.1, 1.0, 0.3), (1.0, 0.1, 1.0), (10.0, 0.01, 0.1)]:
        R, P = setting(X, strength, level, ridge)
        sums = NodeSums.of(X1, y, node, n)
        found.append(negative_log_evidence(sums, solve_complete(sums, R, P)))
        own = np.linalg.inv(np.diag(R) + P)
        mean = np.zeros_like(own)
        mean[:-1, :-1] = np.diag(1.0 / R[:-1])
        flat = np.zeros_like(own)
        flat[-1, -1] = 1e7
        share = np.where(node[:, None] == node, 1.0, 0.0) - 1.0 / n
        V = np.eye(len(y)) + (X1 @ own @ X1.T) * share + (X1 @ mean @ X1.T) / n + X1 @ flat @ X1.T
        power = y @ np.linalg.solve(V, y)
        expected.append((len(y) - 1) * np.log(power) + np.linalg.slogdet(V)[1])
    assert np.allclose(np.diff(found), np.diff(expected), atol=1e-3)


def test_learning_the_coupling_raises_the_evidence_and_finds_its_scale() -> None:
    rng = np.random.default_rng(5)
    n, m, spread = 300, 12, np.array([2.0, 0.5, 3.0])
    node = np.repeat(np.arange(n), m)
    X = with_constant(rng.normal(size=(n * m, 2)))
    W = np.array([1.0, -1.0, 2.0]) + spread * rng.normal(size=(n, 3))
    y = (X * W[node]).sum(axis=1) + 0.7 * rng.normal(size=n * m)
    sums = NodeSums.of(X, y, node, n)
    ridge, start = np.array([1e-3, 1e-3, 0.0]), np.eye(3)
    learned = learn_coupling(sums, ridge, start)
    before, after = (
        negative_log_evidence(sums, solve_complete(sums, ridge, P)) for P in (start, learned)
    )
    assert after < before - 10
    assert np.allclose(np.diag(learned), 0.7**2 / spread**2, rtol=0.3)


def test_tied_columns_share_one_strength() -> None:
    X, y, node, n = rows(6, n=20)
    R, P = setting(X, 1.0)
    sums = NodeSums.of(with_constant(X), y, node, n)
    learned = learn_coupling(sums, R, P, tied=np.array([0, 1]))
    assert learned[0, 0] == learned[1, 1] != learned[2, 2]
    assert np.array_equal(learned, np.diag(np.diag(learned)))
