"""The fixed point is what the mathematics says, to the last digits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

from fedrelax import FedRelax, FedRelaxError, LinearModel, Network
from tests.conftest import random_graph, regression_network

EXACT = {"rounds": 20000, "tol": 1e-14}


def block_system(network: Network, alpha: float, symmetric: bool) -> np.ndarray:
    """Solve (H_i + alpha S_i) w_i - alpha sum_j A_ij Q_j w_j = b_i, built with plain loops.

    The symmetric objective has Q_i + Q_j in place of Q_j.
    """
    nodes, public = list(network), network.public
    n, d = len(nodes), nodes[0].X.shape[1]
    A = network.graph.adjacency.toarray()
    Q = [
        public.of(node.label).T @ public.of(node.label) / len(public.of(node.label))
        for node in nodes
    ]
    M, b = np.zeros((n, d, n, d)), np.zeros((n, d))
    for i, node in enumerate(nodes):
        M[i, :, i] += node.X.T @ node.X / len(node.X)
        b[i] = node.X.T @ node.y / len(node.X)
        for j in range(n):
            pull = alpha * A[i, j] * (Q[i] + Q[j] if symmetric else Q[j])
            M[i, :, i] += pull
            M[i, :, j] -= pull
    return np.linalg.solve(M.reshape(n * d, n * d), b.ravel()).reshape(n, d)


def weights(result) -> np.ndarray:
    return np.array([model.coef_ for model in result.models.values()])


@pytest.mark.parametrize("common", [True, False], ids=["common set", "a set per node"])
@pytest.mark.parametrize("objective", ["paper", "gtvmin"])
@pytest.mark.parametrize("order", ["simultaneous", "sequential"])
@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_least_squares_nodes_reach_the_linear_system(common, objective, order, damping):
    rng = np.random.default_rng(3)
    network = regression_network(rng, LinearRegression(fit_intercept=False), common=common)
    solver = FedRelax(
        engine="sites", alpha=0.4, objective=objective, order=order, damping=damping, **EXACT
    )
    found = weights(solver.solve(network))
    expected = block_system(network, 0.4, symmetric=objective == "gtvmin")
    assert np.abs(found - expected).max() < 1e-8


@pytest.mark.parametrize("common", [True, False], ids=["common set", "a set per node"])
def test_nodes_that_wake_up_at_random_reach_the_same_point(common):
    rng = np.random.default_rng(3)
    network = regression_network(rng, LinearRegression(fit_intercept=False), common=common)
    solver = FedRelax(alpha=0.4, order="asynchronous", rounds=150, tol=1e-3)
    result = solver.solve(network)
    assert result.engine == "sites"
    assert result.n_rounds == 150  # a node that slept says nothing of rest
    expected = block_system(network, 0.4, symmetric=False)
    assert np.abs(weights(result) - expected).max() < 1e-6


def test_who_wakes_up_is_drawn_by_the_seed_and_some_sleep_through_a_round():
    network = regression_network(np.random.default_rng(3), LinearModel(ridge=0.1), n=8)

    def first_round(seed: int) -> np.ndarray:
        solver = FedRelax(alpha=0.4, order="asynchronous", rounds=1, tol=0, random_state=seed)
        result = solver.solve(network)
        return np.array([result.models[i] is result.alone[i].estimator for i in network.labels])

    asleep = [first_round(seed) for seed in (0, 0, 1)]
    assert 0 < asleep[0].sum() < 8
    assert np.array_equal(asleep[0], asleep[1])
    assert not np.array_equal(asleep[0], asleep[2])
    with pytest.raises(FedRelaxError, match="the linear engine does not apply: it needs order"):
        FedRelax(order="asynchronous", engine="linear").solve(network)


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.floats(0.01, 1.0), st.booleans())
def test_any_network_any_alpha(seed, alpha, common):
    rng = np.random.default_rng(seed)
    model = LinearModel(fit_intercept=False)
    network = regression_network(rng, model, n=4, d=2, common=common)
    found = weights(FedRelax(engine="sites", alpha=alpha, **EXACT).solve(network))
    assert np.abs(found - block_system(network, alpha, symmetric=False)).max() < 1e-8


def test_with_a_common_set_the_paper_solves_gtvmin_at_half_alpha():
    network = regression_network(np.random.default_rng(0), LinearModel(fit_intercept=False))
    paper = FedRelax(engine="sites", alpha=0.6, **EXACT).solve(network)
    gtvmin = FedRelax(engine="sites", alpha=0.3, objective="gtvmin", **EXACT).solve(network)
    assert np.abs(weights(paper) - weights(gtvmin)).max() < 1e-8
    assert np.abs(weights(paper) - block_system(network, 0.3, symmetric=True)).max() < 1e-8


def test_with_a_set_per_node_the_two_differ():
    network = regression_network(
        np.random.default_rng(0), LinearModel(fit_intercept=False), common=False, m_pub=3
    )
    paper = FedRelax(engine="sites", alpha=0.6, **EXACT).solve(network)
    gtvmin = FedRelax(engine="sites", alpha=0.3, objective="gtvmin", **EXACT).solve(network)
    assert np.abs(weights(paper) - weights(gtvmin)).max() > 1e-3


def test_gtvmin_lowers_its_objective_in_every_sequential_round():
    for seed in range(5):
        network = regression_network(
            np.random.default_rng(seed), LinearModel(fit_intercept=False), common=False
        )
        solver = FedRelax(
            engine="sites", alpha=1.0, objective="gtvmin", order="sequential", rounds=30, tol=0
        )
        objective = solver.solve(network).history["objective"]
        assert (np.diff(objective) <= 1e-9 * objective[0]).all()


@pytest.mark.parametrize(
    "model", [LinearModel(), DecisionTreeRegressor(random_state=0)], ids=["linear", "tree"]
)
def test_alpha_zero_is_exactly_local_training(model):
    from sklearn.base import clone

    network = regression_network(np.random.default_rng(5), model)
    result = FedRelax(engine="sites", alpha=0.0, rounds=5).solve(network)
    grid = np.random.default_rng(6).normal(size=(50, 3))
    for node in network:
        alone = clone(model).fit(node.X, node.y)
        assert np.array_equal(result.models[node.label].predict(grid), alone.predict(grid))


def test_an_isolated_node_learns_alone():
    from fedrelax import Graph

    graph = Graph.from_edges([(0, 1), (1, 2)], labels=[0, 1, 2, 3])
    model = LinearModel()
    network = regression_network(np.random.default_rng(5), model, graph=graph)
    result = FedRelax(engine="sites", alpha=2.0).solve(network)
    node = network.nodes[3]
    alone = LinearModel().fit(node.X, node.y)
    assert np.array_equal(result.models[3].coef_, alone.coef_)


@pytest.mark.parametrize("common", [True, False])
def test_large_alpha_on_a_connected_graph_makes_all_agree(common):
    rng = np.random.default_rng(1)
    network = regression_network(rng, LinearModel(), graph=random_graph(rng, 4), common=common)
    result = FedRelax(engine="sites", alpha=1e4, damping=0.3, rounds=300, tol=1e-9).solve(network)
    rows = np.concatenate([network.public.of(label) for label in network.nodes])
    answers = np.array([model.predict(rows) for model in result.models.values()])
    assert np.ptp(answers, axis=0).max() < 1e-3
