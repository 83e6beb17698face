"""Models that keep learning, row by row and round by round: those of river (extra ``incremental``).

Hoeffding trees are saved as what they predict, in plain JSON: river's only file format is pickle, which is
never loaded here. A tree that is read back predicts the same, and cannot learn any more.
"""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from fedrelax.errors import FedRelaxError
from fedrelax.extras import need
from fedrelax.models.base import LocalModel, Rows, Task, stack
from fedrelax.models.criteria import LOG, SQUARED, resample
from fedrelax.models.scikit import hardened, shaped
from fedrelax.typing import AnyArray, FloatArray
from fedrelax.validation import check_count


@dataclass(eq=False, repr=False)
class IncrementalModel(BaseEstimator):  # type: ignore[misc]
    """A river model and how it learns. A bare river model takes part with these defaults.

    model : anything with ``learn_one`` and ``predict_one``, such as
        ``river.tree.HoeffdingTreeRegressor()``.
    passes : how many times the rows of each round are learned.
    learn_on : keep what was learned in earlier rounds, and learn the rows of this round on top. That
        is what such a model is for, so the solver's ``continued`` is not needed. With False it starts
        afresh in every round, unless the solver says ``continued=True``.
    """

    model: Any
    passes: int = 1
    learn_on: bool = True


def is_incremental(estimator: Any) -> bool:
    """Whether an estimator learns row by row."""
    if isinstance(estimator, IncrementalModel):
        return True
    return hasattr(estimator, "learn_one") and hasattr(estimator, "predict_one")


class IncrementalNode(LocalModel):
    """A river model at a node.

    Rows are learned in an order drawn from the node's seed. Weights are passed as ``w`` where
    ``learn_one`` takes it; then a soft label is one row per class, with its share of the weight.
    Otherwise rows are resampled, under their most likely label.
    """

    def __init__(self, estimator: Any, task: Task) -> None:
        self.task = task
        bare = not isinstance(estimator, IncrementalModel)
        settings = IncrementalModel(estimator) if bare else estimator
        model, kind = settings.model, type(settings.model).__name__
        if not is_incremental(model):
            raise FedRelaxError(
                f"IncrementalModel got {model!r}, which has no learn_one and predict_one; pass a "
                "model of river"
            )
        check_count("passes", settings.passes, least=1)
        classifies = hasattr(model, "predict_proba_one")
        if classifies != task.is_classification:
            kinds = ("classes", "numbers") if classifies else ("numbers", "classes")
            raise FedRelaxError(f"{kind} predicts {kinds[0]}, and the target holds {kinds[1]}")
        if not classifies and task.n_outputs > 1:
            raise FedRelaxError(
                f"{kind} predicts one number per row, and the target has {task.n_outputs}"
            )
        self._settings, self._model, self._learned = settings, model, False
        self._weighs = "w" in inspect.signature(model.learn_one).parameters
        self.weights = "exact" if self._weighs else "resampled"
        if kind.startswith("Hoeffding"):  # they split by entropy or variance
            self.fits = LOG if classifies else SQUARED

    @property
    def estimator(self) -> Any:
        """The plain river model."""
        return self._model

    def forgets(self, continued: bool) -> bool:
        """Whether every fit starts from the model as it was passed in."""
        return not (continued or self._settings.learn_on)

    def fit(self, terms: Sequence[Rows], *, seed: int, continued: bool = False) -> IncrementalNode:
        """Return a model that has learned the rows, on top of what it knew or afresh."""
        goes_on = self._learned and not self.forgets(continued)
        model = copy.deepcopy(self._model if goes_on else self._settings.model)
        if not goes_on and getattr(model, "seed", 0) is None:
            model = model.clone({"seed": seed})
        rng, rows = np.random.default_rng(seed), stack(terms)
        for _ in range(self._settings.passes):
            for x, y, w in self._lessons(rows, rng):
                model.learn_one(x, y, **({"w": w} if self._weighs else {}))
        fitted = copy.copy(self)
        fitted._model, fitted._learned = model, True
        return fitted

    def _lessons(self, rows: Rows, rng: np.random.Generator) -> Iterator[tuple[Any, Any, float]]:
        """Yield features by index, target (a number or a label) and weight, in random order."""
        target = rows.target
        if self._weighs:
            order = rng.permutation(len(rows))
        else:
            order = rng.permutation(resample(rows.weight, len(rows), rng))
            target = hardened(target) if self.task.is_classification else target
        flat = rows.X.reshape(len(rows), -1)
        labels = None if self.task.classes is None else self.task.classes.tolist()
        for r in order.tolist():
            x, w = dict(enumerate(flat[r].tolist())), float(rows.weight[r])
            if labels is None:
                yield x, float(target[r, 0]), w
                continue
            for c in np.flatnonzero(target[r]).tolist():
                yield x, labels[c], w * float(target[r, c])

    def predict(self, X: AnyArray) -> FloatArray:
        """Return numbers, or class probabilities; a class never seen has probability 0."""
        rows = (dict(enumerate(row)) for row in X.reshape(len(X), -1).tolist())
        if self.task.classes is None:
            answer = np.array([self._model.predict_one(x) for x in rows], dtype=float)
            return shaped(answer, len(X), 1)
        labels = self.task.classes.tolist()
        shares = map(self._model.predict_proba_one, rows)
        return as_shares([[share.get(c, 0.0) for c in labels] for share in shares])


def as_shares(values: Sequence[Sequence[float]]) -> FloatArray:
    """Return rows that sum to 1; a row of zeros makes all classes equally likely."""
    array = np.asarray(values, dtype=float)
    array = np.where(array.sum(axis=1, keepdims=True) > 0, array, 1.0)
    return np.asarray(array / array.sum(axis=1, keepdims=True))


def hoeffding(classify: bool) -> IncrementalModel:
    """Return a Hoeffding tree that splits early: river's defaults wait for 200 rows.

    Leaves predict a mean or class shares, so that the tree can be saved without pickle.
    """
    need("river", "incremental")
    from river.tree import HoeffdingTreeClassifier, HoeffdingTreeRegressor

    common = {"delta": 0.05, "max_depth": 8}
    if classify:
        tree = HoeffdingTreeClassifier(20, tau=1.0, leaf_prediction="mc", **common)
        return IncrementalModel(tree, passes=3)
    return IncrementalModel(HoeffdingTreeRegressor(10, tau=0.1, leaf_prediction="mean", **common))


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

    def _values(self, X: AnyArray) -> FloatArray:
        X = np.asarray(X, dtype=float).reshape(len(X), -1)
        if max(self.feature) >= X.shape[1]:
            raise FedRelaxError(
                f"this tree needs rows of at least {max(self.feature) + 1} features, and these have "
                f"{X.shape[1]}"
            )
        answer, rows = np.empty((len(X), len(self.value[0]))), {0: np.arange(len(X))}
        for k, feature in enumerate(self.feature):  # children come after their parents
            here = rows.pop(k)
            if feature < 0:
                answer[here] = self.value[k]
                continue
            goes_left = X[here, feature] <= self.threshold[k]
            rows[self.left[k]], rows[self.right[k]] = here[goes_left], here[~goes_left]
        return answer

    def predict(self, X: AnyArray) -> AnyArray:
        """Return numbers, or the most likely classes."""
        answer = self._values(X)
        return answer[:, 0] if self.classes is None else self.classes_[answer.argmax(axis=1)]

    def predict_proba(self, X: AnyArray) -> FloatArray:
        """Return class probabilities in the order of ``classes_``."""
        if self.classes is None:
            raise FedRelaxError("this tree predicts numbers; use predict")
        return self._values(X)


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
    """Return the tree in a file, in which every node but the first is the child of one before it."""
    try:
        fields = json.loads(data)
        feature, left, right = (np.asarray(fields[name]) for name in ("feature", "left", "right"))
        threshold, value = (np.asarray(fields[k], dtype=float) for k in ("threshold", "value"))
        classes, n = fields["classes"], len(feature)
        wide = 1 if classes is None else len(classes)
        whole = all(a.dtype.kind == "i" and a.shape == (n,) for a in (feature, left, right))
        inner = np.flatnonzero(feature >= 0)
        children = np.concatenate([left[inner], right[inner]])
        if not whole or n == 0 or threshold.shape != (n,) or value.shape != (n, wide):
            why = "its parts do not fit together"
        elif not (np.isfinite(threshold).all() and np.isfinite(value).all()):
            why = "a number is not finite"
        elif (children <= np.tile(inner, 2)).any() or [*np.sort(children)] != [*range(1, n)]:
            why = "its nodes are not those of a tree"
        else:
            return SavedTree(**{name: fields[name] for name in (*FIELDS, "classes")})
    except Exception as error:  # something is missing or of the wrong type
        raise FedRelaxError(f"its tree is damaged ({error}); run the fit again") from error
    raise FedRelaxError(f"its tree is damaged: {why}; run the fit again")


def _frozen(tree: Any) -> SavedTree:
    """Return the present predictions of a Hoeffding tree as a tree of plain numbers."""
    classes = sorted(tree.classes) if hasattr(tree, "classes") else None
    nodes: list[tuple[Any, ...]] = []

    def add(node: Any) -> int:
        k = len(nodes)
        nodes.append(())
        if not hasattr(node, "children"):
            answer = node.prediction({}, tree=tree)
            value = [answer] if classes is None else [answer.get(c, 0.0) for c in classes]
            share = np.array([value], dtype=float) if classes is None else as_shares([value])
            nodes[k] = -1, 0.0, -1, -1, share[0].tolist()
        elif type(node).__name__ == "NumericBinaryBranch":
            nothing = [0.0] * (1 if classes is None else len(classes))
            nodes[k] = node.feature, float(node.threshold), *map(add, node.children), nothing
        else:
            raise FedRelaxError(f"its tree has a {type(node).__name__}, which cannot be saved")
        return k

    add(tree._root)
    return SavedTree(*map(list, zip(*nodes, strict=True)), classes=classes)
