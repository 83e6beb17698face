"""Solutions and rounds against the dense block system built with loops."""

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy import sparse

from fedrelax.linear import ExactUpdate, LinearProblem, solve_fixed_point

from .linear_networks import dense_solution, dense_system, random_net
from .objective import objective

networks = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10_000),
        "n": st.integers(2, 9),
        "features": st.integers(1, 4),
        "q": st.integers(1, 3),
        "common": st.booleans(),
        "intercept": st.booleans(),
        "ridge": st.sampled_from([0.0, 0.3]),
        "isolated": st.integers(0, 2),
    }
)
slow_is_fine = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.filter_too_much]
)


def gap(W, V):
    return np.abs(W - V).max() / np.abs(V).max()


@slow_is_fine
@given(
    options=networks,
    alpha=st.sampled_from([0.0, 0.05, 1.0]),
    system=st.sampled_from(["paper", "symmetric"]),
)
def test_the_fixed_point_is_the_solution_of_a_dense_solve(options, alpha, system):
    net = random_net(**options)
    K, _ = dense_system(net, alpha, system)
    assume(np.linalg.cond(K) < 1e4)
    update = ExactUpdate(net.problem(), alpha, system=system)
    found = solve_fixed_point(update, tol=1e-13, max_rounds=2000)
    assert gap(found.models, dense_solution(net, alpha, system)) < 1e-9


@slow_is_fine
@given(options=networks, system=st.sampled_from(["paper", "symmetric"]))
def test_one_round_is_every_nodes_argmin(options, system):
    """From given models: K_ii w_i = b_i - sum_j K_ij w_j."""
    net = random_net(**options, least_rows=5, most_rows=8)
    problem = net.problem()
    W = np.random.default_rng(1).normal(size=(problem.n, problem.d, problem.q))
    K, b = dense_system(net, 0.3, system)
    n, d = problem.n, problem.d
    K, b = K.reshape(n, d, n, d), b.reshape(n, d, -1)
    update = ExactUpdate(problem, 0.3, system=system)
    assume(update.condition.max() < 1e4)
    for _ in range(3):
        new = np.empty_like(W)
        for i in range(n):
            others = np.arange(n) != i
            rhs = b[i] - np.einsum("ajb,jbq->aq", K[i][:, others], W[others])
            new[i] = np.linalg.solve(K[i, :, i], rhs)
        np.testing.assert_allclose(update.after(W), new, rtol=1e-7, atol=1e-8)
        W = new


def test_the_papers_fixed_point_on_a_common_set_is_gtvmin_at_half_alpha():
    net = random_net(3, common=True, n=10, least_rows=4)
    paper = solve_fixed_point(ExactUpdate(net.problem(), 0.8), tol=1e-13)
    halved = solve_fixed_point(ExactUpdate(net.problem(), 0.4, system="symmetric"), tol=1e-13)
    np.testing.assert_allclose(paper.models, halved.models, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("common", [False, True])
def test_the_symmetric_solution_minimises_the_objective(common):
    net = random_net(5, common=common, n=10, least_rows=4, q=2, intercept=True, ridge=0.1)
    update = ExactUpdate(net.problem(), 0.4, system="symmetric")
    best = solve_fixed_point(update, tol=1e-13).models
    least = objective(net, best, 0.4)
    rng = np.random.default_rng(0)
    for _ in range(20):
        assert objective(net, best + 1e-3 * rng.normal(size=best.shape), 0.4) > least


@pytest.mark.parametrize("common", [True, False])
def test_a_start_from_the_solution_is_done_at_once(common):
    net = random_net(4, common=common, least_rows=5)
    update = ExactUpdate(net.problem(), 0.5)
    again = solve_fixed_point(update, dense_solution(net, 0.5, "paper"), tol=1e-9)
    assert again.converged and again.rounds == 1


@pytest.mark.parametrize("common", [True, False])
def test_zero_targets_give_zero_models(common):
    net = random_net(1, common=common, least_rows=5)
    net.y = [0 * y for y in net.y]
    found = solve_fixed_point(ExactUpdate(net.problem(), 1.0))
    assert found.converged and not found.models.any()


def residual_of(update: ExactUpdate, W: np.ndarray) -> float:
    b = update.right
    return float(np.linalg.norm(b + update.coupling(W) - update.matrices @ W) / np.linalg.norm(b))


@pytest.mark.parametrize("d", [2, 10, 50])
def test_a_fifth_of_the_plain_rounds_is_enough(d):
    """On the paper's clustered network: 3 clusters, p_in 0.8, p_out 0.2, no noise, alpha 1."""
    rng, n = np.random.default_rng(0), 150
    cluster = np.repeat(np.arange(3), n // 3)
    truth = rng.normal(size=(3, d))[cluster]
    chance = np.where(cluster[:, None] == cluster, 0.8, 0.2)
    edges = np.triu(rng.random((n, n)) < chance, 1)
    X, public = rng.normal(size=(n, 10, d)), rng.normal(size=(n, 100, d))
    y = np.einsum("nmd,nd->nm", X, truth)
    A = sparse.csr_array((edges | edges.T).astype(float))
    update = ExactUpdate(LinearProblem(X, y, A, public), 1.0)
    quick = solve_fixed_point(update, tol=1e-6)
    assert quick.converged and residual_of(update, quick.models) <= 1.01e-6
    W = np.zeros_like(quick.models)
    for _ in range(5 * quick.rounds):
        W = update.after(W)
    assert residual_of(update, W) > 1e-6


def test_few_public_rows_take_many_rounds_and_end_at_the_solution():
    """Solvers that keep only some directions stall here."""
    rng, n, d = np.random.default_rng(0), 60, 12
    path = sparse.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[1, -1])
    X, y, public = (rng.normal(size=(n, *size)) for size in ((4, d), (4,), (5, d)))
    update = ExactUpdate(LinearProblem(X, y, path, public, ridge=1e-3), 1.0)
    found = solve_fixed_point(update, tol=1e-6)
    assert found.converged and residual_of(update, found.models) < 1e-5
