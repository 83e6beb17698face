"""Every solver finds the solution of the dense block system built with loops."""

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from benchmarks.speed.rounds import SimultaneousRounds, solve_rounds
from fedrelax.errors import FedRelaxError
from fedrelax.linear import ExactUpdate, solve_fixed_point

from .linear_networks import dense_solution, dense_system, random_net, residual, spectral_radius
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
def test_all_solvers_agree_with_a_dense_solve(options, alpha, system):
    net = random_net(**options)
    K, _ = dense_system(net, alpha, system)
    assume(np.linalg.cond(K) < 1e4)
    expected = dense_solution(net, alpha, system)
    update = ExactUpdate(net.problem(), alpha, system=system)
    found = solve_fixed_point(update, tol=1e-13, max_rounds=2000)
    assert gap(found.models, expected) < 1e-9
    for order in ("simultaneous", "sequential"):
        if spectral_radius(net, alpha, system, order) > 0.995:
            continue
        found = solve_rounds(update, tol=1e-8, max_rounds=20_000, order=order)
        assert found.converged
        assert residual(net, alpha, system, found.models) < 1e-7


@slow_is_fine
@given(options=networks, system=st.sampled_from(["paper", "symmetric"]), fused=st.booleans())
def test_one_round_is_every_nodes_argmin(options, system, fused):
    """From given models: K_ii w_i = b_i - sum_j K_ij w_j, at minimum norm where K_ii is singular."""
    net = random_net(**options)
    problem = net.problem()
    start = np.random.default_rng(1).normal(size=(problem.n, problem.d, problem.q))
    K, b = dense_system(net, 0.3, system)
    n, d = problem.n, problem.d
    K = K.reshape(n, d, n, d)
    rounds = SimultaneousRounds(
        ExactUpdate(problem, 0.3, system=system, fused=fused, minimum_norm="all"), start
    )
    W = start
    for _ in range(3):
        new = np.empty_like(W)
        for i in range(n):
            others = np.arange(n) != i
            rhs = b.reshape(n, d, -1)[i] - np.einsum("ajb,jbq->aq", K[i][:, others], W[others])
            new[i] = np.linalg.lstsq(K[i, :, i], rhs, rcond=1e-12)[0]
        W = new
        rounds.step()
        np.testing.assert_allclose(rounds.models, W, rtol=1e-7, atol=1e-8)


def test_the_papers_fixed_point_on_a_common_set_is_gtvmin_at_half_alpha():
    net = random_net(3, common=True, n=10, least_rows=4)
    paper = solve_fixed_point(ExactUpdate(net.problem(), 0.8), tol=1e-13)
    halved = solve_fixed_point(ExactUpdate(net.problem(), 0.4, system="symmetric"), tol=1e-13)
    np.testing.assert_allclose(paper.models, halved.models, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("common", [False, True])
def test_the_symmetric_solution_minimises_the_objective(common):
    net = random_net(5, common=common, n=10, least_rows=4, q=2, intercept=True, ridge=0.1)
    problem = net.problem()
    best = solve_fixed_point(ExactUpdate(problem, 0.4, system="symmetric"), tol=1e-13).models
    least = objective(problem, best, 0.4)
    direct = 0.0
    for i in range(net.n):
        error = net.rows(net.X[i]) @ best[i] - net.y[i]
        direct += np.sum(error**2) / len(error) + net.ridge[i] * np.sum(best[i][:-1] ** 2)
        for j in range(net.n):
            seen = net.public(j) @ (best[i] - best[j])
            direct += 0.4 * net.A[i, j] * np.sum(seen**2) / len(seen)
    assert least == pytest.approx(direct, rel=1e-11)
    rng = np.random.default_rng(0)
    for _ in range(20):
        assert objective(problem, best + 1e-3 * rng.normal(size=best.shape), 0.4) > least


def test_sequential_rounds_visit_nodes_in_order_and_never_increase_the_objective():
    net = random_net(8, n=9, q=1)
    problem = net.problem()
    update, models = ExactUpdate(problem, 0.5, system="symmetric"), problem.start(None)
    K, b = dense_system(net, 0.5, "symmetric")
    d = problem.d
    w, last = np.zeros(len(K)), np.inf
    for _ in range(5):
        for i in range(net.n):
            own = slice(i * d, (i + 1) * d)
            rest = b[own, 0] - K[own] @ w + K[own, own] @ w[own]
            w[own] = np.linalg.lstsq(K[own, own], rest, rcond=1e-12)[0]
        models, _ = update.in_turn(models)
        np.testing.assert_allclose(models.ravel(), w, rtol=1e-8, atol=1e-9)
        now = objective(problem, models, 0.5)
        assert now <= last * (1 + 1e-12)
        last = now


def test_rounds_that_diverge_say_so_and_other_ways_still_converge():
    """Few, different public rows: the largest eigenvalue of a simultaneous round is -1.098."""
    net = random_net(4, features=4, ridge=0.3, isolated=0)
    assert spectral_radius(net, 1.0, "paper", "simultaneous") == pytest.approx(1.098, abs=1e-3)
    update = ExactUpdate(net.problem(), 1.0)
    with pytest.raises(FedRelaxError, match="diverged"):
        solve_rounds(update)
    expected = dense_solution(net, 1.0, "paper")
    for found in (
        solve_rounds(update, tol=1e-10, damping=0.2),
        solve_rounds(update, tol=1e-10, order="sequential"),
        solve_fixed_point(update, tol=1e-10),
    ):
        np.testing.assert_allclose(found.models, expected, rtol=1e-5, atol=1e-7)


def test_damping_keeps_the_given_share_of_the_old_models():
    net = random_net(2, least_rows=5)
    update = ExactUpdate(net.problem(), 0.5)
    start = np.random.default_rng(0).normal(size=(8, 3, 1))
    plain, damped = (
        SimultaneousRounds(update, start),
        SimultaneousRounds(update, start, damping=0.3),
    )
    plain.step()
    damped.step()
    np.testing.assert_allclose(damped.models, 0.7 * plain.models + 0.3 * start, rtol=1e-9)
    solved = solve_rounds(update, damping=0.3, tol=1e-10)
    np.testing.assert_allclose(solved.models, dense_solution(net, 0.5, "paper"), rtol=1e-6)


@pytest.mark.parametrize("common", [True, False])
def test_a_start_from_the_solution_is_done_at_once(common):
    net = random_net(4, common=common, least_rows=5)
    update = ExactUpdate(net.problem(), 0.5)
    again = solve_fixed_point(update, dense_solution(net, 0.5, "paper"), tol=1e-9)
    assert again.converged and again.rounds == 1


def test_zero_targets_give_zero_models():
    net = random_net(1)
    net.y = [0 * y for y in net.y]
    for solve in (solve_rounds, solve_fixed_point):
        found = solve(ExactUpdate(net.problem(), 1.0))
        assert found.converged and not found.models.any()
