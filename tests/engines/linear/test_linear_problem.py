"""What goes in, in which form, and the inverses and products that are made of it."""

import numpy as np
import pytest
from scipy import sparse

from benchmarks.speed.floor import measure_floor, round_bytes, stored_bytes
from fedrelax.linear import ExactUpdate, LinearProblem, solve_fixed_point
from fedrelax.linear.fixed_point import invert
from fedrelax.linear.problem import NodeRows
from fedrelax.losses import Squared

from .linear_networks import dense_solution, random_net


def test_stacked_and_ragged_rows_give_the_same_problem():
    rng = np.random.default_rng(0)
    X, y, P = rng.normal(size=(4, 5, 3)), rng.normal(size=(4, 5)), rng.normal(size=(4, 6, 3))
    A = sparse.csr_array(np.ones((4, 4)) - np.eye(4))
    stacked = LinearProblem(X, y, A, P)
    ragged = LinearProblem(
        X.reshape(20, 3),
        y.reshape(20),
        A,
        P.reshape(24, 3),
        offsets=np.arange(5) * 5,
        public_offsets=np.arange(5) * 6,
    )
    np.testing.assert_array_equal(stacked.own, ragged.own)
    np.testing.assert_array_equal(stacked.moment, ragged.moment)
    np.testing.assert_array_equal(stacked.public, ragged.public)


@pytest.mark.parametrize("intercept", [True, False])
def test_products_and_losses_come_from_the_rows(intercept):
    net = random_net(2, q=2, intercept=intercept)
    net.X[3], net.y[3] = net.X[3][:0], net.y[3][:0]
    offsets = np.cumsum([0, *(len(x) for x in net.X)])
    rows = NodeRows(np.concatenate(net.X), np.concatenate(net.y), offsets, intercept=intercept)
    W = np.random.default_rng(0).normal(size=(net.n, 3 + intercept, 2))
    gram, moment = rows.products()
    losses = np.full(net.n, np.nan)
    for group in rows.groups():
        losses[group.nodes] = group.mean_losses(Squared(), group.rows @ W[group.nodes])
    for i in range(net.n):
        X, y, m = net.rows(net.X[i]), net.y[i], max(1, len(net.y[i]))
        np.testing.assert_allclose(gram[i], X.T @ X / m, atol=1e-12)
        np.testing.assert_allclose(moment[i], X.T @ y / m, atol=1e-12)
        if len(y):
            assert losses[i] == pytest.approx(np.sum((X @ W[i] - y) ** 2) / m)
    assert np.isnan(losses[3])


def test_an_inverse_and_its_condition_also_beside_a_singular_matrix():
    rng = np.random.default_rng(0)
    F = rng.normal(size=(4, 9, 3))
    M = F.transpose(0, 2, 1) @ F
    inverse, condition = invert(M)
    np.testing.assert_allclose(inverse, np.linalg.inv(M), rtol=1e-10)
    assert (condition >= 0.999 * np.linalg.cond(M)).all()
    assert (condition <= 3 * np.linalg.cond(M)).all()
    M[1] = 0.0
    inverse, condition = invert(M)
    np.testing.assert_allclose(inverse[[0, 2, 3]], np.linalg.inv(M[[0, 2, 3]]), rtol=1e-10)
    assert np.isinf(condition).tolist() == [False, True, False, False]


def test_a_ridge_per_node_and_feature():
    net = random_net(4, intercept=True)
    plain = net.problem().own
    net.ridge = np.random.default_rng(0).uniform(size=(net.n, 3))
    added = net.problem().own - plain
    for i in range(net.n):
        np.testing.assert_allclose(added[i], np.diag([*net.ridge[i], 0.0]), atol=1e-12)


def test_a_node_without_rows_follows_its_neighbours():
    net = random_net(6, common=True, least_rows=6, most_rows=8, isolated=0, density=1.0)
    net.X[2], net.y[2] = net.X[2][:0], net.y[2][:0]
    W = solve_fixed_point(ExactUpdate(net.problem(), 0.5), tol=1e-12).models
    np.testing.assert_allclose(W, dense_solution(net, 0.5, "paper"), rtol=1e-8, atol=1e-9)


def test_a_node_without_neighbours_keeps_the_model_that_it_has():
    net = random_net(4, common=True, least_rows=6, most_rows=8, isolated=1, density=1.0)
    net.X[0], net.y[0] = net.X[0][:1], net.y[0][:1]
    alone = np.random.default_rng(0).normal(size=(net.n, 3, 1))
    update = ExactUpdate(net.problem(), 0.5, alone=alone)
    assert np.array_equal(update.after(alone)[0], alone[0])
    np.testing.assert_allclose(solve_fixed_point(update, tol=1e-12).models[0], alone[0])


def test_the_floor_counts_matrices_graph_and_vectors():
    net = random_net(0, n=30, density=0.1)
    update = ExactUpdate(net.problem(), 1.0)
    graph = np.count_nonzero(net.A) * 12 + 31 * 4
    assert round_bytes(update) == 2 * 30 * 9 * 8 + graph + 3 * 30 * 3 * 8
    assert stored_bytes(update) == 4 * 30 * 9 * 8 + graph + 30 * 3 * 8
    models = update.problem.start(None)
    floor = measure_floor(lambda: update.after(models), round_bytes(update), repeats=2)
    assert floor.ratio == floor.round_seconds / floor.copy_seconds > 0
