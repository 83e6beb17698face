"""scikit-learn estimators that came from a file: their parts must fit each other.

A type says nothing about its content. Trees, neighbours, support vectors and cluster centres end up in
native code that trusts its arrays: a tree predicts by walking from index to index, and with a child that is
out of range, a cycle or a feature that a row does not have, it would read foreign memory or never end. Here
all this is checked before the first prediction: each check yields what must hold, one thing after another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.typing import AnyArray

KERNELS = ("linear", "poly", "rbf", "sigmoid")
LEAF = -1
MOST = 2**31
Conditions = Iterator[bool | np.bool_]


def check_insides(model: Any) -> None:
    """Check all estimators inside a model; an error says which of them is damaged."""
    for part in _parts(model):
        for kind in type(part).__mro__:
            known = _CHECKS.get(f"{kind.__module__}.{kind.__qualname__}")
            if known is not None and hasattr(part, known[0]):
                _hold(type(part).__name__, known[1](part))


def check_tree(arguments: Any, state: Any) -> None:
    """Check what a ``sklearn.tree._tree.Tree`` is made of, before it is made."""
    _hold("tree", _tree(arguments, state))


def _hold(what: str, conditions: Conditions) -> None:
    try:
        fits = all(conditions)
    except Exception:  # an attribute is missing or of the wrong kind
        fits = False
    if not fits:
        raise FedRelaxError(
            f"its {what} is damaged: its parts do not fit each other; run the fit again"
        )


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

    features, classes, outputs = arguments
    yield _is_count(features, 1) and _is_count(outputs, 1)
    classes = np.asarray(classes)
    yield classes.dtype.kind in "iu" and classes.shape == (outputs,) and classes.min() >= 1
    nodes, values = state["nodes"], state["values"]
    yield _are_nodes(nodes, NODE_DTYPE)
    yield state["node_count"] == len(nodes) and _is_count(state["max_depth"], 0)
    yield values.shape == (len(nodes), outputs, int(classes.max()))
    yield values.dtype == np.float64 and np.isfinite(values).all()
    inner = nodes["left_child"] != LEAF
    yield from _walk(nodes, inner, ("left_child", "right_child"), "feature", features)


def _are_nodes(nodes: Any, dtype: np.dtype[Any]) -> bool:
    """Tell whether nodes are an array of these records, which hold no objects."""
    there = isinstance(nodes, np.ndarray) and nodes.ndim == 1 and len(nodes) > 0
    return there and nodes.dtype == dtype and not nodes.dtype.hasobject


def _walk(
    nodes: AnyArray, inner: AnyArray, sides: tuple[str, str], feature: str, features: int
) -> Conditions:
    """Children come after their parents, so that no walk can go round in a cycle."""
    for side in sides:
        child = nodes[side][inner].astype(np.int64)
        yield ((child > np.flatnonzero(inner)) & (child < len(nodes))).all()
    asked = nodes[feature][inner]
    yield ((asked >= 0) & (asked < features)).all()


def _is_count(value: Any, least: int) -> bool:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return whole and bool(least <= value < MOST)


def _one_tree(model: Any) -> Conditions:
    """A tree takes as many features as its model lets through."""
    from sklearn.tree._tree import Tree

    yield type(model.tree_) is Tree and model.tree_.n_features == model.n_features_in_


def _forest(model: Any) -> Conditions:
    """The trees of a forest are asked without checking the rows again."""
    from sklearn.tree._classes import BaseDecisionTree

    for member in np.asarray(model.estimators_, dtype=object).ravel():
        yield isinstance(member, BaseDecisionTree)
        yield from _one_tree(member)
        yield member.n_features_in_ == model.n_features_in_


def _boosting(model: Any) -> Conditions:
    """Every stage has one tree for each column of scores that it is added to."""
    stages = model.estimators_
    yield isinstance(stages, np.ndarray) and stages.ndim == 2 and stages.dtype == object
    classes = getattr(model, "n_classes_", 1)
    columns = classes if classes > 2 else 1
    yield {stages.shape[1], getattr(model, "n_trees_per_iteration_", columns)} == {columns}
    yield from _forest(model)


def _histogram_boosting(model: Any) -> Conditions:
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

    features = int(model.n_features_in_)
    categorical = np.asarray(model._bin_mapper.is_categorical_)
    yield categorical.shape == (features,) and not getattr(model, "_in_fit", False)
    for tree in (tree for stage in model._predictors for tree in stage):
        yield type(tree) is TreePredictor
        yield from _predictor(tree, features, categorical.astype(bool))


def _boosted_trees(model: Any) -> Conditions:
    """Boosting whose trees are in one array."""
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE

    features, ends = int(model.n_features_in_), np.asarray(model.ends_)
    yield _are_nodes(model.nodes_, PREDICTOR_RECORD_DTYPE)
    yield ends.ndim == 1 and ends.dtype.kind == "i" and len(ends) > 0
    yield (np.diff(ends, prepend=0) > 0).all() and ends[-1] == len(model.nodes_)
    yield np.isfinite(float(model.level_))
    for tree in model.trees():
        yield from _predictor(tree, features, np.zeros(features, dtype=bool))


def _predictor(predictor: Any, features: int, categorical: AnyArray) -> Conditions:
    """A tree of ``HistGradientBoosting``."""
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE

    nodes, sets = predictor.nodes, predictor.raw_left_cat_bitsets
    yield _are_nodes(nodes, PREDICTOR_RECORD_DTYPE)
    yield np.isfinite(nodes["value"]).all()
    inner = nodes["is_leaf"] == 0
    yield from _walk(nodes, inner, ("left", "right"), "feature_idx", features)
    sorts = nodes[inner & (nodes["is_categorical"] != 0)]
    if len(sorts):
        yield isinstance(sets, np.ndarray) and sets.dtype == np.uint32 and sets.shape[1:] == (8,)
        yield (sorts["bitset_idx"] < len(sets)).all()
        yield categorical[sorts["feature_idx"]].all()


# Neighbours, support vectors and centres


def _neighbours(model: Any) -> Conditions:
    """There is one answer for each row among which neighbours are looked up.

    The search tree of a file is not used: the same one is built again from the rows.
    """
    from sklearn.neighbors import BallTree, KDTree

    rows, metric = np.asarray(model._fit_X), model.effective_metric_
    yield rows.ndim == 2 and rows.shape[1] == model.n_features_in_ and rows.dtype.kind == "f"
    yield isinstance(metric, str)
    if model._tree is not None:
        kind = {"kd_tree": KDTree, "ball_tree": BallTree}[model._fit_method]
        more = model.effective_metric_params_ or {}
        model._tree = kind(rows, model.leaf_size, metric=metric, **more)
    if not hasattr(model, "_y"):
        return
    answers = np.asarray(model._y)
    yield len(answers) == len(rows)
    if hasattr(model, "classes_"):
        several = isinstance(model.classes_, list)
        sizes = [len(c) for c in (model.classes_ if several else [model.classes_])]
        codes = answers.reshape(len(rows), -1)
        yield codes.dtype.kind in "iu" and codes.shape[1] == len(sizes)
        yield ((codes >= 0) & (codes < np.array(sizes))).all()


def _support_vectors(model: Any) -> Conditions:
    yield not model._sparse and model.kernel in KERNELS and "_impl" not in vars(model)
    classes = len(model.classes_) if hasattr(model, "classes_") else 2
    number, pairs = len(model.support_), classes * (classes - 1) // 2
    each = np.asarray(model._n_support)
    yield classes >= 2
    yield model.support_vectors_.shape == (number, model.n_features_in_)
    yield model._dual_coef_.shape == (classes - 1, number)
    yield model._intercept_.shape == (pairs,)
    yield each.shape == (classes,) and (each >= 0).all()
    yield (each.sum() if hasattr(model, "classes_") else each[0]) == number
    yield {model._probA.shape, model._probB.shape} <= {(0,), (pairs,), (1,)}


def _centres(model: Any) -> Conditions:
    centres = np.asarray(model.cluster_centers_)
    yield centres.ndim == 2 and centres.shape[1] == model.n_features_in_


_CHECKS: dict[str, tuple[str, Callable[[Any], Conditions]]] = {
    "sklearn.tree._classes.BaseDecisionTree": ("tree_", _one_tree),
    "sklearn.ensemble._forest.BaseForest": ("estimators_", _forest),
    "sklearn.ensemble._gb.BaseGradientBoosting": ("estimators_", _boosting),
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting.BaseHistGradientBoosting": (
        "_predictors",
        _histogram_boosting,
    ),
    "fedrelax.models.additive.BoostedTrees": ("nodes_", _boosted_trees),
    "sklearn.neighbors._base.NeighborsBase": ("_fit_X", _neighbours),
    "sklearn.svm._base.BaseLibSVM": ("support_vectors_", _support_vectors),
    "sklearn.cluster._kmeans._BaseKMeans": ("cluster_centers_", _centres),
}
"""By class: the attribute that a part has once it is fitted, and its check."""
