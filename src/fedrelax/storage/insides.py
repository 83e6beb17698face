"""scikit-learn estimators that came from a file: their parts must fit each other.

A type says nothing about its content. Trees, neighbours, support vectors and cluster centres end up in
native code that trusts the shapes of its arrays; here these are compared before the first prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError, in_one_line
from fedrelax.storage.trees import check_neighbours, check_predictor, damaged

KERNELS = ("linear", "poly", "rbf", "sigmoid")


def check_insides(model: Any) -> None:
    """Check all estimators inside a model; an error says what is damaged."""
    for part in _parts(model):
        for kind in type(part).__mro__:
            check = _CHECKS.get(f"{kind.__module__}.{kind.__qualname__}")
            if check is None:
                continue
            try:
                check(part)
            except FedRelaxError:
                raise
            except Exception as error:  # an attribute is missing or of the wrong kind
                raise FedRelaxError(
                    f"its {type(part).__name__} is damaged ({in_one_line(error)}); run the fit again"
                ) from error


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


# One check for each kind


def _one_tree(model: Any) -> None:
    """Check that a tree takes as many features as its model lets through."""
    from sklearn.tree._tree import Tree

    if not hasattr(model, "tree_"):
        return
    if type(model.tree_) is not Tree or model.tree_.n_features != model.n_features_in_:
        raise damaged(f"it does not take the {model.n_features_in_} features of its model")


def _forest(model: Any) -> None:
    """Check the trees of a forest, which are asked without checking the rows again."""
    from sklearn.tree._classes import BaseDecisionTree

    for member in np.asarray(getattr(model, "estimators_", []), dtype=object).ravel():
        if not isinstance(member, BaseDecisionTree):
            raise damaged(f"a member of its forest is a {type(member).__name__}")
        _one_tree(member)
        if member.n_features_in_ != model.n_features_in_:
            raise damaged(f"it does not take the {model.n_features_in_} features of its forest")


def _boosting(model: Any) -> None:
    """Check that every stage has one tree for each column of scores that it is added to."""
    if not hasattr(model, "estimators_"):
        return
    stages = model.estimators_
    if not isinstance(stages, np.ndarray) or stages.ndim != 2 or stages.dtype != object:
        raise damaged("its stages are not a table of trees")
    columns = getattr(model, "n_trees_per_iteration_", stages.shape[1])
    known = getattr(model, "n_classes_", 1)
    if stages.shape[1] != columns or columns != (known if known > 2 else 1):
        raise damaged(f"a stage has {stages.shape[1]} trees where {columns} are needed")
    _forest(model)


def _histogram_boosting(model: Any) -> None:
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

    if not hasattr(model, "_predictors"):
        return
    features = int(model.n_features_in_)
    categorical = np.asarray(model._bin_mapper.is_categorical_)
    if categorical.shape != (features,) or getattr(model, "_in_fit", False):
        raise damaged(f"its bins do not fit {features} features")
    for stage in model._predictors:
        for predictor in stage:
            if type(predictor) is not TreePredictor:
                raise damaged(f"one of its trees is a {type(predictor).__name__}")
            check_predictor(predictor, features, categorical.astype(bool))


def _neighbours(model: Any) -> None:
    """Check that there is one answer for each row among which neighbours are looked up."""
    if not hasattr(model, "_fit_X"):
        return
    rows = np.asarray(model._fit_X)
    if rows.ndim != 2 or rows.shape[1] != model.n_features_in_ or rows.dtype.kind != "f":
        raise FedRelaxError(f"its rows do not have {model.n_features_in_} features")
    if model._tree is not None and np.asarray(model._tree.get_arrays()[0]).shape != rows.shape:
        raise FedRelaxError("its search tree does not fit its rows")
    if callable(model.effective_metric_):
        raise FedRelaxError("its distance is a custom function")
    if not hasattr(model, "_y"):
        return
    answers = np.asarray(model._y)
    if len(answers) != len(rows):
        raise FedRelaxError(f"it has {len(rows)} rows but {len(answers)} answers")
    if hasattr(model, "classes_"):
        several = isinstance(model.classes_, list)
        sizes = [len(c) for c in (model.classes_ if several else [model.classes_])]
        codes = answers.reshape(len(rows), -1)
        if codes.dtype.kind not in "iu" or codes.shape[1] != len(sizes):
            raise FedRelaxError("its answers are not class indices")
        if (codes < 0).any() or (codes >= np.array(sizes)).any():
            raise FedRelaxError("an answer is not one of its classes")


def _support_vectors(model: Any) -> None:
    if not hasattr(model, "support_vectors_"):
        return
    if model._sparse or model.kernel not in KERNELS or "_impl" in vars(model):
        raise FedRelaxError(f"its kernel {model.kernel!r} is not one of {', '.join(KERNELS)}")
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
    wrong = [name for name, fits in sizes.items() if not fits]
    if wrong:
        raise FedRelaxError(f"its support vectors are damaged: their {wrong[0]} do not fit")


def _centres(model: Any) -> None:
    if hasattr(model, "cluster_centers_"):
        centres = np.asarray(model.cluster_centers_)
        if centres.ndim != 2 or centres.shape[1] != model.n_features_in_:
            raise FedRelaxError(f"its centres do not have {model.n_features_in_} features")


_CHECKS: dict[str, Callable[[Any], None]] = {
    "sklearn.tree._classes.BaseDecisionTree": _one_tree,
    "sklearn.ensemble._forest.BaseForest": _forest,
    "sklearn.ensemble._gb.BaseGradientBoosting": _boosting,
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting.BaseHistGradientBoosting": (
        _histogram_boosting
    ),
    "sklearn.neighbors._base.NeighborsBase": _neighbours,
    "sklearn.neighbors._kd_tree.KDTree": check_neighbours,
    "sklearn.neighbors._ball_tree.BallTree": check_neighbours,
    "sklearn.svm._base.BaseLibSVM": _support_vectors,
    "sklearn.cluster._kmeans._BaseKMeans": _centres,
}
