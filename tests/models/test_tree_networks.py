"""Rounds of networks with trees: the compiled loop changes nothing but the time."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from sklearn.base import is_classifier
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from fedrelax import Distillation, FedRelax, Network, NodeFitError
from fedrelax.models.trees import TreeNode, node
from tests.conftest import random_graph
from tests.models.test_trees import assert_equally_good

pytest.importorskip("numba", reason="the compiled loop needs numba (extra fast)")


def network_of(models: list[Any], classes: bool = False, common: bool = True) -> Network:
    rng = np.random.default_rng(4)
    public = rng.normal(size=(25, 3)) if common else None
    kind = "classification" if classes else "regression"
    network = Network(random_graph(rng, len(models)), public=public, task=kind)
    for place, model in enumerate(models):
        X, V = rng.normal(size=(10, 3)), rng.normal(size=(7, 3))
        y = X[:, 0] + rng.normal(size=10)
        target = np.where(y > 0, "up", "down") if classes else y
        given = np.where(V[:, 0] > 0, "up", "down") if classes else V[:, 0]
        mine = None if common else rng.normal(size=(6, 3))
        network.add(place, X, target, model, validation=(V, given), public=mine)
    return network


TREE, FOREST = DecisionTreeRegressor(max_depth=4), RandomForestRegressor(4)


@pytest.mark.parametrize(
    ("models", "settings"),
    [
        ([TREE] * 6, {"patience": 3}),
        ([FOREST] * 5, {"alpha": 0.3}),
        ([TREE, Ridge(), TREE, FOREST, FOREST, Ridge()], {"damping": 0.2}),
        ([TREE] * 5, {"distillation": Distillation(rows=9), "weighting": "rows"}),
        ([TREE] * 5, {"objective": "gtvmin"}),
        ([TREE] * 4, {"order": "sequential"}),
        ([RandomForestClassifier(3, criterion="entropy")] * 5, {"alpha": 0.0}),
    ],
)
def test_the_loop_gives_what_scikit_learn_gives(
    monkeypatch: pytest.MonkeyPatch, models: list[Any], settings: dict[str, Any]
) -> None:
    classes = is_classifier(models[0])
    network = network_of(models, classes, common=settings.get("objective") != "gtvmin")
    solver = FedRelax(rounds=4, tol=0, random_state=5, **settings)
    at_once = solver.solve(network)
    with monkeypatch.context() as without:
        without.setattr(node, "has_numba", lambda: False)
        one_by_one = solver.solve(network)
    assert at_once.n_rounds == one_by_one.n_rounds
    for name in ("local_loss", "gtv", "validation_loss"):
        np.testing.assert_allclose(
            at_once.history[name], one_by_one.history[name], rtol=1e-9, atol=1e-12
        )
    X = np.random.default_rng(9).normal(size=(40, 3))
    for label, model in at_once.models.items():
        assert type(model) is type(one_by_one.models[label])
        theirs = one_by_one.models[label].predict(X)
        if classes:
            np.testing.assert_array_equal(model.predict(X), theirs)
        else:
            np.testing.assert_allclose(model.predict(X), theirs, rtol=1e-12)


def test_trees_for_soft_labels_are_as_good_as_those_of_scikit_learn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Splits of soft labels may tie, so rounds may part; every single fit is compared."""
    compared, predict_many = [], TreeNode.predict_many

    def compare(models: list[Any], *given: Any) -> Any:
        for model in models:
            terms, seed = model._grown
            ours, theirs = copy.copy(model), TreeNode(model._template, model.task)
            assert_equally_good(ours.estimator, theirs.fit(terms, seed=seed).estimator, terms)
            compared.append(len(terms))
        return predict_many(models, *given)

    monkeypatch.setattr(TreeNode, "predict_many", compare)
    network = network_of([DecisionTreeClassifier(min_samples_leaf=3)] * 5, classes=True)
    FedRelax(alpha=0.5, rounds=4, tol=0, engine="sites").solve(network)
    assert sorted(compared) == [1] * 5 + [2] * 20


def test_all_trees_of_a_round_are_grown_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither scikit-learn's fit nor one of its predictions runs before the end."""

    def refuse(*given: Any, **named: Any) -> None:
        raise AssertionError("fitted one by one")

    monkeypatch.setattr(TreeNode, "fit", refuse)
    monkeypatch.setattr(TreeNode, "predict", refuse)
    FedRelax(rounds=3, tol=0).solve(network_of([TREE, FOREST, TREE, FOREST, Ridge()]))


def test_what_scikit_learn_refuses_is_refused_with_the_node_s_name() -> None:
    network = Network(random_graph(np.random.default_rng(0), 3), public=np.eye(2))
    for place in range(3):
        network.add(place, np.full((4, 2), 1e39 if place == 1 else 1.0), np.arange(4.0), TREE)
    with pytest.raises(NodeFitError, match=r"node 1: fit of DecisionTreeRegressor .*large"):
        FedRelax(rounds=1).solve(network)
