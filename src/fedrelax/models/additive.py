"""Sums of fitted models: of two, and of a first one and regressors that each add to what came before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.utils import get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from fedrelax.linear.arrays import softmax
from fedrelax.models.base import MostLikelyClass
from fedrelax.models.scikit import class_probabilities
from fedrelax.typing import AnyArray, FloatArray

ODDS, MIXTURE = "log-odds", "mixture"
SMALLEST = 1e-6
"""Probabilities are clipped here before their logarithm is taken."""
BEYOND = 0.25
"""The share of the target's range by which a first model's predictions may lie beyond it."""
FARTHEST = 4.0
"""The most that one row may ask of a log-odds in one step."""
NO_SETS = np.zeros((0, 8), dtype=np.uint32)
"""The sets of categories that trees without any sort by."""


# Sums of two models


class _Sum(BaseEstimator):  # type: ignore[misc]
    """What sums of two regressors and of two classifiers have in common."""

    def __init__(self, consensus: Any, difference: Any, share: float = 1.0) -> None:
        self.consensus = consensus
        self.difference = difference
        self.share = share

    @classmethod
    def of(cls, consensus: Any, difference: Any, share: float, kind: Any = None) -> Self:
        """Return the sum of two fitted models; ``kind`` is the unfitted model that both come from."""
        made = cls(consensus, difference, share)
        made.consensus_, made.difference_, made.kind_ = consensus, difference, kind
        if hasattr(consensus, "n_features_in_"):
            made.n_features_in_ = consensus.n_features_in_
        return made

    def _checked(self, X: AnyArray, y: AnyArray, **checks: Any) -> tuple[AnyArray, AnyArray]:
        finite = "allow-nan" if get_tags(self).input_tags.allow_nan else True
        X, y = validate_data(self, X, y, ensure_all_finite=finite, **checks)
        return X, y

    def __sklearn_tags__(self) -> Any:
        tags, parts = super().__sklearn_tags__(), (self.consensus, self.difference)
        tags.input_tags.allow_nan = all(get_tags(part).input_tags.allow_nan for part in parts)
        return tags


class SumRegressor(RegressorMixin, _Sum):  # type: ignore[misc]
    """The sum of two regressors: ``consensus``, and ``share`` times ``difference``.

    ``fit`` fits the first to the rows and the second to what is left. A network fits both by itself and
    hands out the fitted parts as ``consensus_`` and ``difference_``.
    """

    def fit(self, X: AnyArray, y: AnyArray) -> Self:
        """Fit the consensus to all rows, and the difference to its residuals."""
        X, y = self._checked(X, y, y_numeric=True)
        self.consensus_ = clone(self.consensus).fit(X, y)
        self.difference_ = clone(self.difference).fit(X, y - self.consensus_.predict(X))
        return self

    def predict(self, X: AnyArray) -> FloatArray:
        """Return the sum of both predictions."""
        check_is_fitted(self)
        return np.asarray(self.consensus_.predict(X) + self.share * self.difference_.predict(X))


class SumClassifier(MostLikelyClass, _Sum):
    """The sum of two classifiers: ``consensus``, and ``share`` times ``difference``.

    how : "log-odds" multiplies the probabilities p of the consensus by q^share, q those of the difference;
        "mixture" takes (1 - share) p + share q.

    ``fit`` fits both to the rows. A network fits them by itself, the second to what the first leaves open,
    and hands out the fitted parts as ``consensus_`` and ``difference_``.
    """

    def __init__(
        self, consensus: Any, difference: Any, share: float = 0.5, how: str = MIXTURE
    ) -> None:
        super().__init__(consensus, difference, share)
        self.how = how

    def fit(self, X: AnyArray, y: AnyArray) -> Self:
        """Fit both classifiers to all rows."""
        X, y = self._checked(X, y)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        self.consensus_ = clone(self.consensus).fit(X, y)
        self.difference_ = clone(self.difference).fit(X, y)
        return self

    def predict_proba(self, X: AnyArray) -> FloatArray:
        """Return class probabilities in the order of ``classes_``."""
        check_is_fitted(self)
        parts = self.consensus_, self.difference_
        p, q = (class_probabilities(part, X, self.classes_) for part in parts)
        return combined(p, q, self.share, self.how)


def combined(p: FloatArray, q: FloatArray, share: float, how: str) -> FloatArray:
    """Return the probabilities of a sum of log-odds, or of a mixture.

    >>> combined(np.array([[0.5, 0.5]]), np.array([[0.8, 0.2]]), 1.0, "log-odds").round(3).tolist()
    [[0.8, 0.2]]
    """
    if how == MIXTURE:
        return np.asarray((1.0 - share) * p + share * q)
    return softmax(log_odds(p) + share * log_odds(q))


def log_odds(p: FloatArray) -> FloatArray:
    """Return logarithms of probabilities, of which none is 0."""
    return np.asarray(np.log(np.clip(p, SMALLEST, None)))


# Sums of many models


def scores_of(model: Any, X: AnyArray) -> FloatArray:
    """Return a model's scores (rows, k): numbers, log-odds of two classes, or logarithms of several."""
    if not hasattr(model, "predict_proba"):
        return np.asarray(model.predict(X), dtype=float).reshape(len(X), 1)
    logs = log_odds(model.predict_proba(X))
    return np.asarray(logs[:, 1:] - logs[:, :1] if logs.shape[1] == 2 else logs)


def probabilities(scores: FloatArray) -> FloatArray:
    """Return class probabilities; a single column scores the second of two classes."""
    if scores.shape[1] == 1:
        scores = np.column_stack([np.zeros(len(scores)), scores[:, 0]])
    return softmax(scores)


def newton_step(
    target: FloatArray, scores: FloatArray, classes: bool
) -> tuple[FloatArray, FloatArray]:
    """Return what is missing from the scores (rows, k), and how much each entry of that weighs.

    For numbers the residual; for classes one step of Newton's method on the log loss, (y - p) / (p (1 - p))
    with weight p (1 - p), as in LogitBoost.
    """
    if not classes:
        return target - scores, np.ones_like(scores)
    p = probabilities(scores)
    p, target = (p[:, 1:], target[:, 1:]) if scores.shape[1] == 1 else (p, target)
    weight = np.maximum(p * (1.0 - p), 1e-3)
    return np.clip((target - p) / weight, -FARTHEST, FARTHEST), weight


class BoostedTrees(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """The trees of scikit-learn's boosting for numbers, in one array: hundreds are saved as quickly as one.

    ``nodes_`` holds the nodes of all trees, which end at ``ends_``; ``level_`` is added to their sum.
    """

    @classmethod
    def of(cls, models: Sequence[HistGradientBoostingRegressor]) -> Self:
        """Return the sum of fitted models without categories."""
        made = cls()
        trees = [stage[0].nodes for model in models for stage in model._predictors]  # noqa: SLF001
        made.nodes_, made.ends_ = np.concatenate(trees), np.cumsum([len(tree) for tree in trees])
        made.level_ = sum(float(model._baseline_prediction.item()) for model in models)  # noqa: SLF001
        made.n_features_in_ = models[0].n_features_in_
        return made

    def fit(self, X: AnyArray, y: AnyArray) -> Self:
        """Fit scikit-learn's boosting as it is set by default."""
        X, y = validate_data(self, X, y, y_numeric=True)
        self.__dict__ |= vars(self.of([HistGradientBoostingRegressor(random_state=0).fit(X, y)]))
        return self

    def trees(self) -> list[TreePredictor]:
        """Return every tree as scikit-learn predicts with it."""
        return [
            TreePredictor(nodes, NO_SETS, NO_SETS)
            for nodes in np.split(self.nodes_, self.ends_[:-1])
        ]

    def predict(self, X: AnyArray) -> FloatArray:
        """Return the sum of all trees."""
        check_is_fitted(self)
        X = np.ascontiguousarray(validate_data(self, X, reset=False), dtype=np.float64)
        total = np.full(len(X), self.level_)
        for tree in self.trees():
            total += tree.predict(X, NO_SETS, NO_SETS[:, 0], 1)
        return total


class AdditiveRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """The sum of regressors; ``fit`` fits each to what those before it leave open.

    The first one's predictions are held within a quarter of the target's range beyond it: what a line says
    of a row far outside all others is no basis to add to.

    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> model = AdditiveRegressor((Ridge(1e-6), DecisionTreeRegressor(max_depth=4))).fit(X, X[:, 0] ** 2)
    >>> bool(model.score(X, X[:, 0] ** 2) > 0.99)
    True
    """

    def __init__(self, parts: Sequence[Any] = ()) -> None:
        self.parts = parts

    @classmethod
    def of(cls, parts: Sequence[Any], n_features: int, limits: tuple[float, float]) -> Self:
        """Return the sum of fitted regressors."""
        made = cls(tuple(parts))
        made.parts_, made.n_features_in_, made.limits_ = tuple(parts), n_features, limits
        return made

    def fit(self, X: AnyArray, y: AnyArray) -> Self:
        """Fit every regressor to what those before it leave open."""
        X, y = validate_data(self, X, y, y_numeric=True)
        beyond = BEYOND * float(np.ptp(y))
        self.limits_ = float(np.min(y)) - beyond, float(np.max(y)) + beyond
        self.parts_: tuple[Any, ...] = ()
        left = y
        for part in self.parts:
            self.parts_ = (*self.parts_, clone(part).fit(X, left))
            left = y - self._sum(X)
        return self

    def predict(self, X: AnyArray) -> FloatArray:
        """Return the sum of all predictions."""
        check_is_fitted(self)
        return self._sum(validate_data(self, X, reset=False))

    def _sum(self, X: AnyArray) -> FloatArray:
        total = np.clip(self.parts_[0].predict(X), *self.limits_)
        return np.asarray(sum((part.predict(X) for part in self.parts_[1:]), total), dtype=float)


class AdditiveClassifier(MostLikelyClass, BaseEstimator):  # type: ignore[misc]
    """A classifier, and regressors that add to its log-odds.

    ``fit`` fits ``regressor`` ``steps`` times to Newton's step on the log loss. A network fits all parts
    itself and hands them out as ``first_`` and ``parts_``, each of which has a regressor for every score.
    """

    def __init__(self, first: Any, regressor: Any, steps: int = 1) -> None:
        self.first = first
        self.regressor = regressor
        self.steps = steps

    @classmethod
    def of(cls, first: Any, parts: Sequence[Sequence[Any]]) -> Self:
        """Return the sum of a fitted classifier and fitted regressors."""
        made = cls(first, clone(parts[0][0]) if parts else None, len(parts))
        made.first_, made.parts_ = first, tuple(tuple(part) for part in parts)
        made.classes_, made.n_features_in_ = first.classes_, first.n_features_in_
        return made

    def fit(self, X: AnyArray, y: AnyArray) -> Self:
        """Fit the classifier, and add to it step by step."""
        X, y = validate_data(self, X, y)
        check_classification_targets(y)
        self.first_ = clone(self.first).fit(X, y)
        self.parts_: tuple[tuple[Any, ...], ...] = ()
        self.classes_ = self.first_.classes_
        target = (y[:, None] == self.classes_).astype(float)
        for _ in range(self.steps):
            aims, weights = newton_step(target, self._scores(X), classes=True)
            step = tuple(
                clone(self.regressor).fit(X, aim, sample_weight=weight)
                for aim, weight in zip(aims.T, weights.T, strict=True)
            )
            self.parts_ = (*self.parts_, step)
        return self

    def _scores(self, X: AnyArray) -> FloatArray:
        scores = scores_of(self.first_, X)
        for part in self.parts_:
            scores = scores + np.column_stack([model.predict(X) for model in part])
        return scores

    def predict_proba(self, X: AnyArray) -> FloatArray:
        """Return class probabilities in the order of ``classes_``."""
        check_is_fitted(self)
        return probabilities(self._scores(validate_data(self, X, reset=False)))
