"""Graphs that change between rounds: which edges live, and that every engine agrees."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from fedrelax import FedRelax, FedRelaxError, FedRelaxRegressor, GradientFedRelax, Graph, Network
from fedrelax.datasets import clustered
from fedrelax.models import LinearModel, SoftmaxModel
from fedrelax.public import Smoother
from fedrelax.wiring import Discover, Guarded, Rewire, as_wiring, discover, rewire
from fedrelax.wiring.base import Ranked, marked


class Fixed:
    """A view of given numbers."""

    def __init__(self, given, values, own=None, edges=None):
        self.given, self._values = given, values
        self.edges = given if edges is None else edges
        self._own = values if own is None else own

    def discrepancies(self, edges):
        return self._values[_entries(edges)]

    def own_losses(self, edges):
        return self._own[_entries(edges)]


def _entries(edges):
    return np.repeat(np.arange(edges.shape[0]), np.diff(edges.indptr)), edges.indices


def full(n, weight=1.0):
    return sparse.csr_array(weight * (np.ones((n, n)) - np.eye(n)))


def network_of(data, model, common=True, graph=None, kind="regression"):
    network = Network(graph or data.graph, kind, data.public[0] if common else None)
    for i in range(len(data.X)):
        y = data.y[i] if kind == "regression" else np.where(data.y[i] > 0, "up", "down")
        shared = None if common else data.public[i]
        network.add(i, data.X[i], y, model, public=shared)
    return network


def within(graph, clusters):
    edges = graph.adjacency
    return edges.multiply(clusters[:, None] == clusters).sum() / edges.sum()


@pytest.fixture(scope="module")
def data():
    return clustered((10, 10, 10), m=6, d=10, m_pub=60, p_in=0.9, p_out=0.4, random_state=1)


# Which edges live


def test_a_node_keeps_its_nearest_and_an_edge_lives_if_either_end_keeps_it():
    D = np.array([[0, 1, 2, 3], [1, 0, 5, 6], [9, 1, 0, 2], [9, 8, 1, 0]], dtype=float)
    kept = Rewire(shares=(0.3,)).wire(0, Fixed(full(4, 2.0), D)).toarray()
    # 0.3 of 3 neighbours is one: 0 keeps 1, 1 keeps 0, 2 keeps 1, 3 keeps 2.
    wanted = np.zeros((4, 4))
    for i, j in ((0, 1), (1, 2), (2, 3)):
        wanted[i, j] = wanted[j, i] = 2.0
    np.testing.assert_array_equal(kept, wanted)


def test_later_stages_keep_everybody_who_is_as_near():
    points = np.array([0.0, 1.0, 2.0, 30.0, 31.0, 60.0, 61.0, 62.0, 63.0, 64.0])
    D = (points[:, None] - points) ** 2
    strategy = Rewire(shares=(0.2,), after=(1, 0), times=12.0)
    kept = strategy.wire(1, Fixed(full(10), D)).toarray() > 0
    group = np.repeat([0, 1, 2], [3, 2, 5])
    assert kept[group[:, None] == group].sum() == 3 * 2 + 2 * 1 + 5 * 4
    far = (group[:, None] == 1) & (group != 1)
    assert kept[far].sum() > 0  # a group of two is smaller than the least share


def test_the_second_look_lets_a_node_change_sides():
    """Node 0 agrees with the crowd 1-4, but 5-8 explain its own rows."""
    D = np.full((9, 9), 50.0)
    D[:5, :5] = D[5:, 5:] = 1.0
    own = np.ones((9, 9))
    own[0, 1:5], own[0, 5:] = 9.0, 1.0
    strategy = Rewire(shares=(0.375,), after=(0, 0))
    kept = strategy.wire(1, Fixed(full(9), D, own)).toarray()[0] > 0
    assert kept[5:].sum() == 3
    own[0, 1:5] = 1.1  # no clear difference: stay
    kept = strategy.wire(1, Fixed(full(9), D, own)).toarray()[0] > 0
    assert kept[1:5].sum() >= 3
    assert not kept[5:].any()


def test_a_guarded_graph_needs_the_consent_of_both_ends():
    """Node 3 marks everybody, and says what nobody finds near; node 4 is not heard at all."""
    D = np.ones((5, 5))
    D[:3, 3] = 100.0
    D[:, 4] = np.inf
    kept = Guarded(shares=(0.6,), consent=1.0).wire(0, Fixed(full(5), D)).toarray() > 0
    assert kept[:3, :3].sum() == 6
    assert not kept[3:].any()
    loose = Guarded(shares=(0.6,), consent=2.0).wire(0, Fixed(full(5), D)).toarray() > 0
    assert loose[3, :3].sum() == 2


def test_a_guarded_graph_heeds_what_fits_the_own_rows():
    """All answers are as near, but those of node 3 do not fit the rows of nodes 0 to 2."""
    own = np.ones((4, 4))
    own[:3, 3] = 4.0
    guard = Guarded(shares=(0.6,), consent=1.0)
    kept = guard.wire(0, Fixed(full(4), np.ones((4, 4)), own)).toarray() > 0
    assert kept[:3, :3].sum() == 6
    assert not kept[3].any()


def test_a_guarded_graph_begins_before_the_first_round():
    wiring = Guarded(shares=(0.5, 0.2), after=(0, 1), every=3)
    stages = [wiring.due(round) for round in range(15)]
    assert [k for k, stage in enumerate(stages) if stage is not None] == [0, 3, 6, 9, 12]
    assert not wiring.settled(12)
    assert wiring.settled(13)


def test_ranks_are_within_rows_and_stable():
    edges = sparse.csr_array(np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]], dtype=float))
    ranked = Ranked(edges, np.array([2.0, 1.0, 0.0, 0.0]))
    np.testing.assert_array_equal(ranked.first(np.array([1, 1, 0])), [0, 1, 1, 0])
    kept = marked(edges, ranked.first(np.array([1, 0, 0])))
    np.testing.assert_array_equal(kept.toarray(), [[0, 0, 1], [0, 0, 0], [1, 0, 0]])


def test_stages_come_every_so_many_rounds_and_then_rest():
    wiring = Rewire(shares=(0.5, 0.2), after=(1, 1), every=3)
    assert wiring.stages == 6
    stages = [wiring.due(round) for round in range(20)]
    assert [(k, s) for k, s in enumerate(stages) if s is not None] == [
        (3, 0), (6, 1), (9, 2), (12, 3), (15, 4), (18, 5),
    ]  # fmt: skip
    assert not wiring.settled(18)
    assert wiring.settled(19)
    assert replace(wiring, friends=1.0).stages == 5
    assert Rewire().paced(200).every == 2
    assert Rewire().paced(20).every == 1


def test_friends_of_friends_come_back_and_strangers_do_not():
    """Two circles that overlap in two nodes, and a triangle apart, in a complete graph of nine."""
    given = Graph.complete(range(9)).adjacency
    circles = [(0, 1, 2, 3), (2, 3, 4, 5), (6, 7, 8)]
    pairs = {pair for circle in circles for pair in itertools.combinations(circle, 2)}
    kept = Graph.from_edges(sorted(pairs), labels=range(9)).adjacency
    view = Fixed(given, np.zeros(given.shape), edges=kept)
    wiring = Rewire(shares=(0.5,), after=(0, 0), friends=0.5, every=1)
    joined = wiring.wire(wiring.stages - 1, view).toarray()
    assert joined[0, 4] == 1  # 2 and 3 are kept by both, of the three that each keeps
    assert joined[:6, 6:].sum() == 0
    assert (joined[kept.toarray() > 0] == 1).all()
    np.testing.assert_array_equal(joined, joined.T)


def test_trees_start_anew_on_the_final_graph_and_linear_models_go_on(data):
    """So one round later a tree is what one round on that graph makes of the models trained alone."""
    wiring = Rewire(shares=(0.5,), after=(0, 0), every=1)
    last = wiring.stages + 1
    for model, anew in ((DecisionTreeRegressor(max_depth=4), True), (Ridge(), False)):
        settings = {"alpha": 0.1, "tol": 0.0}
        network = network_of(data, model)
        wired = FedRelax(engine="sites", rounds=last, wiring=wiring, **settings).solve(network)
        once = Network(wired.kept, public=data.public[0])
        for node in network:
            once.add(node.label, node.X, node.y, model)
        plain = FedRelax(engine="sites", rounds=1, **settings).solve(once)
        same = [
            np.array_equal(
                wired.local_models[i].predict(node.X), plain.local_models[i].predict(node.X)
            )
            for i, node in network.nodes.items()
        ]
        assert all(same) == anew


# Engines


@pytest.mark.slow
@pytest.mark.parametrize("common", [True, False])
def test_the_linear_engine_wires_as_the_general_one(data, common, monkeypatch):
    """But for the second look, in which the general engine must guess at unseen rows."""
    monkeypatch.setattr(rewire, "FAR", np.inf)
    settings = {"alpha": 0.05, "rounds": 30, "tol": 0.0, "wiring": Rewire(every=2)}
    network = network_of(data, LinearModel(ridge=0.1, fit_intercept=False), common)
    general = FedRelax(engine="sites", **settings).solve(network)
    linear = FedRelax(engine="linear", **settings).solve(network)
    assert (general.kept.adjacency != linear.kept.adjacency).nnz == 0
    for name in ("local_loss", "gtv", "objective"):
        np.testing.assert_allclose(general.history[name], linear.history[name], rtol=1e-6)


@pytest.mark.parametrize("step", ["plain", "rmsprop"])
def test_gradient_rounds_can_be_rewired(data, step):
    network = network_of(data, LinearModel(fit_intercept=False), common=False)
    solver = GradientFedRelax(
        alpha=0.05, rounds=300, tol=0.0, step=step, wiring=Rewire(every=20), rate=0.02
    )
    result = solver.solve(network)
    assert within(result.kept, data.clusters) > 0.95


def test_softmax_models_wire_as_the_general_engine(monkeypatch, data):
    monkeypatch.setattr(rewire, "FAR", np.inf)
    network = network_of(data, SoftmaxModel(ridge=0.3), kind="classification")
    settings = FedRelax(engine="sites", alpha=0.05, rounds=13, tol=0.0, wiring=Rewire(every=1))
    one, other = (
        replace(settings, engine=engine).solve(network) for engine in ("sites", "softmax")
    )
    assert (one.kept.adjacency != other.kept.adjacency).nnz == 0
    np.testing.assert_allclose(one.history["objective"], other.history["objective"], rtol=1e-4)


def test_without_stages_nothing_changes(data):
    network = network_of(data, LinearModel(ridge=0.1))
    plain = FedRelax(engine="sites", alpha=0.1, rounds=5, tol=0.0).solve(network)
    late = FedRelax(engine="sites", alpha=0.1, rounds=5, tol=0.0, wiring=Rewire(every=100)).solve(
        network
    )
    np.testing.assert_array_equal(plain.history["objective"], late.history["objective"])
    assert plain.kept is None
    assert (late.kept.adjacency != data.graph.adjacency).nnz == 0


@pytest.mark.parametrize("engine", ["sites", "linear"])
def test_with_patience_the_best_rounds_graph_comes_back(data, engine):
    network = Network(data.graph, public=data.public[0])
    for i in range(len(data.X)):
        held = (data.X_val[i], data.y_val[i])
        model = LinearModel(ridge=0.1, fit_intercept=False)
        network.add(i, data.X[i], data.y[i], model, validation=held)
    # Shares that become absurd: the best round lies before the last stage.
    wiring = Rewire(shares=(0.6, 0.3, 0.03, 0.03, 0.03), after=(0, 0), every=4, times=1.0)
    settings = FedRelax(alpha=0.3, rounds=40, tol=0.0, patience=40, wiring=wiring, engine=engine)
    result = settings.solve(network)
    assert result.n_rounds == int(np.argmin(result.history["validation_loss"]))
    again = replace(settings, rounds=result.n_rounds, patience=None).solve(network)
    assert (again.kept.adjacency != result.kept.adjacency).nnz == 0


@pytest.mark.slow
def test_trees_and_mixed_networks_are_rewired_and_workers_do_not_matter(data):
    network = Network(data.graph, public=data.public[0])
    models = [DecisionTreeRegressor(max_depth=4), Ridge(), LinearRegression()]
    for i in range(len(data.X)):
        network.add(i, data.X[i], data.y[i], models[i % 3])
    results = [
        FedRelax(engine="sites", alpha=0.05, rounds=13, wiring=Rewire(), n_jobs=jobs).solve(network)
        for jobs in (1, 2)
    ]
    assert (results[0].kept.adjacency != results[1].kept.adjacency).nnz == 0
    assert 0 < results[0].kept.n_edges < data.graph.n_edges
    assert within(results[0].kept, data.clusters) > within(data.graph, data.clusters)


def test_classification_trees_can_be_rewired(data):
    network = network_of(data, DecisionTreeClassifier(max_depth=3), kind="classification")
    result = FedRelax(engine="sites", alpha=0.05, rounds=13, wiring=Rewire()).solve(network)
    assert result.kept.n_edges < data.graph.n_edges
    assert not result.kept.isolated


# What it finds


def test_rewiring_finds_the_clusters(data):
    n, m, d = data.X.shape
    X, y, nodes = data.X.reshape(n * m, d), data.y.ravel(), np.repeat(range(n), m)
    model = LinearModel(fit_intercept=False)
    errors = {}
    for wiring in ("fixed", "rewire"):
        fit = FedRelaxRegressor(model, data.graph, alpha=0.05, wiring=wiring).fit(X, y, nodes=nodes)
        W = np.stack([fit.models_[i].coef_ for i in range(n)])
        errors[wiring] = np.square(W - data.true_weights).mean()
    assert errors["rewire"] < 0.01 * errors["fixed"]
    assert within(fit.result_.kept, data.clusters) == 1
    assert [sorted(data.clusters[group].tolist()) for group in map(list, fit.result_.clusters)] in [
        [[a] * 10, [b] * 10, [c] * 10] for a in range(3) for b in range(3) for c in range(3)
    ]
    frame = fit.result_.edges_to_frame()
    assert len(frame) == data.graph.n_edges
    assert (frame["used"] > 0).sum() == fit.result_.kept.n_edges
    assert (frame[frame["used"] > 0]["discrepancy"]).max() < frame["discrepancy"].max()


@pytest.mark.parametrize("small", [2000, 10])
def test_neighbours_are_found_without_a_graph(monkeypatch, data, small):
    """Also by the search among candidates that large networks use."""
    for module in ("fedrelax.wiring.discover", "fedrelax.estimators.base"):
        monkeypatch.setattr(f"{module}.SMALL", small)
    n, m, d = data.X.shape
    wiring = Discover(candidates=15)
    fit = FedRelaxRegressor(LinearModel(fit_intercept=False), alpha=0.05, wiring=wiring)
    fit.fit(data.X.reshape(n * m, d), data.y.ravel(), nodes=np.repeat(range(n), m))
    assert within(fit.result_.kept, data.clusters) > 0.95
    W = np.stack([fit.models_[i].coef_ for i in range(n)])
    assert np.square(W - data.true_weights).mean() < 0.02


def test_a_search_for_candidates_does_not_pair_everybody():
    points = np.random.default_rng(0).normal(size=(3000, 40))
    edges = Discover(candidates=20).nearest(points)
    assert edges.nnz < 2 * 3000 * (20 + 2 + 1)
    assert abs(edges - edges.T).max() == 0
    assert not edges.diagonal().any()
    blocks = np.repeat(np.arange(60), 50)
    clear = points * 0.05 + 10 * np.random.default_rng(1).normal(size=(60, 40))[blocks]
    edges = Discover(candidates=20).nearest(clear)
    learner, other = _entries(edges)
    assert np.mean(blocks[learner] == blocks[other]) > 0.8  # all but the strangers
    assert discover.SMALL == 2000


def test_a_smoother_carries_linear_and_smooth_answers_over():
    rng = np.random.default_rng(0)
    public, own = rng.normal(size=(150, 3)), rng.normal(size=(20, 3))

    def guess(function):
        smoother = Smoother(public)
        return smoother.weights(own) @ smoother.coefficients(function(public)[:, None])

    for function in (lambda X: X @ [1.0, -2.0, 0.5] + 3, lambda X: np.sin(X[:, 0]) + X[:, 1]):
        truth = function(own)
        assert np.mean((guess(function)[:, 0] - truth) ** 2) < 0.02 * truth.var()


# Bad input


def test_unknown_wirings_and_senseless_settings_are_refused(data):
    with pytest.raises(FedRelaxError, match=r"wiring='rewird' must be one of .* did you mean"):
        as_wiring("rewird")
    for bad, words in (
        (Rewire(shares=()), "shares=()"),
        (Rewire(shares=(1.5,)), "at most 1"),
        (Rewire(times=0.5), "times=0.5"),
        (Rewire(every=0), "every=0"),
    ):
        with pytest.raises(FedRelaxError, match=words.replace("(", r"\(").replace(")", r"\)")):
            FedRelax(engine="sites", wiring=bad).solve(network_of(data, Ridge()))


def test_discovery_needs_common_public_rows(data):
    network = network_of(data, Ridge(), common=False)
    with pytest.raises(FedRelaxError, match="one common set of public rows"):
        FedRelax(engine="sites", wiring=Discover()).solve(network)


def test_communities_of_a_graph():
    graph = Graph.from_edges([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3, 0.1)])
    assert graph.communities() == [[0, 1, 2], [3, 4, 5]]


def test_more_than_two_thousand_nodes_find_each_other_without_all_pairs():
    rng = np.random.default_rng(0)
    n, m, d = 2400, 8, 6
    clusters = rng.integers(20, size=n)
    weights = 2 * rng.normal(size=(20, d))[clusters]
    X = rng.normal(size=(n, m, d))
    y = np.einsum("nmd,nd->nm", X, weights) + 0.3 * rng.normal(size=(n, m))
    model = FedRelaxRegressor(LinearModel(fit_intercept=False), alpha=0.05, wiring="discover")
    model.fit(X.reshape(-1, d), y.ravel(), nodes=np.repeat(range(n), m))
    result = model.result_
    assert result.graph.n_edges == 0  # none was given, and all pairs were never written down
    assert within(result.kept, clusters) > 0.99
    assert result.kept.n_edges < 0.05 * n * (n - 1) / 2

    def error(models):
        return np.square([models[i].estimator.coef_ - weights[i] for i in range(n)]).mean()

    assert error(result.local_models) < 0.2 * error(result.alone)
