"""The parts that solvers build on: inverses, residuals, variations, and sums instead of means."""

import numpy as np
import pytest

from fedrelax.engines.linear.measures import Variation
from fedrelax.linear import ExactUpdate, LinearProblem, RowResiduals
from fedrelax.linear.solving import invert

from .linear_networks import dense_system, random_net


def stacked(net):
    offsets = np.cumsum([0, *(len(x) for x in net.X)])
    return np.concatenate(net.X), np.concatenate(net.y), offsets


def test_an_inverse_of_full_rank_and_its_condition():
    rng = np.random.default_rng(0)
    F = rng.normal(size=(4, 9, 3))
    M = F.transpose(0, 2, 1) @ F
    found = invert(M)
    np.testing.assert_allclose(found.matrices, np.linalg.inv(M), rtol=1e-10)
    assert (found.rank == 3).all()
    assert (found.condition >= 0.999 * np.linalg.cond(M)).all()
    assert (found.condition <= 3 * np.linalg.cond(M)).all()


@pytest.mark.parametrize("rank", [0, 1, 3, 4])
def test_a_singular_matrix_is_inverted_to_the_least_of_what_is_asked(rank):
    """Against the solution by the definition: min |C w| over all w with M w = s."""
    rng = np.random.default_rng(rank)
    d = 5
    F = rng.normal(size=(3, rank, d))
    F[:, :, 0] *= 10
    M = F.transpose(0, 2, 1) @ F
    M = np.concatenate([M, np.eye(d)[None] * 2])  # one good node among them stays exact
    C = rng.normal(size=(d, d)) * [1, 10, 1, 0.1, 1]
    found = invert(M, C)
    assert found.rank.tolist() == [rank, rank, rank, d]
    for node in range(3):
        s = M[node] @ rng.normal(size=d)
        w = found.matrices[node] @ s
        np.testing.assert_allclose(M[node] @ w, s, atol=1e-9)
        free = np.linalg.svd(M[node])[2][rank:].T
        particular = np.linalg.pinv(M[node], rcond=1e-12) @ s
        best = particular - free @ np.linalg.lstsq(C @ free, C @ particular, rcond=None)[0]
        np.testing.assert_allclose(w, best, atol=1e-8)
    np.testing.assert_allclose(found.matrices[3], np.eye(d) / 2)


@pytest.mark.parametrize("intercept", [True, False])
def test_residuals_come_from_the_rows(intercept):
    net = random_net(2, q=2, intercept=intercept)
    net.X[3], net.y[3] = net.X[3][:0], net.y[3][:0]
    X, y, offsets = stacked(net)
    W = np.random.default_rng(0).normal(size=(net.n, 3 + intercept, 2))
    found, slopes = RowResiduals(X, y, offsets, intercept=intercept), np.zeros_like(W)
    for group in found.groups():
        slopes[group.at] = group.slopes(group.gaps(W[group.at]))
    for i in range(net.n):
        gap = net.rows(net.X[i]) @ W[i] - net.y[i]
        np.testing.assert_allclose(slopes[i], net.rows(net.X[i]).T @ gap, atol=1e-12)
        if len(gap):
            assert found.losses(W)[i] == pytest.approx(np.sum(gap**2) / len(gap))
    assert np.isnan(found.losses(W)[3])


@pytest.mark.parametrize("common", [True, False])
@pytest.mark.parametrize("scaling", ["mean", "rows"])
@pytest.mark.parametrize("distance", [1.0, 1e-7])
def test_variations_near_and_far(common, scaling, distance):
    """Also where all models nearly agree far from zero, and the expanded sum would cancel."""
    net = random_net(5, n=9, common=common, q=2, intercept=True)
    problem = net.problem(scaling=scaling)
    rng = np.random.default_rng(0)
    shape = (net.n, problem.d, problem.q)
    W, V = (100 + distance * rng.normal(size=shape) for _ in range(2))
    V[: net.n // 2] += 50
    W[: net.n // 2] += 50
    counts = 1.0
    if scaling == "rows":
        sizes = [len(net.public(j)) for j in range(net.n)]
        counts = np.array(sizes[0] if common else sizes, dtype=float)
    found = Variation(problem, counts)
    d = np.zeros((net.n, net.n))
    for i in range(net.n):
        for j in range(net.n):
            d[i, j] = np.mean(np.sum((net.public(j) @ (W[i] - V[j])) ** 2, axis=1))
    size = np.array([np.mean(np.sum((net.public(i) @ V[i]) ** 2, axis=1)) for i in range(net.n)])
    rtol = 1e-9 if distance == 1.0 else 1e-6
    np.testing.assert_allclose(found.nodes(W, V), (net.A * d).sum(axis=1), rtol=rtol)
    i, j = np.nonzero(net.A)
    np.testing.assert_allclose(found.edges(W, V), d[i, j], rtol=rtol)
    np.testing.assert_allclose(found.own(V), size, rtol=1e-9)


@pytest.mark.parametrize("common", [True, False])
def test_sums_over_rows_instead_of_means(common):
    """Multiply node i's rows by sqrt(m_i) and public rows by sqrt(m_pub): the same matrices."""
    net = random_net(4, common=common, q=2)
    found = net.problem(scaling="rows")
    net.X = [x * np.sqrt(len(x)) for x in net.X]
    net.y = [y * np.sqrt(len(y)) for y in net.y]
    net.P = [p * np.sqrt(len(p)) for p in net.P]
    expected = net.problem()
    np.testing.assert_allclose(found.own.dense(), expected.own.dense(), rtol=1e-12)
    np.testing.assert_allclose(found.moment, expected.moment, rtol=1e-12)
    np.testing.assert_allclose(found.power, expected.power, rtol=1e-12)
    if common:
        np.testing.assert_allclose(found.common, expected.common, rtol=1e-12)
    else:
        np.testing.assert_allclose(found.public.dense(), expected.public.dense(), rtol=1e-12)


def test_a_ridge_per_node_and_feature():
    net = random_net(4, intercept=True)
    net.ridge = np.random.default_rng(0).uniform(size=(net.n, 3))
    problem: LinearProblem = net.problem()
    assert np.array_equal(problem.ridge[:, :3], net.ridge) and not problem.ridge[:, 3].any()


@pytest.mark.parametrize("system", ["paper", "symmetric"])
def test_damped_sequential_rounds_node_by_node(system):
    net = random_net(8, n=7, least_rows=5, most_rows=9)
    K, b = dense_system(net, 0.4, system)
    n, d = net.n, 3
    K, b = K.reshape(n, d, n, d), b.reshape(n, d)
    start = np.random.default_rng(0).normal(size=(n, d))
    update = ExactUpdate(net.problem(), 0.4, system=system)
    W, V, messages = start.copy(), start.copy(), start[:, :, None]
    for _ in range(4):
        for i in range(n):
            others = np.arange(n) != i
            right = b[i] - np.einsum("ajb,jb->a", K[i][:, others], V[others])
            W[i] = np.linalg.solve(K[i, :, i], right)
            V[i] = 0.7 * W[i] + 0.3 * V[i]
        models, messages = update.in_turn(messages, damping=0.3)
        np.testing.assert_allclose(models[:, :, 0], W, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(messages[:, :, 0], V, rtol=1e-9, atol=1e-10)
