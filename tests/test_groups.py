"""What ``fit`` is told about rows that belong together, and what it gives when refitted."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

from fedrelax import FedRelaxClassifier, FedRelaxError, FedRelaxRegressor, Graph
from fedrelax.selection import fold_rows
from fedrelax.splits import group_rows

N, DAYS = 10, 12
RING = Graph.from_edges([(i, (i + 1) % N) for i in range(N)])


def days(seed=0):
    rng = np.random.default_rng(seed)
    node, day = np.repeat(np.arange(N), DAYS), np.tile(np.arange(DAYS), N)
    X = np.column_stack([rng.normal(size=DAYS)[day], rng.normal(size=N * DAYS)])
    X += 0.05 * rng.normal(size=X.shape)
    shock = 3.0 * rng.normal(size=DAYS)
    return X, X[:, 1] + shock[day] + 0.1 * rng.normal(size=len(day)), node, day


@pytest.mark.parametrize("rule", ["groups", "times"])
def test_folds_never_have_a_value_on_both_sides(rule):
    _, _, node, day = days()
    rows = group_rows(node, len(node))
    parts = fold_rows(rows, 5, np.random.default_rng(0), **{rule: day})
    assert len(parts) == (5 if rule == "groups" else 3)
    for train, held in parts:
        known = {int(d) for index in train.values() for d in day[index]}
        unseen = {int(d) for index in held.values() for d in day[index]}
        assert unseen and not known & unseen
        assert rule == "groups" or max(known) < min(unseen)


def test_a_node_without_a_row_to_train_on_takes_no_part_in_that_fold():
    day = np.array([0, 1, 2, 3, 3])
    rows = group_rows(list("aaaab"), 5)
    parts = fold_rows(rows, 4, np.random.default_rng(0), groups=day)
    for train, held in parts:
        assert set(train) == set(held) and all(len(index) for index in train.values())
        assert ("b" in train) == (3 in day[train["a"]])


@pytest.mark.slow
@pytest.mark.parametrize("graph", [None, RING])
@pytest.mark.parametrize("estimator", ["auto", Ridge()])
def test_rows_left_out_in_whole_days_promise_what_new_days_give(graph, estimator):
    X, y, node, day = days()
    model = FedRelaxRegressor(estimator, graph)
    blind = model.fit(X, y, nodes=node).choice_.losses[:, -1].min()
    honest = model.fit(X, y, nodes=node, groups=day).choice_.losses[:, -1].min()
    new = [days(seed) for seed in range(1, 9)]
    errors = [np.mean((model.predict(T, nodes=at) - t) ** 2) for T, t, at, _ in new]
    assert blind < 0.8 * honest
    assert np.mean(errors) == pytest.approx(honest, rel=0.5)


def test_classes_too():
    X, y, node, day = days()
    labels = np.where(y > np.median(y), "high", "low")
    model = FedRelaxClassifier().fit(X, labels, nodes=node, groups=day)
    blind = FedRelaxClassifier().fit(X, labels, nodes=node)
    assert model.choice_.losses.min() > blind.choice_.losses.min()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"groups": np.zeros(3)}, "groups has shape"),
        ({"times": [None] * (N * DAYS)}, "times has a missing value in row 0"),
        ({"groups": np.zeros(N * DAYS), "times": np.zeros(N * DAYS)}, "both given"),
        ({"times": np.zeros(N * DAYS)}, "times leaves no rows to hold out"),
    ],
)
def test_bad_groups_are_refused(given, words):
    X, y, node, _ = days()
    with pytest.raises(FedRelaxError, match=words):
        FedRelaxRegressor().fit(X, y, nodes=node, **given)


@pytest.mark.parametrize(
    "model",
    [
        FedRelaxRegressor(),
        FedRelaxRegressor(quick=True),
        FedRelaxRegressor(graph=RING),
        FedRelaxRegressor(Ridge(), RING),
        FedRelaxRegressor(Ridge(), alpha=0.3, level=0.1),
        FedRelaxRegressor(DecisionTreeRegressor(max_depth=2, random_state=0), alpha=0.1, rounds=2),
    ],
    ids=["auto", "quick", "ring", "ridge", "given", "tree"],
)
def test_refitting_the_same_rows_gives_the_same_models_and_others_keep_the_settings(model):
    X, y, node, _ = days()
    half = np.arange(len(y)) % DAYS < 6
    model.fit(X[half], y[half], nodes=node[half])
    same = model.refitted(X[half], y[half], nodes=node[half])
    np.testing.assert_allclose(same.predict(X, node), model.predict(X, node), rtol=0, atol=1e-9)
    more = model.refitted(X, y, nodes=node)
    assert (more.alpha_, more.level_) == (model.alpha_, model.level_)
    assert np.abs(more.predict(X, node) - model.predict(X, node)).max() > 1e-3
    now, before = (np.mean((one.predict(X, node) - y) ** 2) for one in (more, model))
    assert now < before


def test_refitted_classes_and_new_nodes():
    X, y, node, _ = days()
    labels = np.where(y > 0, "high", "low")
    few = node < 6
    model = FedRelaxClassifier().fit(X[few], labels[few], nodes=node[few])
    same = model.refitted(X[few], labels[few], nodes=node[few])
    np.testing.assert_allclose(same.predict_proba(X[few], node[few]),
                               model.predict_proba(X[few], node[few]), atol=1e-3)  # fmt: skip
    assert set(model.refitted(X, labels, nodes=node).models_) == set(range(N))


def test_one_node_finds_its_penalty_and_curves():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X[:, 0] ** 2 + 0.1 * rng.normal(size=60)
    model = FedRelaxRegressor().fit(X, y)
    T = rng.normal(size=(200, 3))
    assert np.mean((model.predict(T) - T[:, 0] ** 2) ** 2) < 0.3 * np.var(T[:, 0] ** 2)
    assert model.score(X, y) > 0.9


def test_nodes_of_one_row_each():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    y = X @ [1.0, -2.0] + 0.1 * rng.normal(size=30)
    model = FedRelaxRegressor().fit(X, y, nodes=np.arange(30))
    T = rng.normal(size=(30, 2))
    assert np.mean((model.predict(T, np.arange(30)) - T @ [1.0, -2.0]) ** 2) < 0.3


def test_other_kinds_of_models_are_not_tried_on_rows_of_the_future():
    """They learn from all rows that are not held out, which folds in time do not allow."""
    rng = np.random.default_rng(0)
    node = np.repeat(np.arange(8), 100)
    X = rng.uniform(-2, 2, size=(800, 2))
    y = X[:, 0] + np.where((node == 0) & (X[:, 0] * X[:, 1] > 0), 5.0, 0.0)
    y += 0.1 * rng.normal(size=800)
    boosted = FedRelaxRegressor(minutes=5).fit(X, y, nodes=node)
    assert boosted.default_.boosting is not None
    when = np.tile(np.arange(100), 8)
    later = FedRelaxRegressor(minutes=5).fit(X, y, nodes=node, times=when)
    assert later.default_.boosting is None
