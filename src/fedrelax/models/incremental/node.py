"""The adapter for models with river's ``learn_one`` and ``predict_one``."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

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
        return as_shares(np.array([[share.get(c, 0.0) for c in labels] for share in shares]))


def as_shares(values: FloatArray) -> FloatArray:
    """Return rows that sum to 1; a row of zeros makes all classes equally likely."""
    values = np.where(values.sum(axis=1, keepdims=True) > 0, values, 1.0)
    return np.asarray(values / values.sum(axis=1, keepdims=True))


def hoeffding(classify: bool) -> IncrementalModel:
    """Return a Hoeffding tree that splits early: river's defaults wait for 200 rows.

    Leaves predict a mean or class shares, so that the tree can be saved without pickle.
    """
    need("river", "incremental")
    from river.tree import HoeffdingTreeClassifier, HoeffdingTreeRegressor

    if classify:
        tree = HoeffdingTreeClassifier(
            grace_period=20, delta=0.05, tau=1.0, max_depth=8, leaf_prediction="mc"
        )
        return IncrementalModel(tree, passes=3)
    return IncrementalModel(
        HoeffdingTreeRegressor(
            grace_period=10, delta=0.05, tau=0.1, max_depth=8, leaf_prediction="mean"
        )
    )
