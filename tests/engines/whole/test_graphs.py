"""Ridge models on any graph: the solution, its evidence, and settings found from the rows."""

from __future__ import annotations

import numpy as np
import pytest

from fedrelax import FedRelaxRegressor, Graph
from fedrelax.engines.whole.closed import (
    NodeSums,
    level_and_shape,
    negative_log_evidence,
    solve_complete,
    solve_one,
)
from fedrelax.engines.whole.graph_ridge import BETTER, choose_ridge_on
from fedrelax.engines.whole.graphs import Mesh, graph_evidence, solve_graph, solve_parts

RIDGE = np.array([0.3, 0.3, 0.0])


def sums_of(n, m=6, seed=0, without=()):
    """Sums over rows of two columns and the constant, perhaps with nodes that have none."""
    rng = np.random.default_rng(seed)
    node = np.repeat(np.arange(n), m)
    node = node[~np.isin(node, without)]
    X = np.column_stack([rng.normal(size=(len(node), 2)), np.ones(len(node))])
    y = rng.normal(size=len(node)) + X[:, 0] * node
    P = level_and_shape(X.T @ X / len(X), X.mean(axis=0), 0.1)
    return NodeSums.of(X, y, node, n), m * P


def ring(n):
    return Graph.from_edges([(i, (i + 1) % n) for i in range(n)])


def full_system(sums, mesh, ridge, P, E):
    n, d = sums.moment.shape
    S = np.kron(mesh.laplacian.toarray(), P) + np.kron(np.eye(n) - 1 / n, E)
    for i in range(n):
        S[i * d : (i + 1) * d, i * d : (i + 1) * d] += sums.gram[i] + np.diag(ridge)
    return S


@pytest.mark.parametrize("weight", [1.0, 0.07])
@pytest.mark.parametrize("strength", [0.01, 1.0, 1e4])
def test_on_a_complete_graph_models_and_evidence_are_those_of_the_closed_form(weight, strength):
    sums, P = sums_of(9)
    mesh = Mesh.of(Graph.complete(range(9), weight).laplacian())
    assert mesh.per_edge * weight == pytest.approx(1 / 9)
    found = solve_graph(sums, mesh, RIDGE, strength * P)
    closed = solve_complete(sums, RIDGE, strength * P)
    np.testing.assert_allclose(found.models, closed.models, rtol=1e-8, atol=1e-8)
    evidence = graph_evidence(sums, mesh, found)
    assert evidence == pytest.approx(negative_log_evidence(sums, closed), abs=1e-6)


@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_coupling_of_all_nodes_alike_may_take_any_part(share):
    """Half along a complete graph and half as coupling of all is the same network."""
    sums, P = sums_of(9)
    mesh = Mesh.of(Graph.complete(range(9)).laplacian())
    found = solve_graph(sums, mesh, RIDGE, (1 - share) * P, share * P)
    closed = solve_complete(sums, RIDGE, P)
    np.testing.assert_allclose(found.models, closed.models, rtol=1e-8, atol=1e-8)
    evidence = graph_evidence(sums, mesh, found)
    assert evidence == pytest.approx(negative_log_evidence(sums, closed), abs=1e-6)


@pytest.mark.parametrize("share", [0.0, 0.1])
@pytest.mark.parametrize("strength", [0.0, 1e-3, 1.0, 1e3, 1e6])
def test_every_strength_solves_the_system(strength, share):
    sums, P = sums_of(40)
    mesh = Mesh.of(ring(40).laplacian())
    P, E = strength * P, share * strength * P
    found = solve_graph(sums, mesh, RIDGE, P, E)
    S, b = full_system(sums, mesh, RIDGE, P, E), sums.moment.ravel()
    assert np.linalg.norm(S @ found.models.ravel() - b) < 1e-8 * np.linalg.norm(b)
    assert found.log_determinant == pytest.approx(np.linalg.slogdet(S)[1], abs=1e-5)


def test_ever_stronger_coupling_ends_in_one_model_for_each_connected_part():
    sums, P = sums_of(12)
    one = solve_parts(sums, Mesh.of(ring(12).laplacian()), RIDGE, 1e-6)
    np.testing.assert_allclose(one, np.tile(solve_one(sums, RIDGE)[0], (12, 1)), rtol=1e-9)
    two = Graph.from_edges([(i, i + 1) for i in range(11) if i != 5])
    mesh = Mesh.of(two.laplacian())
    strong = solve_graph(sums, mesh, RIDGE, 1e7 * P)
    parts = solve_parts(sums, mesh, RIDGE, 0.0)
    assert mesh.parts == 2 and np.abs(parts[0] - parts[11]).max() > 0.1
    np.testing.assert_allclose(strong.models, parts, rtol=1e-4, atol=1e-4)


def test_evidence_on_a_ring_is_that_of_the_rows_as_one_normal_vector():
    """The same ranking as the restricted likelihood worked out row by row."""
    n, m = 7, 5
    rng = np.random.default_rng(3)
    node = np.repeat(np.arange(n), m)
    X = np.column_stack([rng.normal(size=(n * m, 2)), np.ones(n * m)])
    y = rng.normal(size=n * m) + np.sin(node)
    sums, mesh = NodeSums.of(X, y, node, n), Mesh.of(ring(n).laplacian())
    shape = level_and_shape(X.T @ X / len(X), X.mean(axis=0), 0.1)
    Z = np.zeros((n * m, 3 * n))
    for r, i in enumerate(node):
        Z[r, 3 * i : 3 * i + 3] = X[r]

    def by_rows(ridge, P):
        # The level's mean has a prior so wide that it is flat.
        prior = np.kron(mesh.laplacian.toarray(), P) + np.kron(np.eye(n), np.diag(ridge))
        prior += 1e-7 * np.kron(np.full((n, n), 1 / n), np.diag([0, 0, 1]))
        V = np.eye(n * m) + Z @ np.linalg.inv(prior) @ Z.T
        return np.linalg.slogdet(V)[1] + (n * m - 1) * np.log(y @ np.linalg.solve(V, y))

    gaps = []
    for penalty, strength in ((0.1, 0.5), (1.0, 3.0), (3.0, 100.0)):
        ridge, P = np.array([penalty, penalty, 0.0]), strength * shape
        found = graph_evidence(sums, mesh, solve_graph(sums, mesh, ridge, P))
        gaps.append(by_rows(ridge, P) - found)
    assert np.ptp(gaps) < 1e-3


def smooth(n, m, seed, noise=0.5):
    """Nodes on a ring whose level and slope go round once; a function draws new rows of them."""
    rng = np.random.default_rng(seed)
    turn = 2 * np.pi * np.arange(n) / n

    def rows(many, noise):
        node = np.repeat(np.arange(n), many)
        X = rng.normal(size=(len(node), 2))
        y = 3 * np.cos(turn[node]) + 2 * np.sin(turn[node]) * X[:, 0]
        return X, y + noise * rng.normal(size=len(node)), node

    return rows(m, noise), rows(50, 0.0)


def test_a_graph_that_says_who_is_alike_is_worth_more_than_all_nodes_alike():
    (X, y, node), (T, t, at) = smooth(40, 4, 0)
    found = choose_ridge_on(ring(40).laplacian(), X, y, node)
    assert np.mean((found.predict(T, at) - t) ** 2) < 0.1
    assert found.errors["together"] < 0.5 * found.errors["alone"]
    assert found.errors["together"] < 0.2 * found.errors["one model"]
    assert "along the graph" in found.words


def test_a_graph_that_misleads_is_left_aside():
    (X, _, node), _ = smooth(40, 6, 1)
    level = 5.0 * np.random.default_rng(2).normal(size=40)
    found = choose_ridge_on(ring(40).laplacian(), X, level[node] + X[:, 0], node, curves=False)
    assert found.words.startswith(BETTER) or "between all nodes alike" in found.words


def test_isolated_nodes_nodes_without_rows_and_several_parts():
    (X, y, node), (T, t, at) = smooth(40, 4, 0)
    kept = ~np.isin(node, [5, 39])
    edges = [(i, i + 1) for i in range(38) if i != 20]  # two parts, and node 39 by itself
    graph = Graph.from_edges(edges, labels=range(40))
    found = choose_ridge_on(graph.laplacian(), X[kept], y[kept], node[kept])
    assert np.isfinite(found.models).all()
    near = (at != 39) & (at != 5)
    assert np.mean((found.predict(T, at) - t)[near] ** 2) < 0.2
    assert np.mean((found.predict(T, at) - t)[at == 5] ** 2) < 0.5
    empty = choose_ridge_on(Graph.from_edges([], labels=range(40)).laplacian(), X, y, node)
    assert np.isfinite(empty.models).all()


def test_folds_that_keep_days_together_see_what_the_evidence_does_not():
    rng = np.random.default_rng(6)
    n, days = 15, 8
    node, day = np.repeat(np.arange(n), days), np.tile(np.arange(days), n)
    X = rng.normal(size=days)[day][:, None] + 0.01 * rng.normal(size=(n * days, 1))
    y = 3.0 * rng.normal(size=days)[day] + 0.1 * rng.normal(size=n * days)
    folds = [(day % 4 != f, day % 4 == f) for f in range(4)]
    L = ring(n).laplacian()
    honest, blind = choose_ridge_on(L, X, y, node, folds=folds), choose_ridge_on(L, X, y, node)
    assert honest.errors["together"] > 1.5 * blind.errors["together"]


def test_curves_are_taken_where_the_relation_bends():
    (X, y, node), (T, t, at) = smooth(30, 6, 3)
    bent = choose_ridge_on(ring(30).laplacian(), X, y + X[:, 1] ** 2, node)
    straight = choose_ridge_on(ring(30).laplacian(), X, y + X[:, 1] ** 2, node, curves=False)
    assert bent.scale.curves is not None and "curves" in bent.words
    t = t + T[:, 1] ** 2
    error, plain = (np.mean((f.predict(T, at) - t) ** 2) for f in (bent, straight))
    assert error < 0.3 * plain


def test_the_estimator_finds_it_for_a_graph_with_edges():
    (X, y, node), (T, t, at) = smooth(24, 4, 0)
    model = FedRelaxRegressor("auto", graph=ring(24), alpha="auto").fit(X, y, nodes=node)
    assert model.result_.engine == "whole" and model.alpha_ > 0
    assert np.mean((model.predict(T, at) - t) ** 2) < 0.2
