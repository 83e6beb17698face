"""The bound on the variation within a cluster holds where its proof applies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeRegressor

from fedrelax import FedRelax, FedRelaxError, Graph, Network
from fedrelax.linear import ExactUpdate, LinearProblem, solve_fixed_point
from fedrelax.theory import cluster_variation, noise_level, variation_bound


def test_the_variation_is_measured_within_each_cluster():
    W = np.array([[0.0, 1.0], [2.0, 1.0], [7.0, 7.0]])
    assert cluster_variation(W, ["a", "a", "b"]) == pytest.approx(2.0)
    assert cluster_variation(W) == pytest.approx(np.square(W - W.mean(axis=0)).sum())
    assert cluster_variation(W[:, :, None]) == pytest.approx(cluster_variation(W))


@pytest.mark.parametrize(("system", "times"), [("paper", 1), ("symmetric", 2)])
@given(seed=st.integers(0, 2**32 - 1), alpha=st.floats(1e-3, 10), sigma=st.floats(0.01, 5))
def test_the_fixed_point_on_a_common_public_set_stays_below_the_bound(
    system, times, seed, alpha, sigma
):
    """FedRelax's fixed point there minimises sum L_i + alpha sum over edges d, as the proof needs.

    GTVMin counts every edge twice, so its minimiser is below half of the bound.
    """
    rng = np.random.default_rng(seed)
    n, m, d = 8, int(rng.integers(2, 8)), 3
    graph, _ = Graph.stochastic_block([n], 0.7, 0.0, random_state=int(seed))
    truth, X = rng.standard_normal(d), rng.standard_normal((n, m, d))
    noise = sigma * rng.standard_normal((n, m))
    public = rng.standard_normal((12, d))
    problem = LinearProblem(X, X @ truth + noise, graph.adjacency, public)
    models = solve_fixed_point(ExactUpdate(problem, alpha, system=system), tol=1e-11).models
    bound = variation_bound(graph, times * alpha, noise_level(noise), public)
    assert cluster_variation(models) <= bound * (1 + 1e-6)


def test_a_graph_that_falls_apart_has_no_bound():
    graph = Graph.from_edges([(0, 1), (2, 3)])
    assert variation_bound(graph, 1.0, 1.0) == np.inf


def test_the_bound_needs_a_positive_alpha():
    with pytest.raises(FedRelaxError, match="alpha is 0"):
        variation_bound(Graph.complete(range(3)), 0, 1.0)


def grown_trees(public, first_exchange, rounds):
    """Four nodes on a path, with trees that can fit any values on distinct rows."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(4, 3, 2)), 5 + rng.normal(size=(4, 3))
    rows = X.reshape(-1, 2) if public == "own" else rng.normal(size=(12, 2))
    network = Network(Graph.from_edges([(0, 1), (1, 2), (2, 3)]), public=rows)
    for i in range(4):
        network.add(i, X[i], y[i], DecisionTreeRegressor())
    solver = FedRelax(alpha=0.7, rounds=rounds, tol=0.0, first_exchange=first_exchange)
    result = solver.solve(network)
    return np.stack([model.predict(rows) for model in result.models.values()]), y


def test_models_that_fit_anything_take_over_labels_of_rows_that_are_public():
    """The values at a public row are harmonic: with one node's label fixed, they all equal it."""
    answers, y = grown_trees("own", "zeros", rounds=150)
    np.testing.assert_allclose(answers, np.broadcast_to(y.ravel(), (4, 12)), atol=1e-6)


def test_models_that_fit_anything_keep_whatever_they_agree_on_elsewhere():
    answers, _ = grown_trees("others", "zeros", rounds=150)
    np.testing.assert_array_equal(answers, 0.0)
    answers, y = grown_trees("others", "models", rounds=150)
    assert answers.min() >= y.min()
