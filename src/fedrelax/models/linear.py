"""Our own linear models: exact for every loss, and able to mix two losses in one objective."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from fedrelax.errors import FedRelaxError
from fedrelax.linear.arrays import nonzero, softmax, with_constant
from fedrelax.linear.softmax import (
    MANY_CLASSES,
    MOST_FEATURES,
    MOST_WEIGHTS,
    SoftmaxNodes,
    minimise_softmax,
)
from fedrelax.losses import Absolute, Log, Loss, Squared, get_loss
from fedrelax.models.base import LocalModel, MostLikelyClass, Rows, stack
from fedrelax.typing import AnyArray, FloatArray

RESTARTS = 3


class _Linear(BaseEstimator):  # type: ignore[misc]
    """What the regressor and the classifier share: x -> link(x' coef + intercept).

    The ridge term is ridge * sum_f (scale_f coef_f)^2. ``scale`` (default: all ones) is the spread of
    each feature: the penalty then does not depend on the features' units, and the inputs stay as they
    are.
    """

    def __init__(
        self,
        ridge: float = 1e-3,
        fit_intercept: bool = True,
        scale: Sequence[float] | None = None,
    ) -> None:
        self.ridge = ridge
        self.fit_intercept = fit_intercept
        self.scale = scale

    def fit_terms(self, terms: Sequence[Rows]) -> Self:
        """Minimise the sum of the terms plus ridge * |coef|^2 (the intercept is free)."""
        p = terms[0].X.shape[1]
        design = [with_constant(term.X, self.fit_intercept) for term in terms]
        penalty = np.append(self.penalties(p), np.zeros(int(self.fit_intercept)))
        weights = self._minimise(terms, design, penalty)
        self.coef_ = weights[:p].T
        self.intercept_ = weights[-1] if self.fit_intercept else np.zeros(weights.shape[1])
        self.n_features_in_ = p
        return self

    def penalties(self, features: int) -> FloatArray:
        """Return the penalty of each squared coefficient: ridge * scale^2."""
        if self.scale is None:
            return np.full(features, float(self.ridge))
        scale = np.asarray(self.scale, dtype=float)
        if scale.shape != (features,) or not (np.isfinite(scale) & (scale >= 0)).all():
            raise FedRelaxError(
                f"{type(self).__name__}(scale=...) must hold one finite number of at least 0 for "
                f"each of the {features} features, and has shape {scale.shape}"
            )
        return np.asarray(float(self.ridge) * scale**2)

    def _minimise(
        self, terms: Sequence[Rows], design: list[FloatArray], penalty: FloatArray
    ) -> FloatArray:
        raise NotImplementedError

    def _scores(self, X: AnyArray) -> FloatArray:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=float)
        return np.asarray(X @ self.coef_.T + self.intercept_)


class LinearModel(RegressorMixin, _Linear):  # type: ignore[misc]
    """Linear regression under any of our losses, with an optional ridge term.

    Squared error is solved in closed form (minimum norm where the rows do not determine the
    weights), absolute error as a linear programme, everything else by L-BFGS.

    The ridge term is ridge * sum_f (scale_f coef_f)^2 with ``scale`` all ones, or the features' spread.
    """

    def __init__(
        self,
        loss: str | Loss = "squared",
        ridge: float = 0.0,
        fit_intercept: bool = True,
        scale: Sequence[float] | None = None,
    ) -> None:
        super().__init__(ridge, fit_intercept, scale)
        self.loss = loss

    def fit(self, X: AnyArray, y: AnyArray, sample_weight: FloatArray | None = None) -> LinearModel:
        """Fit rows with optional weights."""
        X, y = validate_data(self, X, y, dtype=float, multi_output=True, y_numeric=True)
        weight = _check_sample_weight(sample_weight, X)
        loss = get_loss(self.loss, "regression")
        target = np.asarray(y, dtype=float)
        return self.fit_terms([Rows(X, target.reshape(len(X), -1), weight, loss)])

    def fit_terms(self, terms: Sequence[Rows]) -> Self:
        """Minimise the sum of the terms; one output gives a 1-D ``coef_``, as scikit-learn does."""
        super().fit_terms(terms)
        if len(self.coef_) == 1:
            self.coef_, self.intercept_ = self.coef_[0], self.intercept_[0]
        return self

    def predict(self, X: AnyArray) -> FloatArray:
        """Return x' coef + intercept."""
        return self._scores(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _minimise(
        self, terms: Sequence[Rows], design: list[FloatArray], penalty: FloatArray
    ) -> FloatArray:
        if all(isinstance(term.loss, Squared) for term in terms):
            return _least_squares(terms, design, penalty)
        if all(isinstance(term.loss, Absolute) for term in terms) and not penalty.any():
            return _least_absolute(terms, design)
        start = _least_squares(terms, design, penalty)
        return _descend(terms, design, penalty, start, link=False)


class SoftmaxModel(MostLikelyClass, _Linear):
    """Multinomial logistic regression that takes soft labels without copies of rows.

    The ridge term is that of ``LinearModel``.
    """

    def fit(
        self, X: AnyArray, y: AnyArray, sample_weight: FloatArray | None = None
    ) -> SoftmaxModel:
        """Fit labelled rows with optional weights."""
        X, y = validate_data(self, X, y, dtype=float)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        weight = _check_sample_weight(sample_weight, X)
        self.__dict__.pop("coef_", None)  # ``fit`` starts afresh; only rounds go on from the last.
        return self.fit_terms([Rows(X, np.eye(len(self.classes_))[codes], weight, Log())])

    def predict_proba(self, X: AnyArray) -> FloatArray:
        """Return class probabilities in the order of ``classes_``."""
        return softmax(self._scores(X))

    def last_weights(self, shape: tuple[int, int]) -> FloatArray:
        """Return the present weights to start from, or zeros before the first fit."""
        weights = np.zeros(shape)
        if hasattr(self, "coef_"):
            own = np.vstack([self.coef_.T, self.intercept_])
            own = own if self.fit_intercept else own[:-1]
            weights = own if own.shape == shape else weights
        return weights

    def _minimise(
        self, terms: Sequence[Rows], design: list[FloatArray], penalty: FloatArray
    ) -> FloatArray:
        shape = (design[0].shape[1], terms[0].target.shape[1])
        start = self.last_weights(shape)
        many = shape[1] >= MANY_CLASSES and shape[0] <= MOST_FEATURES
        large = start.size > MOST_WEIGHTS and not many
        if large or not all(isinstance(term.loss, Log) for term in terms):
            return _descend(terms, design, penalty, start, link=True)
        target = np.concatenate([term.target for term in terms])
        weight = np.concatenate([term.weight for term in terms])
        offsets = [term.offset for term in terms if term.offset is not None]
        total = target.sum(axis=1)
        node = SoftmaxNodes(
            np.concatenate(design)[None],
            (target / nonzero(total)[:, None])[None],
            (weight * total)[None],
            penalty[None],
            np.concatenate(offsets)[None] if offsets else None,
        )
        return np.asarray(minimise_softmax(node, start[None])[0])


class LinearNode(LocalModel):
    """``LinearModel`` or ``SoftmaxModel`` at a node: exact updates, any pair of losses."""

    gradients = settles = recalls = learns_difference = True

    def forgets(self, continued: bool) -> bool:
        """Regression starts from least squares, classification from its last weights."""
        return isinstance(self._estimator, LinearModel)

    def memory(self) -> dict[str, AnyArray]:
        """Return the weights."""
        return {"coef": self._estimator.coef_, "intercept": self._estimator.intercept_}

    def remembering(self, memory: dict[str, AnyArray]) -> LinearNode:
        """Return the model with these weights."""
        estimator: Any = copy.deepcopy(self._estimator)
        coef, intercept = memory["coef"], memory["intercept"]
        if coef.shape != estimator.coef_.shape or intercept.shape != estimator.intercept_.shape:
            raise FedRelaxError(f"the weights of {self.name} have another shape")
        estimator.coef_, estimator.intercept_ = coef, intercept
        return LinearNode(estimator, self.task)

    def fit(self, terms: Sequence[Rows], *, seed: int, continued: bool = False) -> LinearNode:
        """Return the minimiser of the sum of the terms."""
        estimator: Any = copy.deepcopy(self._estimator)
        if self.task.classes is not None:
            estimator.classes_ = self.task.classes
        losses = {term.loss for term in terms}
        estimator.fit_terms([stack(terms)] if len(losses) == 1 else terms)
        return LinearNode(estimator, self.task)

    def predict(self, X: AnyArray) -> FloatArray:
        """Return numbers or class probabilities."""
        if isinstance(self._estimator, SoftmaxModel):
            return self._estimator.predict_proba(X)
        return np.asarray(self._estimator.predict(X).reshape(len(X), -1))


def _least_squares(
    terms: Sequence[Rows], design: list[FloatArray], penalty: FloatArray
) -> FloatArray:
    scale = [np.sqrt(term.weight)[:, None] for term in terms]
    A = np.vstack([s * X for s, X in zip(scale, design, strict=True)])
    b = np.vstack([s * term.target for s, term in zip(scale, terms, strict=True)])
    if penalty.any():
        A = np.vstack([A, np.diag(np.sqrt(penalty))])
        b = np.vstack([b, np.zeros((len(penalty), b.shape[1]))])
    return np.asarray(np.linalg.lstsq(A, b, rcond=None)[0])


def _least_absolute(terms: Sequence[Rows], design: list[FloatArray]) -> FloatArray:
    """Minimise sum_r weight_r |y_r - x_r w|, a linear programme."""
    from sklearn.linear_model import QuantileRegressor

    X = np.vstack(design)
    y = np.vstack([term.target for term in terms])
    weight = np.concatenate([term.weight for term in terms])
    columns = [
        QuantileRegressor(alpha=0.0, fit_intercept=False).fit(X, column, weight).coef_
        for column in y.T
    ]
    return np.stack(columns, axis=1)


def _descend(
    terms: Sequence[Rows],
    design: list[FloatArray],
    penalty: FloatArray,
    start: FloatArray,
    link: bool,
) -> FloatArray:
    """Minimise sum of terms + penalty by L-BFGS; with ``link``, predictions are softmax(X W)."""

    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        W = flat.reshape(start.shape)
        value = float((penalty[:, None] * W * W).sum())
        slope = 2.0 * penalty[:, None] * W
        for term, X in zip(terms, design, strict=True):
            scores, target, weight = X @ W, term.target, term.weight[:, None]
            if term.offset is not None:
                scores = scores + term.offset
            if link and isinstance(term.loss, Log):
                logs = log_softmax(scores, axis=1)
                value -= float((weight * target * logs).sum())
                pull = np.exp(logs) * target.sum(axis=1, keepdims=True) - target
            else:
                prediction = softmax(scores) if link else scores
                value += float(term.weight @ term.loss.per_row(target, prediction))
                pull = term.loss.gradient(target, prediction)
                if link:
                    pull = prediction * (pull - (pull * prediction).sum(axis=1, keepdims=True))
            slope += X.T @ (weight * pull)
        return value, slope.ravel()

    large = start.size > MOST_WEIGHTS  # There the last digits cost minutes.
    options = {"maxiter": 2000, "maxfun": 5000, "ftol": 0.0, "gtol": 1e-10}
    if large:
        options |= {"ftol": 1e-10, "gtol": 1e-6}
    point = start.ravel()
    # Forgetting the curvature and going on gains the last digits.
    for _ in range(1 if large else RESTARTS):
        found = minimize(objective, point, jac=True, method="L-BFGS-B", options=options)
        point = found.x
        if np.abs(found.jac).max() <= 1e-9 * max(1.0, abs(found.fun)):
            break
    return np.asarray(point).reshape(start.shape)
