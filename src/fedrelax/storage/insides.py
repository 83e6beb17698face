"""scikit-learn estimators that came from a file: their parts must fit each other.

A type says nothing about its content. Trees, neighbours, support vectors and cluster centres end up in
native code that trusts its arrays: a tree predicts by walking from index to index, and with a child that is
out of range, a cycle or a feature that a row does not have, it would read foreign memory or never end. Here
all this is checked before the first prediction: each check yields what must hold and what is wrong if not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError, in_one_line
from fedrelax.typing import AnyArray

KERNELS = ("linear", "poly", "rbf", "sigmoid")
LEAF = -1
MOST = 2**31
Conditions = Iterator[tuple[bool | np.bool_, str]]


def check_insides(model: Any) -> None:
    """Check all estimators inside a model; an error says what is damaged."""
    for part in _parts(model):
        for kind in type(part).__mro__:
            if check := _CHECKS.get(f"{kind.__module__}.{kind.__qualname__}"):
                what, conditions = check
                _hold(what, conditions(part))


def check_tree(arguments: Any, state: Any) -> None:
    """Check what a ``sklearn.tree._tree.Tree`` is made of, before it is made."""
    _hold("tree is", _tree(arguments, state))


def _hold(what: str, conditions: Conditions) -> None:
    try:
        wrong = next((otherwise for fits, otherwise in conditions if not fits), "")
    except Exception as error:  # an attribute is missing or of the wrong kind
        wrong = in_one_line(error)
    if wrong:
        raise FedRelaxError(f"its {what} damaged: {wrong}; run the fit again")


def _parts(model: Any) -> Iterator[Any]:
    """Yield every object inside a model, each once."""
    seen: set[int] = set()
    waiting = [model]
    while waiting:
        part = waiting.pop()
        if id(part) in seen or isinstance(part, str | bytes | int | float | type(None)):
            continue
        seen.add(id(part))
        if isinstance(part, dict):
            waiting += part.values()
        elif isinstance(part, list | tuple | set):
            waiting += part
        elif isinstance(part, np.ndarray):
            waiting += part.ravel().tolist() if part.dtype == object else []
        else:
            yield part
            waiting += getattr(part, "__dict__", {}).values()


# Trees


def _tree(arguments: Any, state: Any) -> Conditions:
    from sklearn.tree._tree import NODE_DTYPE

    yield len(arguments) == 3 and isinstance(state, dict), "it is not made of 3 values"
    features, classes, outputs = arguments
    counts = _is_count(features, 1) and _is_count(outputs, 1)
    yield counts, f"it has {features!r} features and {outputs!r} outputs"
    classes = np.asarray(classes)
    fits = classes.dtype.kind in "iu" and classes.shape == (outputs,) and classes.min() >= 1
    yield fits, "its numbers of classes do not fit its outputs"
    nodes, values, claimed = state["nodes"], state["values"], state["node_count"]
    yield from _nodes(nodes, NODE_DTYPE)
    counts = claimed == len(nodes) and _is_count(state["max_depth"], 0)
    yield counts, f"it has {len(nodes)} nodes but claims {claimed!r}"
    shape = (len(nodes), outputs, int(classes.max()))
    fits = values.shape == shape and values.dtype == np.float64 and np.isfinite(values).all()
    yield fits, f"its values are not {shape} finite numbers"
    inner = nodes["left_child"] != LEAF
    yield from _walk(nodes, inner, ("left_child", "right_child"), "feature", features)


def _nodes(nodes: Any, dtype: np.dtype[Any]) -> Conditions:
    """Nodes are an array of these records, which hold no objects."""
    there = isinstance(nodes, np.ndarray) and nodes.ndim == 1 and len(nodes) > 0
    yield there, "its nodes are missing"
    same = nodes.dtype == dtype and not nodes.dtype.hasobject
    yield same, "its nodes are not those of this version of scikit-learn"


def _walk(
    nodes: AnyArray, inner: AnyArray, sides: tuple[str, str], feature: str, features: int
) -> Conditions:
    """Children come after their parents, so that no walk can go round in a cycle."""
    for side in sides:
        child = nodes[side][inner].astype(np.int64)
        yield ((child >= 0) & (child < len(nodes))).all(), "a child is out of range"
        yield (child > np.flatnonzero(inner)).all(), "its nodes form a cycle"
    asked = nodes[feature][inner]
    known = ((asked >= 0) & (asked < features)).all()
    yield known, f"it asks for a feature that is not one of its {features}"


def _is_count(value: Any, least: int) -> bool:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return whole and bool(least <= value < MOST)


def _one_tree(model: Any) -> Conditions:
    """A tree takes as many features as its model lets through."""
    from sklearn.tree._tree import Tree

    if hasattr(model, "tree_"):
        features = model.n_features_in_
        fits = type(model.tree_) is Tree and model.tree_.n_features == features
        yield fits, f"it does not take the {features} features of its model"


def _forest(model: Any) -> Conditions:
    """The trees of a forest are asked without checking the rows again."""
    from sklearn.tree._classes import BaseDecisionTree

    for member in np.asarray(getattr(model, "estimators_", []), dtype=object).ravel():
        is_tree = isinstance(member, BaseDecisionTree)
        yield is_tree, f"a member of its forest is a {type(member).__name__}"
        yield from _one_tree(member)
        features = model.n_features_in_
        fits = member.n_features_in_ == features
        yield fits, f"it does not take the {features} features of its forest"


def _boosting(model: Any) -> Conditions:
    """Every stage has one tree for each column of scores that it is added to."""
    if not hasattr(model, "estimators_"):
        return
    stages = model.estimators_
    is_table = isinstance(stages, np.ndarray) and stages.ndim == 2 and stages.dtype == object
    yield is_table, "its stages are not a table of trees"
    classes = getattr(model, "n_classes_", 1)
    columns = classes if classes > 2 else 1
    trees = {stages.shape[1], getattr(model, "n_trees_per_iteration_", columns)}
    yield trees == {columns}, f"a stage does not have the {columns} trees that are needed"
    yield from _forest(model)


def _histogram_boosting(model: Any) -> Conditions:
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

    if not hasattr(model, "_predictors"):
        return
    features = int(model.n_features_in_)
    categorical = np.asarray(model._bin_mapper.is_categorical_)
    fits = categorical.shape == (features,) and not getattr(model, "_in_fit", False)
    yield fits, f"its bins do not fit {features} features"
    for tree in (tree for stage in model._predictors for tree in stage):
        yield type(tree) is TreePredictor, f"one of its trees is a {type(tree).__name__}"
        yield from _predictor(tree, features, categorical.astype(bool))


def _boosted_trees(model: Any) -> Conditions:
    """Boosting whose trees are in one array."""
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE

    if not hasattr(model, "nodes_"):
        return
    features, ends = int(model.n_features_in_), np.asarray(model.ends_)
    yield from _nodes(model.nodes_, PREDICTOR_RECORD_DTYPE)
    whole = ends.ndim == 1 and ends.dtype.kind == "i" and len(ends) > 0
    fits = whole and (np.diff(ends, prepend=0) > 0).all() and ends[-1] == len(model.nodes_)
    yield fits, "its trees do not end where its nodes do"
    yield np.isfinite(float(model.level_)), "its level is not finite"
    for tree in model.trees():
        yield from _predictor(tree, features, np.zeros(features, dtype=bool))


def _predictor(predictor: Any, features: int, categorical: AnyArray) -> Conditions:
    """A tree of ``HistGradientBoosting``."""
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE

    nodes, sets = predictor.nodes, predictor.raw_left_cat_bitsets
    yield from _nodes(nodes, PREDICTOR_RECORD_DTYPE)
    yield np.isfinite(nodes["value"]).all(), "a value is not finite"
    inner = nodes["is_leaf"] == 0
    yield from _walk(nodes, inner, ("left", "right"), "feature_idx", features)
    sorts = nodes[inner & (nodes["is_categorical"] != 0)]
    if len(sorts):
        there = isinstance(sets, np.ndarray) and sets.dtype == np.uint32 and sets.shape[1:] == (8,)
        known = there and (sorts["bitset_idx"] < len(sets)).all()
        yield known, "its sets of categories are missing or out of range"
        have = categorical[sorts["feature_idx"]].all()
        yield have, "it splits a feature by categories that has none"


# Neighbours, support vectors and centres


def _search_tree(tree: Any) -> Conditions:
    """A ``KDTree`` or ``BallTree``."""
    data, order, nodes, bounds = (np.asarray(part) for part in tree.get_arrays())
    finite = data.ndim == 2 and np.isfinite(data).all()
    yield finite, "its rows are not a table of finite numbers"
    permutation = np.array_equal(np.sort(order), np.arange(len(data)))
    yield permutation, "its order is not a permutation of its rows"
    sides = 2 if type(tree).__name__.startswith("KD") else 1
    claimed, shape = tree.__getstate__()[6], (sides, len(nodes), data.shape[1])
    fits = claimed == len(nodes) > 0 and bounds.shape == shape
    yield fits, f"it has {len(nodes)} nodes but claims {claimed}"
    start, end = nodes["idx_start"], nodes["idx_end"]
    yield ((start >= 0) & (end >= start) & (end <= len(data))).all(), "a node is out of range"
    inner = np.flatnonzero(nodes["is_leaf"] == 0)
    yield (2 * inner + 2 < len(nodes)).all(), "a child is out of range"


def _neighbours(model: Any) -> Conditions:
    """There is one answer for each row among which neighbours are looked up."""
    if not hasattr(model, "_fit_X"):
        return
    rows, features, tree = np.asarray(model._fit_X), model.n_features_in_, model._tree
    fits = rows.ndim == 2 and rows.shape[1] == features and rows.dtype.kind == "f"
    yield fits, f"its rows do not have {features} features"
    fits = tree is None or np.asarray(tree.get_arrays()[0]).shape == rows.shape
    yield fits, "its search tree does not fit its rows"
    yield not callable(model.effective_metric_), "its distance is a custom function"
    if not hasattr(model, "_y"):
        return
    answers = np.asarray(model._y)
    yield len(answers) == len(rows), f"it has {len(rows)} rows but {len(answers)} answers"
    if hasattr(model, "classes_"):
        several = isinstance(model.classes_, list)
        sizes = [len(c) for c in (model.classes_ if several else [model.classes_])]
        codes = answers.reshape(len(rows), -1)
        yield codes.dtype.kind in "iu", "its answers are not class indices"
        known = codes.shape[1] == len(sizes) and ((codes >= 0) & (codes < np.array(sizes))).all()
        yield known, "an answer is not one of its classes"


def _support_vectors(model: Any) -> Conditions:
    if not hasattr(model, "support_vectors_"):
        return
    usual = not model._sparse and model.kernel in KERNELS and "_impl" not in vars(model)
    yield usual, f"its kernel {model.kernel!r} is not one of {', '.join(KERNELS)}"
    classes = len(model.classes_) if hasattr(model, "classes_") else 2
    number, pairs = len(model.support_), classes * (classes - 1) // 2
    each = np.asarray(model._n_support)
    sizes = {
        "classes": classes >= 2,
        "vectors": model.support_vectors_.shape == (number, model.n_features_in_),
        "coefficients": model._dual_coef_.shape == (classes - 1, number),
        "constants": model._intercept_.shape == (pairs,),
        "counts": each.shape == (classes,) and (each >= 0).all(),
        "sums": (each.sum() if hasattr(model, "classes_") else each[0]) == number,
        "probabilities": {model._probA.shape, model._probB.shape} <= {(0,), (pairs,), (1,)},
    }
    for name, fits in sizes.items():
        yield fits, f"their {name} do not fit"


def _centres(model: Any) -> Conditions:
    if hasattr(model, "cluster_centers_"):
        centres, features = np.asarray(model.cluster_centers_), model.n_features_in_
        fits = centres.ndim == 2 and centres.shape[1] == features
        yield fits, f"they do not have {features} features"


_CHECKS: dict[str, tuple[str, Callable[[Any], Conditions]]] = {
    "sklearn.tree._classes.BaseDecisionTree": ("tree is", _one_tree),
    "sklearn.ensemble._forest.BaseForest": ("tree is", _forest),
    "sklearn.ensemble._gb.BaseGradientBoosting": ("tree is", _boosting),
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting.BaseHistGradientBoosting": (
        "tree is",
        _histogram_boosting,
    ),
    "fedrelax.models.additive.BoostedTrees": ("tree is", _boosted_trees),
    "sklearn.neighbors._base.NeighborsBase": ("neighbours are", _neighbours),
    "sklearn.neighbors._kd_tree.KDTree": ("tree is", _search_tree),
    "sklearn.neighbors._ball_tree.BallTree": ("tree is", _search_tree),
    "sklearn.svm._base.BaseLibSVM": ("support vectors are", _support_vectors),
    "sklearn.cluster._kmeans._BaseKMeans": ("centres are", _centres),
}
"""What to call a part in a message, and its check, by the class that it is of."""
