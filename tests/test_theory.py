"""The bound on the variation within a cluster holds where its proof applies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrelax import FedRelaxError, Graph
from fedrelax.linear import ExactUpdate, LinearProblem, solve_accelerated
from fedrelax.theory import cluster_variation, noise_level, variation_bound


def test_the_variation_is_measured_within_each_cluster():
    W = np.array([[0.0, 1.0], [2.0, 1.0], [7.0, 7.0]])
    assert cluster_variation(W, ["a", "a", "b"]) == pytest.approx(2.0)
    assert cluster_variation(W) == pytest.approx(np.square(W - W.mean(axis=0)).sum())
    assert cluster_variation(W[:, :, None]) == pytest.approx(cluster_variation(W))


@given(seed=st.integers(0, 2**32 - 1), alpha=st.floats(1e-3, 10), sigma=st.floats(0.01, 5))
def test_the_fixed_point_on_a_common_public_set_stays_below_the_bound(seed, alpha, sigma):
    """There, FedRelax's fixed point minimises sum L_i + alpha sum over edges d, as the proof needs."""
    rng = np.random.default_rng(seed)
    n, m, d = 8, int(rng.integers(2, 8)), 3
    graph, _ = Graph.stochastic_block([n], 0.7, 0.0, random_state=int(seed))
    truth, X = rng.standard_normal(d), rng.standard_normal((n, m, d))
    noise = sigma * rng.standard_normal((n, m))
    public = rng.standard_normal((12, d))
    problem = LinearProblem(X, X @ truth + noise, graph.adjacency, public)
    models = solve_accelerated(ExactUpdate(problem, alpha), tol=1e-11).models
    bound = variation_bound(graph, alpha, noise_level(noise), public)
    assert cluster_variation(models) <= bound * (1 + 1e-6)


def test_a_graph_that_falls_apart_has_no_bound():
    graph = Graph.from_edges([(0, 1), (2, 3)])
    assert variation_bound(graph, 1.0, 1.0) == np.inf


def test_the_bound_needs_a_positive_alpha():
    with pytest.raises(FedRelaxError, match="alpha is 0"):
        variation_bound(Graph.complete(range(3)), 0, 1.0)
