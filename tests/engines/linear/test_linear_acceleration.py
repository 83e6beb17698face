"""Accelerated rounds need a fraction of the plain ones."""

import numpy as np
import pytest
from scipy import sparse

from benchmarks.speed.rounds import solve_rounds
from fedrelax.linear import ExactUpdate, LinearProblem, solve_fixed_point


def clustered(seed, d, n=150, m=10, m_pub=100):
    """The paper's clustered network: 3 clusters, p_in 0.8, p_out 0.2, no noise."""
    rng = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(3), n // 3)
    truth = rng.normal(size=(3, d))[cluster]
    chance = np.where(cluster[:, None] == cluster, 0.8, 0.2)
    edges = np.triu(rng.random((n, n)) < chance, 1)
    X = rng.normal(size=(n, m, d))
    y = np.einsum("nmd,nd->nm", X, truth)
    public = rng.normal(size=(n, m_pub, d))
    return X, y, sparse.csr_array((edges | edges.T).astype(float)), public, truth


@pytest.mark.parametrize("d", [2, 10, 50])
def test_at_alpha_1_a_fifth_of_the_plain_rounds_is_enough(d):
    X, y, A, public, _ = clustered(0, d)
    update = ExactUpdate(LinearProblem(X, y, A, public), 1.0)
    plain = solve_rounds(update, tol=1e-6)
    quick = solve_fixed_point(update, tol=1e-6)
    assert plain.converged and quick.converged
    assert 5 * quick.rounds <= plain.rounds


def test_few_public_rows_make_the_short_method_stall_and_the_long_one_finish():
    rng = np.random.default_rng(0)
    n, d = 60, 12
    ring = sparse.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[1, -1])
    X = rng.normal(size=(n, 4, d))
    problem = LinearProblem(X, rng.normal(size=(n, 4)), ring, rng.normal(size=(n, 5, d)))
    assert problem.public.low_rank and problem.own.low_rank
    update = ExactUpdate(problem, 1.0)
    found = solve_fixed_point(update, tol=1e-6, max_rounds=20_000)
    assert found.converged
    s = update.sources(problem.start(found.models))
    new = update.coupling(problem.start(found.models), np.empty_like(s), problem.moment)
    assert np.linalg.norm(new - s) < 1e-4 * np.linalg.norm(problem.moment)


def test_damped_sequential_rounds_end_where_undamped_ones_do():
    rng = np.random.default_rng(0)
    ring = sparse.csr_array(np.roll(np.eye(6), 1, axis=1) + np.roll(np.eye(6), -1, axis=1))
    problem = LinearProblem(
        rng.normal(size=(6, 8, 2)), rng.normal(size=(6, 8)), ring, rng.normal(size=(6, 9, 2))
    )
    update = ExactUpdate(problem, 0.5)
    plain = solve_rounds(update, tol=1e-12, order="sequential")
    damped = solve_rounds(update, tol=1e-12, order="sequential", damping=0.4)
    assert plain.converged
    assert damped.converged
    assert damped.rounds != plain.rounds
    assert np.abs(plain.models - damped.models).max() < 1e-9
