"""A level share: every engine reaches the fixed point of the formula, and no node can improve there."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from fedrelax import FedRelax, FedRelaxError, Graph, Network, SoftmaxModel
from fedrelax.runtime.site import levelled

N, M, D = 4, 7, 2
RIDGE = 0.3


def numbers(seed=0, common=True):
    """Nodes of unlike levels on a ring."""
    rng = np.random.default_rng(seed)
    graph = Graph.from_edges([(i, (i + 1) % N, rng.uniform(0.5, 2.0)) for i in range(N)])
    public = rng.normal(1.0, 1.0, size=(9, D))
    network = Network(graph, public=public if common else None)
    for i in range(N):
        X = rng.normal(size=(M + i, D))
        y = X @ [1.0, -1.0] + 5.0 * i + rng.normal(size=M + i)
        own = None if common else rng.normal(1.0, 1.0, size=(6 + i, D))
        network.add(i, X, y, Ridge(RIDGE), public=own)
    return network


def closed_form(network, alpha, level, weighting):
    """Solve ``(H_i + R + alpha sum_j A_ij Q_j) w_i = b_i + alpha sum_j A_ij Q_j w_j`` for all nodes."""
    A, size = network.graph.adjacency.toarray(), D + 1
    system, right = np.zeros((N * size, N * size)), np.zeros(N * size)

    def block(j):
        P = np.column_stack([network.public.of(j), np.ones(len(network.public.of(j)))])
        mean = P.mean(axis=0)
        Q = P.T @ P / len(P) - (1 - level) * np.outer(mean, mean)
        return Q if weighting == "mean" else Q * len(P)

    for i, node in enumerate(network):
        X = np.column_stack([node.X, np.ones(len(node.X))])
        share = len(X) if weighting == "mean" else 1
        here = slice(i * size, (i + 1) * size)
        system[here, here] = (X.T @ X + RIDGE * np.diag([1.0] * D + [0.0])) / share
        right[here] = X.T @ node.y / share
        for j in range(N):
            there = slice(j * size, (j + 1) * size)
            system[here, here] += alpha * A[i, j] * block(j)
            system[here, there] -= alpha * A[i, j] * block(j)
    return np.linalg.solve(system, right).reshape(N, size)


def weights_of(result):
    return np.array([np.append(m.coef_, m.intercept_) for m in result.models.values()])


@pytest.mark.parametrize("level", [0.0, 0.2, 1.0])
@pytest.mark.parametrize(
    ("engine", "weighting"), [("linear", "mean"), ("sites", "mean"), ("sites", "rows")]
)
def test_numbers_reach_the_closed_form(engine, level, weighting):
    network = numbers()
    solver = FedRelax(0.1, rounds=130, tol=0, level=level, weighting=weighting, engine=engine)
    found = weights_of(solver.solve(network))
    wanted = closed_form(network, 0.1, level, weighting)
    assert found == pytest.approx(wanted, abs=1e-8)


def test_the_straight_way_ends_there_too():
    network = numbers(seed=1)
    found = weights_of(FedRelax(0.7, tol=1e-12, level=0.1).solve(network))
    assert found == pytest.approx(closed_form(network, 0.7, 0.1, "mean"), abs=1e-8)


def test_a_set_for_each_node_is_served_node_by_node():
    network = numbers(common=False)
    result = FedRelax(0.1, rounds=130, tol=0, level=0.3).solve(network)
    assert result.engine == "sites"
    assert weights_of(result) == pytest.approx(closed_form(network, 0.1, 0.3, "mean"), abs=1e-8)
    with pytest.raises(FedRelaxError, match="level=0.3 needs one common set"):
        FedRelax(0.5, level=0.3, engine="linear").solve(network)


def test_no_share_of_the_level_leaves_levels_and_shares_slopes():
    network = numbers()
    found = weights_of(FedRelax(1e5, level=0.0, tol=1e-12).solve(network))
    assert np.ptp(found[:, :D], axis=0).max() < 1e-2
    centre = network.public.common.mean(axis=0)
    levels = found[:, :D] @ centre + found[:, D]
    assert np.diff(levels).min() > 3.0


def test_discrepancies_are_level_share_times_gap_plus_variance():
    network = numbers()
    for engine in ("linear", "sites"):
        result = FedRelax(0.5, rounds=2, level=0.25, engine=engine).solve(network)
        P = network.public.common
        gap = result.models[0].predict(P) - result.models[1].predict(P)
        wanted = 0.25 * gap.mean() ** 2 + gap.var()
        assert result.discrepancies[0, 1] == pytest.approx(wanted)


def classes(seed=0):
    """Nodes whose priors differ, with three classes."""
    rng = np.random.default_rng(seed)
    graph = Graph.from_edges([(i, (i + 1) % N) for i in range(N)])
    network = Network(graph, "classification", rng.normal(size=(12, D)))
    for i in range(N):
        X = rng.normal(size=(15, D))
        scores = X @ [[2.0, 0.0, -1.0], [0.0, 1.0, 1.0]] + [i, 0.0, 0.0] + rng.gumbel(size=(15, 3))
        y = np.r_[[0, 1, 2], np.argmax(scores, axis=1)[3:]]
        network.add(i, X, y, SoftmaxModel(ridge=0.5))
    return network


@pytest.mark.parametrize("level", [0.0, 0.4, 1.0])
def test_classes_rest_where_no_node_can_improve(level):
    """At the fixed point the gradient of each node's own objective vanishes."""
    network = classes()
    results = {
        engine: FedRelax(0.6, rounds=150, tol=0, level=level, engine=engine).solve(network)
        for engine in ("softmax", "sites")
    }
    P = np.column_stack([network.public.common, np.ones(12)])
    for result in results.values():
        W = [np.vstack([m.coef_.T, m.intercept_]) for m in result.models.values()]
        answers = [m.predict_proba(network.public.common) for m in result.models.values()]
        for i, node in enumerate(network):
            heard = (answers[(i - 1) % N] + answers[(i + 1) % N]) / 2
            taught = levelled(heard, answers[i], level, classes=True)
            X = np.column_stack([node.X, np.ones(len(node.X))])
            own = result.models[i].predict_proba(node.X) - np.eye(3)[node.y]
            slope = X.T @ own + 0.6 * 2 * len(X) / 12 * P.T @ (answers[i] - taught)
            slope[:D] += 2 * 0.5 * W[i][:D]
            assert np.abs(slope).max() < 1e-6
    one, other = (
        np.array([m.predict_proba(P[:, :D]) for m in results[e].models.values()])
        for e in ("softmax", "sites")
    )
    assert one == pytest.approx(other, abs=1e-7)


def test_classes_keep_a_share_of_their_prior():
    network = classes()
    public = network.public.common

    def spread(level):
        result = FedRelax(30.0, rounds=300, level=level).solve(network)
        priors = [m.predict_proba(public).mean(axis=0) for m in result.models.values()]
        return np.ptp(priors, axis=0).max()

    assert spread(0.0) > 5 * spread(1.0)


@pytest.mark.parametrize("level", [-0.1, 1.1, "half", np.nan])
def test_bad_shares(level):
    with pytest.raises(FedRelaxError, match="level="):
        FedRelax(level=level).solve(numbers())


def test_any_model_takes_part():
    from sklearn.tree import DecisionTreeRegressor

    network = Network(numbers().graph, public=numbers().public.common)
    for node in numbers():
        network.add(node.label, node.X, node.y, DecisionTreeRegressor(max_depth=2))
    result = FedRelax(5.0, rounds=5, level=0.0).solve(network)
    levels = [m.predict(network.public.common).mean() for m in result.models.values()]
    assert np.diff(levels).min() > 2.0
