"""Trees of all nodes at once: in every record what the sites give, one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from fedrelax import FedRelax, FedRelaxRegressor, Graph, Network
from fedrelax.engines import UnsupportedNetworkError
from fedrelax.wiring import Discover, Rewire
from tests.conftest import random_graph

pytest.importorskip("numba", reason="the compiled loop needs numba (extra fast)")

MEASURES = ("local_loss", "gtv", "validation_loss", "objective", "change")
TREE, DEEP = DecisionTreeRegressor(max_depth=3), DecisionTreeRegressor(min_samples_leaf=2)
FOREST, CLASSES = RandomForestRegressor(3), DecisionTreeClassifier(max_depth=3)


def network_of(models: list[Any], classes: int = 0, outputs: int = 1, seed: int = 0) -> Network:
    """Return nodes of unlike sizes; the first has no validation rows, the last no neighbours."""
    rng = np.random.default_rng(seed)
    n = len(models)
    edges = [edge for edge in random_graph(rng, n).edges() if n - 1 not in edge[:2]]
    graph = Graph.from_edges(edges, labels=list(range(n)))
    network = Network(
        graph, "classification" if classes else "regression", public=rng.normal(size=(30, 3))
    )
    slope = rng.normal(size=(3, outputs))

    def rows(count: int) -> tuple[Any, Any]:
        X = rng.normal(size=(count, 3))
        y = X @ slope + rng.normal(size=(count, outputs))
        if classes:
            return X, np.digitize(y[:, 0], np.linspace(-1, 1, classes - 1))
        return X, y if outputs > 1 else y[:, 0]

    for i, model in enumerate(models):
        held = None if i == 0 else rows(4 + i)
        network.add(i, *rows(8 + 2 * i), model, validation=held)
    return network


@pytest.mark.parametrize(
    ("models", "shape", "settings"),
    [
        ([TREE] * 6, {}, {"alpha": 0.3}),
        ([TREE, DEEP, TREE, FOREST, FOREST, DEEP], {}, {"alpha": 1.0}),
        ([TREE] * 5, {"outputs": 2}, {"alpha": 0.5, "damping": 0.3}),
        ([TREE] * 5, {}, {"alpha": 0.5, "level": 0.1}),
        ([TREE] * 5, {}, {"alpha": 0.2, "weighting": "rows"}),
        ([TREE] * 5, {}, {"alpha": 0.2, "objective": "gtvmin"}),
        ([TREE] * 5, {}, {"alpha": 0.4, "first_exchange": "zeros"}),
        ([TREE] * 5, {}, {"alpha": 0.0}),
        ([FOREST] * 5, {}, {"alpha": 0.4, "patience": 2}),
        ([TREE] * 9, {}, {"alpha": 0.4, "wiring": Rewire(), "rounds": 12}),
        ([TREE] * 9, {}, {"alpha": 0.4, "wiring": Discover(candidates=4), "rounds": 12}),
        ([CLASSES] * 5, {"classes": 3}, {"alpha": 0.0}),
        ([RandomForestClassifier(3)] * 5, {"classes": 2}, {"alpha": 0.0, "level": 0.5}),
    ],
)
def test_all_at_once_is_what_the_sites_give(
    models: list[Any], shape: dict[str, int], settings: dict[str, Any]
) -> None:
    network = network_of(models, **shape)
    common = {"rounds": 6, "tol": 0.0, "random_state": 3, **settings}
    at_once, sites = (
        FedRelax(engine=engine, **common).solve(network) for engine in ("trees", "sites")
    )
    assert (at_once.engine, at_once.n_rounds, at_once.reason) == (
        "trees",
        sites.n_rounds,
        sites.reason,
    )
    for measure in MEASURES:
        np.testing.assert_allclose(
            at_once.history[measure], sites.history[measure], rtol=1e-9, atol=1e-12
        )
    np.testing.assert_allclose(
        list(at_once.discrepancies.values()),
        list(sites.discrepancies.values()),
        rtol=1e-9,
        atol=1e-12,
    )
    X = np.random.default_rng(9).normal(size=(50, 3))
    for which in ("local_models", "alone"):
        for label, model in getattr(at_once, which).items():
            theirs = getattr(sites, which)[label]
            assert type(model.estimator) is type(theirs.estimator)
            np.testing.assert_allclose(model.predict(X), theirs.predict(X), rtol=1e-12, atol=1e-12)


def test_soft_labels_give_answers_that_are_as_good() -> None:
    """Splits of soft labels may tie, so single trees may differ; the losses stay close."""
    network = network_of([CLASSES] * 6, classes=3)
    found = [
        FedRelax(alpha=0.5, rounds=3, tol=0.0, engine=engine).solve(network)
        for engine in ("trees", "sites")
    ]
    one, other = (result.history["local_loss"] for result in found)
    np.testing.assert_allclose(one[:2], other[:2], rtol=1e-9)
    for result in found:
        answers = result.local_models[2].predict(np.zeros((1, 3)))
        np.testing.assert_allclose(answers.sum(), 1.0)


@pytest.mark.parametrize(
    ("models", "settings", "reason"),
    [
        ([TREE, Ridge(), TREE], {}, "node 1: Ridge is not a tree or forest of scikit-learn"),
        ([DecisionTreeRegressor(ccp_alpha=0.1)] * 3, {}, "node 0: ccp_alpha=0.1"),
        ([TREE] * 3, {"order": "sequential"}, "order='simultaneous'"),
        ([TREE] * 3, {"collapse": False}, "collapse"),
    ],
)
def test_what_it_does_not_serve_is_said_and_left_to_the_sites(
    models: list[Any], settings: dict[str, Any], reason: str
) -> None:
    network = network_of(models)
    with pytest.raises(UnsupportedNetworkError, match=reason):
        FedRelax(engine="trees", rounds=1, **settings).solve(network)
    assert FedRelax(rounds=1, **settings).solve(network).engine == "sites"


def test_a_table_of_trees_takes_the_engine_and_gives_plain_estimators() -> None:
    rng = np.random.default_rng(1)
    X, nodes = rng.normal(size=(60, 2)), np.repeat(["a", "b", "c"], 20)
    fitted = FedRelaxRegressor(TREE, alpha=0.1, rounds=3).fit(X, X[:, 0], nodes)
    assert fitted.result_.engine == "trees"
    tree = fitted.models_["b"]
    assert type(tree) is DecisionTreeRegressor
    assert tree.get_depth() <= 3
    np.testing.assert_array_equal(fitted.predict(X[20:40], nodes[20:40]), tree.predict(X[20:40]))
