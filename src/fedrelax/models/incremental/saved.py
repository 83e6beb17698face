"""Hoeffding trees on disk: what a tree predicts, as plain JSON.

river's only file format is pickle, which is never loaded here. A file holds the splits and the
prediction of every leaf: the tree that is read back predicts the same, and cannot learn any more.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from fedrelax.errors import FedRelaxError
from fedrelax.models.incremental.node import IncrementalModel, as_shares
from fedrelax.typing import AnyArray, FloatArray, IntArray

SAVED = {"HoeffdingTreeRegressor": "mean", "HoeffdingTreeClassifier": "mc"}
"""The trees that can be saved, each with the ``leaf_prediction`` it needs."""

FIELDS = ("feature", "threshold", "left", "right", "value")


@dataclass(eq=False, repr=False)
class SavedTree(BaseEstimator):  # type: ignore[misc]
    """A Hoeffding tree read from a file: it predicts, but cannot learn.

    Node k goes to ``left[k]`` if feature ``feature[k]`` is at most ``threshold[k]``, else to
    ``right[k]``; a leaf has feature -1 and predicts row k of ``value``.
    """

    feature: Sequence[int]
    threshold: Sequence[float]
    left: Sequence[int]
    right: Sequence[int]
    value: Sequence[Sequence[float]]
    classes: Sequence[Any] | None = None

    @property
    def classes_(self) -> AnyArray:
        """The classes, of a tree that predicts classes."""
        if self.classes is None:
            raise AttributeError("this tree predicts numbers")
        return np.asarray(self.classes)

    def fit(self, X: AnyArray, y: AnyArray) -> Self:
        """Raise an error: what the tree would need to learn on is not in the file."""
        raise FedRelaxError(
            "this tree was read from a file: it can predict but not learn on; start with a new tree"
        )

    def _leaves(self, X: AnyArray) -> IntArray:
        X = np.asarray(X, dtype=float).reshape(len(X), -1)
        feature, threshold = np.asarray(self.feature), np.asarray(self.threshold)
        if feature.max() >= X.shape[1]:
            raise FedRelaxError(
                f"this tree needs rows of at least {feature.max() + 1} features, and these have "
                f"{X.shape[1]}"
            )
        left, right = np.asarray(self.left), np.asarray(self.right)
        at = np.zeros(len(X), dtype=np.int64)
        inner = feature[at] >= 0
        while inner.any():
            k = at[inner]
            goes_left = X[inner, feature[k]] <= threshold[k]
            at[inner] = np.where(goes_left, left[k], right[k])
            inner = feature[at] >= 0
        return at

    def predict(self, X: AnyArray) -> AnyArray:
        """Return numbers, or the most likely classes."""
        if self.classes is not None:
            return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])
        return np.asarray(np.asarray(self.value, dtype=float)[self._leaves(X), 0])

    def predict_proba(self, X: AnyArray) -> FloatArray:
        """Return class probabilities in the order of ``classes_``."""
        if self.classes is None:
            raise FedRelaxError("this tree predicts numbers; use predict")
        return np.asarray(np.asarray(self.value, dtype=float)[self._leaves(X)])


def check_savable(model: Any) -> None:
    """Refuse a river model that cannot be written without pickle, before it is trained."""
    tree = model.model if isinstance(model, IncrementalModel) else model
    if isinstance(tree, SavedTree):
        return
    leaves = SAVED.get(type(tree).__name__)
    if leaves is None or tree.leaf_prediction != leaves or tree.nominal_attributes:
        raise FedRelaxError(
            f"its model {type(tree).__name__} cannot be saved without pickle; of river's models, "
            "HoeffdingTreeRegressor(leaf_prediction='mean') and HoeffdingTreeClassifier("
            "leaf_prediction='mc') can, on numeric features"
        )


def to_bytes(tree: Any) -> bytes:
    """Return a fitted Hoeffding tree (or one that was read from a file) as JSON."""
    check_savable(tree)
    if not isinstance(tree, SavedTree):
        tree = _frozen(tree)
    fields = {name: getattr(tree, name) for name in (*FIELDS, "classes")}
    return json.dumps(fields, allow_nan=False).encode()


def from_bytes(data: bytes, trust: Sequence[str]) -> SavedTree:
    """Return the tree in a file; children must come after their parents, so that no walk is endless."""
    try:
        fields = json.loads(data)
        feature, left, right = (np.asarray(fields[name]) for name in ("feature", "left", "right"))
        threshold, value = (np.asarray(fields[k], dtype=float) for k in ("threshold", "value"))
        classes, n = fields["classes"], len(feature)
        wide = 1 if classes is None else len(classes)
        whole = all(a.dtype.kind == "i" and a.shape == (n,) for a in (feature, left, right))
        inner = np.flatnonzero(feature >= 0)
        if not whole or n == 0 or threshold.shape != (n,) or value.shape != (n, wide):
            why = "its parts do not fit together"
        elif not (np.isfinite(threshold).all() and np.isfinite(value).all()):
            why = "a number is not finite"
        elif any(
            (side[inner] <= inner).any() or (side[inner] >= n).any() for side in (left, right)
        ):
            why = "it goes round in a circle"
        else:
            return SavedTree(**{name: fields[name] for name in (*FIELDS, "classes")})
    except Exception as error:  # something is missing or of the wrong type
        raise FedRelaxError(f"its tree is damaged ({error}); run the fit again") from error
    raise FedRelaxError(f"its tree is damaged: {why}; run the fit again")


def _frozen(tree: Any) -> SavedTree:
    """Return the present predictions of a Hoeffding tree as a tree of plain numbers."""
    classes = sorted(tree.classes) if hasattr(tree, "classes") else None
    fields: dict[str, list[Any]] = {name: [] for name in FIELDS}

    def add(node: Any) -> int:
        k = len(fields["feature"])
        branch = hasattr(node, "children")
        if branch and type(node).__name__ != "NumericBinaryBranch":
            raise FedRelaxError(f"its tree has a {type(node).__name__}, which cannot be saved")
        value = [0.0] * (1 if classes is None else len(classes))
        if not branch:
            answer = node.prediction({}, tree=tree)
            if classes is None:
                value = [float(answer)]
            else:
                value = as_shares(np.array([[answer.get(c, 0.0) for c in classes]]))[0].tolist()
        row = (node.feature, float(node.threshold), -1, -1) if branch else (-1, 0.0, -1, -1)
        for name, entry in zip(FIELDS, (*row, value), strict=True):
            fields[name].append(entry)
        if branch:
            fields["left"][k], fields["right"][k] = (add(child) for child in node.children)
        return k

    add(tree._root)
    return SavedTree(**fields, classes=classes)
