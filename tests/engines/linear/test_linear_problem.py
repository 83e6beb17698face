"""What goes in, in which form, and what is refused."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LinearRegression, Ridge

from benchmarks.speed.floor import measure_floor, round_bytes, stored_bytes
from fedrelax.errors import FedRelaxError
from fedrelax.linear import ExactUpdate, LinearProblem, solve_fixed_point
from fedrelax.linear.memory import available_bytes, estimate_bytes, require_memory
from fedrelax.linear.problem import local_order, reordered

from .linear_networks import dense_solution, random_net


def grid(side, rng):
    """A square grid whose nodes are numbered at random."""
    line = sparse.diags_array([np.ones(side - 1), np.ones(side - 1)], offsets=[1, -1])
    A = sparse.kronsum(line, line).tocsr()
    mix = rng.permutation(side * side)
    return sparse.csr_array(A)[mix][:, mix]


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
    np.testing.assert_array_equal(stacked.own.array, ragged.own.array)
    np.testing.assert_array_equal(stacked.moment, ragged.moment)
    np.testing.assert_array_equal(stacked.public.array, ragged.public.array)


def test_few_rows_are_kept_as_rows_and_many_as_products():
    net = random_net(0, features=6, most_rows=4, most_public=30, n=5)
    net.P = [np.random.default_rng(1).normal(size=(30, 6)) for _ in range(5)]
    problem = net.problem()
    assert problem.own.low_rank and problem.own.array.shape == (5, max(map(len, net.X)), 6)
    assert not problem.public.low_rank and problem.public.array.shape == (5, 6, 6)
    for i in range(5):
        np.testing.assert_allclose(
            problem.own.dense(slice(i, i + 1))[0], net.X[i].T @ net.X[i] / len(net.X[i])
        )


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("ridge", [0.0, 0.7])
def test_alone_a_node_fits_like_scikit_learn_even_when_rank_deficient(intercept, ridge):
    net = random_net(3, features=5, most_rows=4, n=6, q=2, intercept=intercept, ridge=ridge)
    W = solve_fixed_point(ExactUpdate(net.problem(), 0.0)).models
    for i in range(net.n):
        model = LinearRegression(fit_intercept=intercept)
        if ridge:
            model = Ridge(alpha=net.ridge[i] * len(net.X[i]), fit_intercept=intercept)
        model.fit(net.X[i], net.y[i])
        np.testing.assert_allclose(W[i][:5], model.coef_.T, rtol=1e-7, atol=1e-9)
        if intercept:
            np.testing.assert_allclose(W[i][5], model.intercept_, rtol=1e-7, atol=1e-9)


def test_minimum_norm_over_all_entries_is_the_pseudo_inverse():
    net = random_net(3, features=5, most_rows=3, n=4, intercept=True)
    W = solve_fixed_point(ExactUpdate(net.problem(), 0.0, minimum_norm="all")).models
    for i in range(net.n):
        expected = np.linalg.pinv(net.rows(net.X[i])) @ net.y[i]
        np.testing.assert_allclose(W[i], expected, rtol=1e-7, atol=1e-9)


def test_a_node_without_rows_follows_its_neighbours():
    net = random_net(6, common=True, least_rows=6, most_rows=8, isolated=0, density=1.0)
    net.X[2], net.y[2] = net.X[2][:0], net.y[2][:0]
    W = solve_fixed_point(ExactUpdate(net.problem(), 0.5), tol=1e-12).models
    np.testing.assert_allclose(W, dense_solution(net, 0.5, "paper"), rtol=1e-8, atol=1e-9)


def test_nodes_of_a_large_map_are_ordered_so_that_neighbours_are_near(monkeypatch):
    A = grid(12, np.random.default_rng(0))
    assert local_order(A, 24) is None  # all of it fits into the cache
    monkeypatch.setattr("fedrelax.linear.problem.CACHE_BYTES", 0)
    order = local_order(A, 24)
    assert sorted(order) == list(range(144))
    found = reordered(A, order)
    assert np.array_equal(found.toarray(), A.toarray()[np.ix_(order, order)])
    assert abs(found.tocoo().row - found.tocoo().col).max() < 24
    everybody = sparse.csr_array(np.ones((144, 144)) - np.eye(144))
    assert local_order(everybody, 24) is None


def test_the_estimate_covers_what_is_stored():
    rng = np.random.default_rng(0)
    A = grid(40, rng)
    for public in (rng.normal(size=(9, 6)), rng.normal(size=(1600, 9, 6))):
        problem = LinearProblem(
            rng.normal(size=(1600, 8, 6)), rng.normal(size=(1600, 8)), A, public
        )
        update = ExactUpdate(problem, 1.0)
        most = None if public.ndim == 2 else 9
        estimate = estimate_bytes(1600, 6, 1, A.nnz // 2, m=8, m_pub=most)
        stored = stored_bytes(update)
        assert stored <= estimate <= 1.2 * stored + (64 << 20)


def test_a_too_large_problem_is_refused_with_what_would_make_it_fit():
    with pytest.raises(FedRelaxError) as error:
        require_memory(8 * 10**9, n=10**6, d=40, common=False, available=2 * 10**9)
    message = str(error.value)
    for part in ("8.00 GB", "2.00 GB", "common public set", "20 features"):
        assert part in message


def test_available_memory_is_known_here():
    assert (available_bytes() or 1) > 0


def test_the_floor_counts_matrices_graph_and_vectors():
    net = random_net(0, n=30, density=0.1)
    update = ExactUpdate(net.problem(), 1.0)
    graph = np.count_nonzero(net.A) * 12 + 31 * 4
    assert round_bytes(update) == 30 * 9 * 8 + graph + 3 * 30 * 3 * 8
    models = update.problem.start(None)
    floor = measure_floor(lambda: update.after(models), round_bytes(update), repeats=2)
    assert floor.ratio == floor.round_seconds / floor.copy_seconds > 0
