"""The arrays of trees, checked before native code follows them blindly.

A scikit-learn tree predicts by walking from index to index. With a child that is out of range, a cycle
or a feature that a row does not have, it would read foreign memory or never end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.typing import AnyArray

LEAF = -1


def check_tree(arguments: Any, state: Any) -> None:
    """Check what a ``sklearn.tree._tree.Tree`` is made of, before it is made."""
    from sklearn.tree._tree import NODE_DTYPE

    features, classes, outputs = _items(arguments, 3)
    if not (_is_count(features, 1) and _is_count(outputs, 1)):
        raise damaged(f"it has {features!r} features and {outputs!r} outputs")
    classes = np.asarray(classes)
    if classes.dtype.kind not in "iu" or classes.shape != (outputs,) or classes.min() < 1:
        raise damaged("its numbers of classes do not fit its outputs")
    if not isinstance(state, dict):
        raise damaged("its state is not a dict")
    nodes, values = state.get("nodes"), state.get("values")
    if not (isinstance(nodes, np.ndarray) and isinstance(values, np.ndarray)):
        raise damaged("its nodes or values are missing")
    if nodes.ndim != 1 or len(nodes) == 0 or not _same_fields(nodes.dtype, NODE_DTYPE):
        raise damaged("its nodes are not those of this version of scikit-learn")
    if state.get("node_count") != len(nodes) or not _is_count(state.get("max_depth"), 0):
        raise damaged(f"it has {len(nodes)} nodes but claims {state.get('node_count')!r}")
    wanted = (len(nodes), outputs, int(classes.max()))
    if values.shape != wanted or values.dtype != np.float64 or not np.isfinite(values).all():
        raise damaged(f"its values are not {wanted} finite numbers")
    inner = nodes["left_child"] != LEAF
    _check_walk(nodes, inner, ("left_child", "right_child"), "feature", features)


def check_predictor(predictor: Any, features: int, categorical: AnyArray) -> None:
    """Check a tree of ``HistGradientBoosting``."""
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE

    nodes = getattr(predictor, "nodes", None)
    sets = getattr(predictor, "raw_left_cat_bitsets", None)
    if not isinstance(nodes, np.ndarray) or nodes.ndim != 1 or len(nodes) == 0:
        raise damaged("its nodes are missing")
    if not _same_fields(nodes.dtype, PREDICTOR_RECORD_DTYPE):
        raise damaged("its nodes are not those of this version of scikit-learn")
    if not np.isfinite(nodes["value"]).all():
        raise damaged("a value is not finite")
    inner = nodes["is_leaf"] == 0
    _check_walk(nodes, inner, ("left", "right"), "feature_idx", features)
    sorts = inner & (nodes["is_categorical"] != 0)
    if not sorts.any():
        return
    if not isinstance(sets, np.ndarray) or sets.dtype != np.uint32 or sets.shape[1:] != (8,):
        raise damaged("its sets of categories are missing")
    if (nodes["bitset_idx"][sorts] >= len(sets)).any():
        raise damaged("a set of categories is out of range")
    if not categorical[nodes["feature_idx"][sorts]].all():
        raise damaged("it splits a feature by categories that has none")


def check_neighbours(tree: Any) -> None:
    """Check a ``KDTree`` or ``BallTree``."""
    data, order, nodes, bounds = (np.asarray(part) for part in tree.get_arrays())
    claimed = tree.__getstate__()[6]
    if data.ndim != 2 or not np.isfinite(data).all():
        raise damaged("its rows are not a table of finite numbers")
    if order.shape != (len(data),) or (np.sort(order) != np.arange(len(data))).any():
        raise damaged("its order is not a permutation of its rows")
    sides = 2 if type(tree).__name__.startswith("KD") else 1
    if claimed != len(nodes) or bounds.shape != (sides, len(nodes), data.shape[1]):
        raise damaged(f"it has {len(nodes)} nodes but claims {claimed}")
    start, end = nodes["idx_start"], nodes["idx_end"]
    if (start < 0).any() or (end < start).any() or (end > len(data)).any():
        raise damaged("a node is out of range")
    inner = np.flatnonzero(nodes["is_leaf"] == 0)
    if len(nodes) == 0 or (2 * inner + 2 >= len(nodes)).any():
        raise damaged("a child is out of range")


def damaged(why: str) -> FedRelaxError:
    """Return the error about a damaged tree."""
    return FedRelaxError(f"its tree is damaged: {why}; run the fit again")


def _check_walk(
    nodes: AnyArray, inner: AnyArray, sides: tuple[str, str], feature: str, features: int
) -> None:
    """Check that children come after their parents, so that no walk can go round in a cycle."""
    place = np.flatnonzero(inner)
    for side in sides:
        child = nodes[side][inner].astype(np.int64)
        if (child >= len(nodes)).any() or (child < 0).any():
            raise damaged("a child is out of range")
        if (child <= place).any():
            raise damaged("its nodes form a cycle")
    asked = nodes[feature][inner]
    if (asked < 0).any() or (asked >= features).any():
        raise damaged(f"it asks for a feature that is not one of its {features}")


def _same_fields(found: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Tell whether two record types have the same fields at the same offsets, and no objects."""
    return found == wanted and not found.hasobject


def _items(values: Any, number: int) -> Any:
    if not isinstance(values, tuple | list) or len(values) != number:
        raise damaged(f"it is not made of {number} values")
    return values


def _is_count(value: Any, least: int) -> bool:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return whole and least <= value < 2**31
