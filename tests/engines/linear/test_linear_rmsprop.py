"""Gradient rounds against a slow loop over nodes with explicit public rows."""

import numpy as np
import pytest

from fedrelax.engines.linear import GradientRounds
from fedrelax.linear import ExactUpdate, solve_fixed_point

from .linear_networks import random_net


def slow_rmsprop(net, alpha, W, steps, first, rate=0.01, smoothing=0.99, eps=1e-8):
    """The authors' iteration, node by node, on rows; yields the models after every step."""
    W = W.copy()
    v = np.zeros_like(W)
    for k in range(steps):
        new = W.copy()
        for i in range(net.n):
            rows, m = net.rows(net.X[i]), max(1, len(net.X[i]))
            g = 2 * rows.T @ (rows @ W[i] - net.y[i]) / m
            penalty = 2 * net.ridge[i] * W[i]
            if net.intercept:
                penalty[-1] = 0
            g = g + penalty
            for j in range(net.n):
                P = net.public(j)
                told = np.zeros((len(P), W.shape[2])) if first == "zeros" and k == 0 else P @ W[j]
                g = g + 2 * alpha * net.A[i, j] * P.T @ (P @ W[i] - told) / len(P)
            v[i] = smoothing * v[i] + (1 - smoothing) * g**2
            new[i] = W[i] - rate * g / (np.sqrt(v[i]) + eps)
        W = new
        yield W


@pytest.mark.parametrize("first", ["zeros", "models"])
@pytest.mark.parametrize(
    "options",
    [
        {"common": False},
        {"common": True, "ridge": 0.2},
        {"common": False, "intercept": True, "q": 2, "ridge": 0.2},
        {"common": True, "intercept": True, "q": 2},
        {"common": True, "features": 8, "density": 1.0},
    ],
)
def test_rmsprop_follows_the_loop_at_every_one_of_500_iterations(options, first):
    """Targets large enough that no node arrives: once gradients are rounding, RMSprop divides
    rounding by rounding, and one last digit of the start changes the loop's own path."""
    net = random_net(11, n=5, **options)
    net.y = [30 * y + 100 for y in net.y]
    problem = net.problem()
    start = np.random.default_rng(0).uniform(-0.5, 0.5, (problem.n, problem.d, problem.q))
    rounds = GradientRounds(problem, 0.3, start, first_exchange=first)
    for expected in slow_rmsprop(net, 0.3, start, 500, first):
        rounds.step()
        assert np.abs(rounds.models - expected).max() <= 1e-10 * np.abs(expected).max()


@pytest.mark.parametrize("common", [False, True])
def test_plain_gradient_steps_reach_the_exact_fixed_point(common):
    net = random_net(4, common=common, least_rows=6, most_rows=9)
    problem = net.problem()
    rounds = GradientRounds(problem, 0.2, rule="plain", rate=0.05)
    for _ in range(20_000):
        rounds.step()
    exact = solve_fixed_point(ExactUpdate(problem, 0.2), tol=1e-12).models
    np.testing.assert_allclose(rounds.models, exact, rtol=1e-6, atol=1e-8)
    assert np.abs(rounds.gradient()).max() < 1e-7


def test_the_symmetric_gradient_vanishes_at_the_symmetric_solution():
    net = random_net(4, least_rows=6, most_rows=9)
    problem = net.problem()
    exact = solve_fixed_point(ExactUpdate(problem, 0.2, system="symmetric"), tol=1e-13).models
    rounds = GradientRounds(problem, 0.2, exact, rule="plain", system="symmetric")
    assert np.abs(rounds.gradient()).max() < 1e-10
