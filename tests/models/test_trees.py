"""Trees grown at once are those that scikit-learn grows one by one; forests have its distribution."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.ensemble import (
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    plot_tree,
)

from fedrelax.losses import get_loss
from fedrelax.models import Rows, Task
from fedrelax.models.trees import TreeNode, unsupported_reason

pytest.importorskip("numba", reason="the compiled loop needs numba (extra fast)")

REGRESSORS = [DecisionTreeRegressor, RandomForestRegressor]
CLASSIFIERS = [DecisionTreeClassifier, RandomForestClassifier]
LABELS = np.array(["a", "b", "c"])


def limits(draw: Any) -> dict[str, Any]:
    """Draw some of the settings that trees and forests share."""
    choices: dict[str, st.SearchStrategy[Any]] = {
        "max_depth": st.integers(1, 8),
        "min_samples_split": st.integers(2, 12),
        "min_samples_leaf": st.integers(1, 6),
        "max_features": st.integers(1, 5) | st.floats(0.1, 1.0) | st.sampled_from(["sqrt", "log2"]),
    }
    names = draw(st.sets(st.sampled_from(sorted(choices)), max_size=4))
    return {name: draw(choices[name]) for name in sorted(names)}


@st.composite
def estimators(draw: Any, classes: bool) -> Any:
    """Draw an estimator that the loop grows."""
    kind = draw(st.sampled_from(CLASSIFIERS if classes else REGRESSORS))
    given: dict[str, Any] = limits(draw)
    if classes:
        given["criterion"] = draw(st.sampled_from(["gini", "entropy", "log_loss"]))
    if kind.__module__.startswith("sklearn.ensemble"):
        given["n_estimators"] = draw(st.integers(1, 4))
        given["bootstrap"] = draw(st.booleans())
        if given["bootstrap"]:
            given["max_samples"] = draw(
                st.none() | st.integers(10, 40) | st.floats(0.5, 1.0, exclude_max=True)
            )
    return kind(**given, random_state=draw(st.integers(0, 2**32 - 1)))


def terms_of(
    rng: np.random.Generator, task: Task, grid: int | None = None, soft: bool = False
) -> list[Rows]:
    """Return own and public rows, no value twice, or on a grid; public labels may be soft."""
    loss = get_loss(None, task.kind)
    terms = []
    for size, weight in ((rng.integers(3, 25), 1.0), (rng.integers(1, 40), rng.uniform(0.05, 2))):
        X = rng.normal(size=(size, 4))
        if grid is not None:
            X = rng.integers(0, grid, size=(size, 4)).astype(float)
        if task.classes is None:
            target = X[:, :1] + rng.normal(size=(size, task.n_outputs))
        elif terms and soft:
            target = rng.dirichlet(np.ones(len(task.classes)), size=size)
        else:
            target = np.eye(len(task.classes))[np.arange(size) % len(task.classes)]
        weights = np.full(size, weight)
        weights[rng.random(size) < 0.1 * len(terms)] = 0.0
        terms.append(Rows(X, target, weights, loss))
    return terms


def grown(estimator: Any, task: Task, terms: list[Rows]) -> TreeNode:
    """Return what a batch makes of one problem; the same problem twice, so that it is a batch."""
    node = TreeNode(estimator, task)
    assert node.batch_key(terms) is not None
    models = TreeNode.fit_many(
        [node, node], [terms, terms], seeds=[7, 7], continued=False, memory={}
    )
    return models[1]


def trees_of(fitted: Any) -> list[Any]:
    """Return the arrays of all trees of an estimator."""
    members = getattr(fitted, "estimators_", [fitted])
    return [member.tree_ for member in members]


def assert_same_tree(ours: Any, theirs: Any) -> None:
    """Compare node by node."""
    one, two = ours.__getstate__(), theirs.__getstate__()
    assert one["node_count"] == two["node_count"]
    assert one["max_depth"] == two["max_depth"]
    for name in ("left_child", "right_child", "feature", "n_node_samples"):
        np.testing.assert_array_equal(one["nodes"][name], two["nodes"][name])
    for name in ("threshold", "impurity", "weighted_n_node_samples"):
        np.testing.assert_allclose(
            one["nodes"][name], two["nodes"][name], rtol=1e-10, atol=1e-10, err_msg=name
        )
    np.testing.assert_allclose(one["values"], two["values"], rtol=1e-10, atol=1e-10)


@settings(max_examples=80, deadline=None)
@given(estimators(classes=False), st.integers(0, 2**32 - 1), st.sampled_from([1, 1, 3]))
def test_regression_grows_the_same_trees_as_scikit_learn(
    estimator: Any, seed: int, outputs: int
) -> None:
    task = Task("regression", outputs)
    terms = terms_of(np.random.default_rng(seed), task)
    ours = grown(estimator, task, terms).estimator
    theirs = TreeNode(estimator, task).fit(terms, seed=7).estimator
    for one, two in zip(trees_of(ours), trees_of(theirs), strict=True):
        assert_same_tree(one, two)


@settings(max_examples=80, deadline=None)
@given(estimators(classes=True), st.integers(0, 2**32 - 1))
def test_classification_grows_the_same_trees_as_scikit_learn(estimator: Any, seed: int) -> None:
    task = Task("classification", 3, LABELS)
    terms = terms_of(np.random.default_rng(seed), task)
    ours = grown(estimator, task, terms).estimator
    theirs = TreeNode(estimator, task).fit(terms, seed=7).estimator
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)
    for one, two in zip(trees_of(ours), trees_of(theirs), strict=True):
        assert_same_tree(one, two)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["regression", "classification"]), st.integers(0, 2**32 - 1))
def test_tied_splits_are_as_good_as_those_of_scikit_learn(kind: str, seed: int) -> None:
    if kind == "regression":
        task, estimator = Task(kind, 1), DecisionTreeRegressor()
    else:
        task, estimator = Task(kind, 3, LABELS), DecisionTreeClassifier()
    terms = terms_of(np.random.default_rng(seed), task, grid=3)
    ours = grown(estimator, task, terms).estimator
    theirs = TreeNode(estimator, task).fit(terms, seed=7).estimator
    assert_equally_good(ours, theirs, terms)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["gini", "entropy"]),
    st.integers(1, 6),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_soft_labels_weigh_as_copies_do(criterion: str, leaf: int, forest: bool, seed: int) -> None:
    """scikit-learn gets a row once for each class, which adds up in another order: splits may tie."""
    estimator = DecisionTreeClassifier(criterion=criterion, min_samples_leaf=leaf)
    if forest:
        estimator = RandomForestClassifier(
            3, criterion=criterion, min_samples_leaf=leaf, max_features=None
        )
    task = Task("classification", 3, LABELS)
    terms = terms_of(np.random.default_rng(seed), task, soft=True)
    ours = grown(estimator, task, terms).estimator
    theirs = TreeNode(estimator, task).fit(terms, seed=7).estimator
    assert_equally_good(ours, theirs, terms)


def assert_equally_good(ours: Any, theirs: Any, terms: list[Rows]) -> None:
    """Compare the nodes to which the same rows come: what they are, and what their splits leave."""
    X = np.concatenate([term.X[term.weight > 0] for term in terms]).astype(np.float32)
    for one, two in zip(trees_of(ours), trees_of(theirs), strict=True):
        others = rows_by_node(two, X)
        for rows, node in rows_by_node(one, X).items():
            other = others.get(rows)
            assert other is not None or node > 0
            if other is None:
                continue
            assert one.n_node_samples[node] == two.n_node_samples[other]
            for name in ("impurity", "weighted_n_node_samples", "value"):
                np.testing.assert_allclose(
                    getattr(one, name)[node], getattr(two, name)[other], rtol=1e-10, atol=1e-10
                )
            assert left_impurity(one, node) == pytest.approx(
                left_impurity(two, other), rel=1e-9, abs=1e-9
            )


def rows_by_node(tree: Any, X: Any) -> dict[frozenset[int], int]:
    """Return every node by the rows that come to it."""
    path = tree.decision_path(X).toarray()
    return {frozenset(np.flatnonzero(path[:, node])): node for node in range(tree.node_count)}


def left_impurity(tree: Any, node: int) -> float:
    """Return the weighted impurity that a node leaves after its split, if it has one."""
    below = [tree.children_left[node], tree.children_right[node]]
    parts = [node] if min(below) < 0 else below
    return float(sum(tree.weighted_n_node_samples[k] * tree.impurity[k] for k in parts))


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestRegressor(8),
        RandomForestRegressor(8, max_features=0.5, max_samples=0.4, min_samples_leaf=2),
        RandomForestClassifier(8, max_depth=4),
    ],
)
def test_forests_have_the_distribution_of_scikit_learn_s(estimator: Any) -> None:
    """Over seeds, errors on new rows have the same mean and spread, with weights of very unlike size."""
    rng = np.random.default_rng(11)
    X, new = rng.normal(size=(60, 4)), rng.normal(size=(300, 4))
    y, truth = (rows[:, 0] * rows[:, 1] + rows[:, 2] for rows in (X, new))
    y = y + rng.normal(size=60)
    weight = rng.choice([0.2, 1.0, 3.0], size=60)
    task, target = Task("regression", 1), y[:, None]
    if hasattr(estimator, "predict_proba"):
        y, truth = (y > 0).astype(int), (truth > 0).astype(int)
        task, target = Task("classification", 2, np.array([0, 1])), np.eye(2)[y]
    node, terms = TreeNode(estimator, task), [Rows(X, target, weight, get_loss(None, task.kind))]

    def error(fitted: Any) -> float:
        if hasattr(fitted, "predict_proba"):
            return float(np.mean((fitted.predict_proba(new)[:, 1] - truth) ** 2))
        return float(np.mean((fitted.predict(new) - truth) ** 2))

    ours, theirs = np.empty(80), np.empty(80)
    for seed in range(80):
        ours[seed] = error(node.fit(terms, seed=seed).estimator)
        forest = clone(estimator).set_params(random_state=1000 + seed)
        theirs[seed] = error(forest.fit(X, y, sample_weight=weight))
    spread = np.hypot(ours.std(), theirs.std())
    assert abs(ours.mean() - theirs.mean()) < 4 * spread / np.sqrt(80)
    assert 0.7 < ours.std() / theirs.std() < 1.4


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize("forest", [False, True])
def test_the_user_gets_a_plain_fitted_estimator(classes: bool, forest: bool) -> None:
    kinds = CLASSIFIERS if classes else REGRESSORS
    estimator = kinds[1](n_estimators=5) if forest else kinds[0](max_depth=3)
    task = Task("classification", 3, LABELS) if classes else Task("regression", 1)
    terms = terms_of(np.random.default_rng(3), task)
    node = grown(estimator, task, terms)
    theirs = TreeNode(estimator, task).fit(terms, seed=7).estimator
    ours = node.estimator
    assert type(ours) is type(estimator)
    assert vars(ours).keys() == vars(theirs).keys()
    assert ours.get_params() == theirs.get_params()
    X = np.random.default_rng(0).normal(size=(50, 4))
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    again = pickle.loads(pickle.dumps(ours))
    np.testing.assert_array_equal(again.predict(X), ours.predict(X))
    np.testing.assert_allclose(ours.feature_importances_, theirs.feature_importances_)
    clone(ours)
    pickled = pickle.loads(pickle.dumps(grown(estimator, task, terms)))
    np.testing.assert_array_equal(pickled.predict(X), node.predict(X))
    if not forest:
        pytest.importorskip("matplotlib").use("Agg")
        assert plot_tree(ours)


@pytest.mark.parametrize("kind", [DecisionTreeRegressor, RandomForestRegressor])
def test_a_batch_answers_for_any_rows_on_any_number_of_threads(kind: Any) -> None:
    from fedrelax.models.trees.growing import answers

    rng, task = np.random.default_rng(5), Task("regression", 1)
    public = rng.normal(size=(30, 4))
    estimator = kind(**({"n_estimators": 3} if kind is RandomForestRegressor else {}))
    problems, expected = [], []
    for seed in range(9):
        own, other = rng.normal(size=(8, 4)), rng.normal(size=(6, 4))
        weight = np.full(30, 0.5)
        weight[::7] = 0.0
        target = [rng.normal(size=(8, 1)), rng.normal(size=(30, 1))]
        asked = [own, other, public]
        loss = get_loss(None, "regression")
        terms = [
            Rows(own, target[0], np.ones(8), loss),
            Rows(public, target[1], weight, loss),
        ]
        problems.append(TreeNode(estimator, task).packed(terms, seed, asked))
        fitted = TreeNode(estimator, task).fit(terms, seed=seed)
        expected.append([fitted.predict(X) for X in asked])
    for threads in (1, 2, 5, None):
        found = answers(problems, threads)
        for problem, one, two in zip(problems, found, expected, strict=True):
            for rows, b in zip(problem.asked, two, strict=True):
                np.testing.assert_array_equal(one[rows], b)


def test_a_node_that_has_seen_one_class_always_says_so() -> None:
    task = Task("classification", 3, LABELS)
    rows = Rows(np.arange(6.0)[:, None], np.eye(3)[[1] * 6], np.ones(6), get_loss(None, task.kind))
    node = TreeNode(DecisionTreeClassifier(), task)
    models = TreeNode.fit_many(
        [node, node], [[rows], [rows]], seeds=[0, 1], continued=False, memory={}
    )
    found = TreeNode.predict_many(models, [[rows.X], [rows.X]], {})
    np.testing.assert_array_equal(found[0][0], np.eye(3)[[1] * 6])
    np.testing.assert_array_equal(models[0].predict(rows.X), found[0][0])


@pytest.mark.parametrize(
    "estimator",
    [
        DecisionTreeRegressor(criterion="absolute_error"),
        DecisionTreeRegressor(ccp_alpha=0.1),
        DecisionTreeRegressor(max_leaf_nodes=4),
        DecisionTreeRegressor(splitter="random"),
        DecisionTreeRegressor(min_samples_leaf=0.1),
        DecisionTreeRegressor(min_impurity_decrease=0.1),
        ExtraTreesRegressor(),
        DecisionTreeRegressor(max_depth=0),
        DecisionTreeRegressor(monotonic_cst=[1, 0, 0, 0]),
        DecisionTreeRegressor(random_state=np.random.RandomState(0)),
        DecisionTreeClassifier(class_weight="balanced"),
        RandomForestRegressor(oob_score=True),
        RandomForestRegressor(warm_start=True),
        RandomForestRegressor(bootstrap=False, max_samples=0.5),
    ],
)
def test_what_the_loop_does_not_know_is_left_to_scikit_learn(estimator: Any) -> None:
    assert unsupported_reason(estimator)
    task = Task("regression", 1)
    assert TreeNode(estimator, task).batch_key(terms_of(np.random.default_rng(0), task)) is None
