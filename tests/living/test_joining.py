"""Newcomers find their circle, and a ripple ends where a full run would."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

from fedrelax import FedRelax, FedRelaxClassifier, FedRelaxRegressor, Graph
from fedrelax.datasets import clustered
from fedrelax.errors import FedRelaxError
from fedrelax.models import LinearModel, SoftmaxModel

N, M, D = 20, 8, 3


def ring(n: int, reach: int = 2) -> Graph:
    pairs = [(i, (i + step) % n) for i in range(n) for step in range(1, reach + 1)]
    return Graph.from_edges(pairs, labels=range(n))


def rows(n: int = N + 1, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n * M, D))
    w = np.repeat(1 + np.sin(np.arange(n))[:, None] * np.arange(1, D + 1), M, axis=0)
    return X, (X * w).sum(axis=1) + rng.normal(size=n * M), np.repeat(np.arange(n), M)


PUBLIC = np.random.default_rng(9).normal(size=(30, D))


def largest_difference(one: Any, other: Any) -> float:
    assert set(one.models_) == set(other.models_)
    X = np.random.default_rng(5).normal(size=(10, D))
    return max(
        float(np.abs(one.answers(X, [i] * 10) - other.answers(X, [i] * 10)).max())
        for i in one.models_
    )


MODELS = {
    "ridge": Ridge(0.5),
    "linear": LinearModel(),
    "no intercept": LinearModel(fit_intercept=False),
}


@pytest.mark.parametrize("level", [1.0, 0.3, 0.0])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("solver", [FedRelax(tol=1e-12), FedRelax(tol=1e-12, objective="gtvmin")])
def test_a_ripple_ends_where_a_full_run_does(model: str, level: float, solver: FedRelax) -> None:
    X, y, nodes = rows()
    settings = {"alpha": 0.3, "level": level, "public": PUBLIC, "solver": solver, "rounds": 2000}
    old = nodes < N
    est = FedRelaxRegressor(MODELS[model], ring(N), **settings).fit(X[old], y[old], nodes[old])

    change = est.plug_in(N, X[~old], y[~old], neighbours={0: 1.0, 1: 0.5}, tol=1e-10)

    full = FedRelaxRegressor(MODELS[model], est.whole_graph_, **settings).fit(X, y, nodes)
    assert dict(est.graph_.neighbours(N)) == {0: 1.0, 1: 0.5}
    assert set(change.refitted) == set(range(N + 1))
    assert largest_difference(est, full) < 1e-6

    est.update(X[:4], y[:4] + 1, nodes[:4], tol=1e-10)
    more = np.vstack([X, X[:4]]), np.append(y, y[:4] + 1), np.append(nodes, nodes[:4])
    full = FedRelaxRegressor(MODELS[model], est.whole_graph_, **settings).fit(*more)
    assert largest_difference(est, full) < 1e-6

    est.unplug(5, tol=1e-10)
    kept = more[2] != 5
    full = FedRelaxRegressor(MODELS[model], est.whole_graph_, **settings)
    full.fit(*(part[kept] for part in more))
    assert largest_difference(est, full) < 1e-6


@pytest.mark.slow
def test_node_by_node_it_is_the_same() -> None:
    """Robust ways of combining and unlike models have no closed form; neighbours of theirs may."""
    X, y, nodes = rows()
    old = nodes < N
    models = {i: LinearModel("huber", ridge=0.1) if i % 2 else Ridge(0.5) for i in range(N + 1)}
    settings = {"alpha": 0.3, "public": PUBLIC, "rounds": 2000}
    est = FedRelaxRegressor(models, ring(N), solver=FedRelax(tol=1e-9), **settings)
    est.fit(X[old], y[old], nodes[old])
    est.plug_in(N, X[~old], y[~old], neighbours=[0, 3], model=models[N], tol=1e-8)
    full = FedRelaxRegressor(models, est.whole_graph_, solver=FedRelax(tol=1e-9), **settings)
    assert largest_difference(est, full.fit(X, y, nodes)) < 1e-5


def test_classes_go_the_same_way() -> None:
    X, y, nodes = rows()
    kind = np.where(y > 0, "up", "down")
    old, model = nodes < N, SoftmaxModel(ridge=0.1)
    settings = {"alpha": 0.3, "public": PUBLIC, "rounds": 500, "solver": FedRelax(tol=1e-10)}
    est = FedRelaxClassifier(model, ring(N), **settings).fit(X[old], kind[old], nodes[old])
    est.plug_in(N, X[~old], kind[~old], neighbours=[0, 3], tol=1e-8)
    full = FedRelaxClassifier(model, est.whole_graph_, **settings).fit(X, kind, nodes)
    assert largest_difference(est, full) < 1e-4
    with pytest.raises(FedRelaxError, match="class 'sideways', which no node had in training"):
        est.plug_in("new", X[:2], ["up", "sideways"])


def test_models_that_learn_their_difference_follow_too() -> None:
    n = 5
    X, y, nodes = rows(n + 1)
    old, model = nodes < n, Ridge(0.5)
    solver = FedRelax(tol=1e-7, update="difference")
    settings = {"alpha": 0.3, "public": PUBLIC, "rounds": 500, "solver": solver}
    est = FedRelaxRegressor(model, ring(n, 1), **settings).fit(X[old], y[old], nodes[old])
    change = est.plug_in(n, X[~old], y[~old], model=model, neighbours=[0, 1], tol=1e-7)
    full = FedRelaxRegressor(model, est.whole_graph_, **settings).fit(X, y, nodes)
    assert set(change.refitted) == set(range(n + 1))
    assert largest_difference(est, full) < 1e-4
    est.unplug(n, tol=1e-7)
    full = FedRelaxRegressor(model, ring(n, 1), **settings).fit(X[old], y[old], nodes[old])
    assert largest_difference(est, full) < 1e-4


def clusters(m: int = 10, size: int = 8) -> Any:
    return clustered((size,) * 3, m=m, d=12, sigma=0.1, random_state=1)


def wired(data: Any, nodes: list[int], **more: Any) -> FedRelaxRegressor:
    settings = {"alpha": 0.05, "wiring": "rewire", **more}
    est = FedRelaxRegressor(
        LinearModel(fit_intercept=False), data.graph.subgraph(nodes), **settings
    )
    m = data.X.shape[1]
    return est.fit(data.X[nodes].reshape(-1, 12), data.y[nodes].ravel(), np.repeat(nodes, m))


@pytest.mark.parametrize("few", [10, 3, 2])
def test_a_newcomer_finds_its_circle_by_few_rows(few: int) -> None:
    data = clusters()
    last = [7, 15, 23]
    est = wired(data, [i for i in range(24) if i not in last])
    for i in last:
        change = est.plug_in(i, data.X[i][:few], data.y[i][:few])
        assert {int(data.clusters[j]) for j in change.neighbours} == {int(data.clusters[i])}
        apart = np.square(est.models_[i].coef_ - data.true_weights[i]).mean()
        alone = np.square(est.result_.alone[i].estimator.coef_ - data.true_weights[i]).mean()
        assert apart < 0.05
        assert apart < alone / 5
    assert est.result_.kept is not None
    assert set(est.result_.kept.labels) == set(range(24))
    assert [change.what for change in est.story_] == ["join"] * 3


@pytest.mark.parametrize("few", [2, M])
def test_what_was_found_together_takes_newcomers_too(few: int) -> None:
    X, y, nodes = rows()
    old = nodes < N
    est = FedRelaxRegressor(wiring="fixed").fit(X[old], y[old], nodes[old])
    assert est.result_.engine == "pooling"
    before = est.predict(X[old], nodes[old])
    change = est.plug_in(N, X[~old][:few], y[~old][:few])
    assert change.refitted == (N,)
    assert "found for all nodes together" in change.notes[0]
    assert np.array_equal(est.predict(X[old], nodes[old]), before)
    new = rows(seed=1)
    own = new[2] == N
    error = np.square(est.predict(new[0][own], new[2][own]) - new[1][own]).mean()
    alone = np.square(est.result_.alone[N].predict(new[0][own])[:, 0] - new[1][own]).mean()
    assert error < min(np.square(new[1][own]).mean(), 1.2 * alone)
    assert est.update(X[:3], y[:3], nodes[:3]).refitted == (0,)


def test_by_coordinates() -> None:
    X, y, nodes = rows(N)
    graph = Graph.from_coordinates({i: (60.0 + i, 10.0) for i in range(N)}, k=2, metric="haversine")
    est = FedRelaxRegressor(Ridge(), graph, alpha=0.3).fit(X, y, nodes)
    change = est.plug_in("new", X[:6], y[:6], position=(64.4, 10.0))
    assert set(change.neighbours) >= {4, 5}
    assert set(change.neighbours) <= {2, 3, 4, 5, 6}
    assert est.whole_graph_.positions is not None
    assert est.whole_graph_.positions[-1].tolist() == [64.4, 10.0]


def test_a_tree_moves_only_its_neighbourhood() -> None:
    rng = np.random.default_rng(0)
    n, m = 80, 30
    X, nodes = rng.uniform(-1, 1, size=(2 * n * m, 3)), np.repeat(np.arange(n), 2 * m)
    y = np.sign(X[:, 0]) + X[:, 1] * np.sin(2 * np.pi * nodes / n) + 0.3 * rng.normal(size=len(X))
    train, settings = np.tile(np.arange(2 * m) < m, n), {"alpha": 0.1, "rounds": 5}
    model = DecisionTreeRegressor(max_depth=4, min_samples_leaf=5)
    old, own = train & (nodes < n - 1), train & (nodes == n - 1)
    public, graph = rng.uniform(-1, 1, size=(100, 3)), ring(n)
    est = FedRelaxRegressor(model, graph.subgraph(range(n - 1)), public=public, **settings)
    est.fit(X[old], y[old], nodes[old])
    change = est.plug_in(n - 1, X[own], y[own], neighbours=graph.neighbours(n - 1))
    full = FedRelaxRegressor(model, graph, public=public, **settings)
    full.fit(X[train], y[train], nodes[train])
    errors = [
        np.square(fit.predict(X[~train], nodes[~train]) - y[~train]).mean() for fit in (est, full)
    ]
    assert abs(errors[0] / errors[1] - 1) < 0.01
    assert len(change.refitted) < n / 4


def test_a_change_that_fails_leaves_all_as_it_was() -> None:
    X, y, nodes = rows(N)
    est = FedRelaxRegressor(Ridge(), ring(N), alpha=0.3).fit(X, y, nodes)
    before = est.predict(X, nodes)

    class Broken(Ridge):
        def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
            if sample_weight is not None and np.ptp(sample_weight) > 0:
                raise ValueError("no")
            return super().fit(X, y, sample_weight)

    with pytest.raises(FedRelaxError, match="node 'new'"):
        est.plug_in("new", X[:6], y[:6], neighbours=[0, 1], model=Broken())
    assert "new" not in est.whole_graph_
    assert est.story_ == ()
    assert np.array_equal(est.predict(X, nodes), before)


def test_a_pickle_takes_nobodys_rows_along() -> None:
    X, y, nodes = rows(N)
    est = FedRelaxRegressor(Ridge(), ring(N), alpha=0.3).fit(X, y, nodes)
    est.plug_in("new", X[:6], y[:6], neighbours=[0, 1])
    copy = pickle.loads(pickle.dumps(est))
    assert np.array_equal(copy.predict(X, nodes), est.predict(X, nodes))
    assert "new" in copy.models_
    assert X[:M].tobytes() not in pickle.dumps(est)
    with pytest.raises(FedRelaxError, match="cannot change after fit"):
        copy.unplug("new")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"label": 3}, "node 3 is in the network already"),
        ({"neighbours": [99]}, "neighbours of node 'new': 99 has no model"),
        ({"neighbours": {0: -1.0}}, "the weight of 0 is -1.0"),
        ({"position": (1.0, 2.0)}, "the network's graph has none"),
        ({"y": [1.0]}, "X has 6 rows but y has 1"),
        ({"y": [np.nan] * 6}, "node 'new': y has 6 NaN"),
        ({"tol": -1.0, "neighbours": [0]}, "tol=-1.0 must be"),
    ],
)
def test_what_cannot_join(asked: dict[str, Any], words: str) -> None:
    X, y, nodes = rows(N)
    est = FedRelaxRegressor(Ridge(), ring(N), alpha=0.3).fit(X, y, nodes)
    with pytest.raises(FedRelaxError, match=words):
        est.plug_in(**{"label": "new", "X": X[:6], "y": y[:6], **asked})


def test_networks_that_cannot_go_on_say_why() -> None:
    X, y, nodes = rows(5)
    public = {i: PUBLIC for i in range(5)}
    est = FedRelaxRegressor(Ridge(), ring(5), alpha=0.3, public=public).fit(X, y, nodes)
    with pytest.raises(FedRelaxError, match="cannot change after fit"):
        est.plug_in("new", X[:6], y[:6])
