"""A node's model as a sum: what its neighbours say, and the node's own difference from that.

The neighbours' answers are known on public rows only. A model fitted to these, the consensus, carries them
over to any row. A second, smaller model is then fitted to what the consensus leaves open on the node's own
rows, and to zero on the public rows, whose weight is the coupling. Only such answers are exchanged.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.ensemble._forest import BaseForest
from sklearn.tree import BaseDecisionTree

from fedrelax.errors import FedRelaxError
from fedrelax.models.additive import MIXTURE, SumRegressor
from fedrelax.models.base import LocalModel, Rows, Task, WrappedModel, stack
from fedrelax.models.criteria import last_step
from fedrelax.models.linear import LinearModel, LinearNode
from fedrelax.models.registry import adapt
from fedrelax.models.viewed import Viewed
from fedrelax.typing import AnyArray, FloatArray

FEW_ROWS, SOME_ROWS, MANY_ROWS = 20, 100, 400
"""Rows from which a difference has leaves of five rows, as many trees as a model alone, and larger ones."""

MOST_KNOWN = 64
"""How many models of neighbours' answers are kept for other nodes that heard the same."""

POSITIVE = ("poisson", "gamma", "tweedie", "msle")
"""What names and settings of models say that cannot fit negative numbers."""


Parts = tuple[dict[str, Any], dict[str, Any], float]
"""Settings of the models that carry the neighbours' answers and learn the difference, and its share."""


def parts_of(estimator: Any, rows: int) -> Parts:
    """Return the settings in which the two models of a node with so many rows differ from its own.

    The consensus is fitted to many rows without noise, so it may be finer than a model of few rows; the
    difference is fitted to few rows with noise, so it is coarser, the more so the fewer rows there are.
    """
    step, own, leaf = last_step(estimator), {}, 5 if rows >= FEW_ROWS else 2
    leaves, name = 7 if rows >= MANY_ROWS else 3, type(step).__name__
    if hasattr(step, "get_params"):
        own = step.get_params(deep=False)
    if isinstance(step, BaseDecisionTree):
        depth = own["max_depth"]
        deeper = None if depth is None else depth + 3
        few, most = rows < FEW_ROWS, 3 if depth is None else min(depth, 3)
        coarser = {"max_depth": 2 if few else most, "min_samples_leaf": leaf}
        return {"max_depth": deeper, "min_samples_leaf": 1}, coarser, 0.5 if few else 1.0
    if isinstance(step, BaseForest):
        return {}, {"min_samples_leaf": leaf}, 1.0
    if name.startswith("HistGradientBoosting"):
        finer = {"max_iter": 4 * own["max_iter"], "max_leaf_nodes": 15, "min_samples_leaf": 5}
        coarser = {"max_leaf_nodes": leaves, "l2_regularization": own["l2_regularization"] + 5.0}
        return finer, coarser, 1.0
    if name.startswith(("LGBM", "XGB")):
        trees = own["n_estimators"] or 100
        finer = {"n_estimators": 2 * trees}
        coarser = {
            "n_estimators": trees if rows >= SOME_ROWS else max(trees // 2, 1),
            "reg_lambda": (own["reg_lambda"] or 0.0) + 5.0,
        }
        if name.startswith("LGBM"):
            finer["min_child_samples"], coarser["num_leaves"] = 5, leaves
        else:
            coarser |= {"max_leaves": leaves, "grow_policy": "lossguide"}
        return finer, coarser, 1.0
    return {}, {}, 1.0


class DifferenceModel(WrappedModel):
    """Any regressor as a local model that learns its difference from what its neighbours say."""

    how = "sum"

    def __init__(self, model: LocalModel, fitted: dict[bytes, LocalModel] | None = None) -> None:
        super().__init__(model)
        self.recalls = False
        self._known = {} if fitted is None else fitted
        self.parts: tuple[LocalModel, ...] = ()
        self.share = 1.0

    @property
    def estimator(self) -> Any:
        """The model trained alone, a sum of two models, or their sum as one linear model."""
        if len(self.parts) < 2:
            return (self.parts or (self.inner,))[0].estimator
        consensus, difference = (part.estimator for part in self.parts)
        linear = all(hasattr(part, "coef_") for part in (consensus, difference))
        if linear and self.how != MIXTURE:
            one = copy.copy(difference)
            one.coef_ = consensus.coef_ + self.share * difference.coef_
            one.intercept_ = consensus.intercept_ + self.share * difference.intercept_
            return one
        return self.sum_of(consensus, difference)

    def sum_of(self, consensus: Any, difference: Any) -> Any:
        """Return the sum of two fitted regressors."""
        return SumRegressor.of(consensus, difference, self.share, self.kind)

    @property
    def kind(self) -> Any:
        """The unfitted model that both parts come from."""
        return self.inner.estimator

    @property
    def drifts(self) -> bool:
        """No: own rows are fitted afresh in every round."""
        return False

    def forgets(self, continued: bool) -> bool:
        """Both parts start afresh in every round."""
        return isinstance(self.inner, LinearNode) or self.inner.forgets(False)

    def check(self, X: AnyArray) -> None:
        """Refuse rows that the model cannot take, and a model that cannot fit negative numbers."""
        if _is_positive(self.inner):
            raise FedRelaxError(
                f"{self.name} as configured fits positive numbers only, and a difference from the "
                "neighbours' answers may be negative; use update='refit'"
            )
        self.inner.check(X)

    def fit(self, terms: Sequence[Rows], *, seed: int, continued: bool = False) -> DifferenceModel:
        """Return the sum fitted to own rows (the first term) and the neighbours' answers (the others)."""
        own, answers = terms[0], [term for term in terms[1:] if term.weight.any()]
        fitted = copy.copy(self)
        if answers:
            fitted.learn_difference(own, answers, self.consensus_of(answers, len(own)), seed)
        else:
            fitted.parts = (self.inner.fit(terms, seed=seed),)
        return fitted

    def learn_difference(
        self, own: Rows, answers: Sequence[Rows], consensus: LocalModel, seed: int
    ) -> None:
        """Fit the difference from the consensus."""
        _, coarser, share = parts_of(self.inner.estimator, len(own))
        left = replace(own, target=own.target - consensus.predict(own.X))
        zeros = [replace(term, target=np.zeros_like(term.target)) for term in answers]
        if not self.settles:
            zeros = drawn(zeros, seed)
        difference = changed(self.inner, coarser).fit([left, *zeros], seed=seed)
        self.share, self.parts = share, (consensus, difference)

    def consensus_of(self, answers: Sequence[Rows], rows: int) -> LocalModel:
        """Return what carries the neighbours' answers over to any row, for a node with so many rows."""
        finer, *_ = parts_of(self.inner.estimator, rows)
        alike = _straight(self.inner) or _boosted(self.inner, rows) or changed(self.inner, finer)
        return self._distilled(alike, answers)

    def _distilled(self, model: LocalModel, answers: Sequence[Rows]) -> LocalModel:
        """Return a model fitted to the neighbours' answers; nodes that heard the same fit one."""
        weights = np.concatenate([term.weight for term in answers])
        level = weights[0] if (weights == weights[0]).all() else weights.mean()
        even = [replace(term, weight=term.weight / level) for term in answers]
        rows = [(term.X, term.target, term.weight) for term in even]
        key = joblib.hash((repr(model.estimator), rows)).encode()
        if key not in self._known:
            while len(self._known) >= MOST_KNOWN:
                self._known.pop(next(iter(self._known)))
            self._known[key] = model.fit(even, seed=0)
        return self._known[key]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_known": {}}

    def predict(self, X: AnyArray) -> FloatArray:
        """Return the sum of both predictions."""
        if len(self.parts) == 1:
            return self.parts[0].predict(X)
        consensus, difference = self.parts
        return self.answer(consensus.predict(X), difference.predict(X))

    def answer(self, consensus: FloatArray, difference: FloatArray) -> FloatArray:
        """Return the sum of two answers."""
        return consensus + self.share * difference


def local_model(
    given: Any, task: Task, update: str, fitted: dict[bytes, LocalModel] | None = None
) -> LocalModel:
    """Return a node's local model for an update: "refit", or "difference" from its neighbours' answers.

    ``fitted`` is shared by all nodes of a process: nodes that heard the same need one model of it.
    """
    from fedrelax.models.class_difference import ClassDifferenceModel

    model = adapt(given, task)
    if update != "difference":
        return model
    kind = ClassDifferenceModel if task.is_classification else DifferenceModel
    if isinstance(model, Viewed):
        return Viewed(kind(model.inner, fitted), model.view)
    return kind(model, fitted)


def drawn(terms: Sequence[Rows], seed: int) -> list[Rows]:
    """Return some of the rows with the weight of an own row each, as many as they weigh together.

    That is much faster than a fit to all of them: scikit-learn's boosting, for one, spends most of its time
    on weighted quantiles of columns. More weight than there are rows stays as it is.
    """
    rows = stack(terms)
    total = float(rows.weight.sum())
    count = round(total)
    if count >= len(rows):
        return list(terms)
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(len(rows), count, replace=False, p=rows.weight / total))
    return [replace(rows.some(chosen), weight=np.ones(count))] if count else []


def suits(models: Iterable[LocalModel]) -> bool:
    """Tell whether nodes with these models do better to learn their difference than to refit.

    Where all are convex they do not: a refit has a closed form and may couple levels less than slopes. Over
    five tables with 20, 50 and 200 rows per node, ridge regressions that learned their difference had 1.08
    times the error of refitted ones (alpha and level by folds). Nor do scikit-learn's nets: 1.12 times, on
    three tables with 50 rows per node.
    """
    every = list(models)
    able = all(
        model.learns_difference and not _is_positive(model) and not _is_net(model.estimator)
        for model in every
    )
    return able and not all(model.settles for model in every)


def _is_net(estimator: Any) -> bool:
    """Tell whether this is, or wraps, one of scikit-learn's nets."""
    parts = [estimator, *getattr(estimator, "get_params", dict)().values()]
    return any(type(part).__module__.startswith("sklearn.neural_network") for part in parts)


def _is_positive(model: LocalModel) -> bool:
    """Tell whether a model fits positive numbers only."""
    step = last_step(model.estimator)
    settings = [getattr(step, name, "") for name in ("criterion", "loss", "objective")]
    words = " ".join(map(str, [type(step).__name__, *settings])).lower()
    return any(word in words for word in POSITIVE)


def learning_again(fitted: LocalModel) -> LocalModel:
    """Return a model that was saved as one that can learn its difference anew."""
    if isinstance(fitted, Viewed):
        return Viewed(learning_again(fitted.inner), fitted.view)
    estimator = fitted.estimator
    kind = estimator.kind_ if hasattr(estimator, "consensus_") else clone(estimator)
    made = local_model(kind, fitted.task, "difference")
    assert isinstance(made, DifferenceModel)
    made.parts = (fitted,)
    return made


def _straight(model: LocalModel) -> LocalModel | None:
    """Return least squares for a linear model, whose neighbours' mean is a line that needs no penalty."""
    estimator = model.estimator
    if not model.settles or hasattr(estimator, "steps"):
        return None
    return adapt(LinearModel(fit_intercept=estimator.fit_intercept), model.task)


def _boosted(model: LocalModel, rows: int) -> LocalModel | None:
    """Return boosting for a tree or forest: the mean of several is finer than one of the same size.

    Single trees of few rows, which are coarse themselves, do without.
    """
    kinds = BaseDecisionTree | BaseForest if rows >= FEW_ROWS else BaseForest
    if not isinstance(last_step(model.estimator), kinds) or model.task.n_outputs > 1:
        return None
    finer = HistGradientBoostingRegressor(
        max_iter=40,
        learning_rate=0.3,
        max_leaf_nodes=31,
        min_samples_leaf=5,
        early_stopping=False,
    )
    return changed(model, finer)


def changed(model: LocalModel, change: Any) -> LocalModel:
    """Return an unfitted model with other settings, a dict, or another estimator in the last step."""
    if change == {}:
        return model
    estimator = clone(model.estimator)
    if isinstance(change, dict):
        last_step(estimator).set_params(**change)
    elif last_step(estimator) is not estimator:
        estimator.set_params(**{estimator.steps[-1][0]: change})
    else:
        estimator = change
    return adapt(estimator, model.task)
