"""The adapter for boosting libraries: their scikit-learn classes as local models."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyClassifier
from sklearn.utils.validation import check_is_fitted

from fedrelax.errors import FedRelaxError
from fedrelax.extras import need
from fedrelax.models.base import MostLikelyClass, Task, some
from fedrelax.models.criteria import ABSOLUTE, LOG, SQUARED, last_step, package_of
from fedrelax.models.scikit import UNROUTED, ScikitModel, fresh
from fedrelax.typing import AnyArray, FloatArray, Model

CRITERIA = {
    "reg:squarederror": SQUARED,
    "regression": SQUARED,
    "reg:absoluteerror": ABSOLUTE,
    "regression_l1": ABSOLUTE,
}
LIBRARIES = ("xgboost", "lightgbm")


def is_boosted(estimator: Model) -> bool:
    """Whether an estimator, or the last step of a pipeline, comes from a boosting library."""
    return package_of(last_step(estimator)) in LIBRARIES


@dataclass(eq=False, repr=False)
class CodedClassifier(MostLikelyClass, BaseEstimator):  # type: ignore[misc]
    """Any labels for a classifier that accepts only 0 to k - 1, as that of XGBoost does.

    estimator : the classifier that gets the codes; after ``fit`` it is ``estimator_``.
    """

    estimator: Model
    classes_: AnyArray = field(init=False)

    def fit(self, X: AnyArray, y: AnyArray, **arguments: Any) -> Self:
        """Fit the estimator to codes; ``arguments`` are passed to its ``fit``."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.estimator_ = self.estimator.fit(X, codes, **arguments)
        return self

    def predict_proba(self, X: AnyArray) -> FloatArray:
        """Return class probabilities in the order of ``classes_``."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict_proba(X))


class BoostModel(ScikitModel):
    """A model of XGBoost or LightGBM.

    Every fit uses one thread and starts afresh. XGBoost's classifiers become a ``CodedClassifier``.
    """

    def __init__(self, estimator: Model, task: Task) -> None:
        super().__init__(estimator, task)
        step = last_step(estimator)
        if task.is_classification:
            self.fits = LOG
        else:
            asked = step.get_params()["objective"] or "regression"
            self.fits = CRITERIA.get(asked) if isinstance(asked, str) else None
        if task.n_outputs > 1 and not task.is_classification and "LGBM" in self.name:
            raise FedRelaxError(
                f"{self.name} predicts one number per row and the target has {task.n_outputs}; wrap "
                "it in sklearn.multioutput.MultiOutputRegressor"
            )

    def forgets(self, continued: bool) -> bool:
        """Every fit starts afresh: more trees on top of those for other targets help no round."""
        return True

    def _fit_estimator(
        self, X: AnyArray, y: AnyArray, weight: FloatArray, seed: int, continued: bool
    ) -> Model:
        classify = self.task.is_classification
        alike = isinstance(X, np.ndarray) and bool((X[0] == X).all())
        if classify and alike:
            return DummyClassifier(strategy="prior").fit(X, y, weight)
        if len(X) == 1:  # LightGBM refuses a single row; two copies of half its weight are the same
            X, y, weight = some(X, np.array([0, 0])), y[[0, 0]], weight[[0, 0]] / 2
        estimator = fresh(self._template, seed)
        inner = last_step(estimator)
        inner.set_params(n_jobs=1)
        arguments: dict[str, Any] = {}
        if self._weight_argument is not None:
            arguments[self._weight_argument] = weight
        if classify and type(inner).__name__.startswith("XGB"):
            estimator = CodedClassifier(estimator)
        with config_context(**UNROUTED):
            return estimator.fit(X, y, **arguments)


# The models of the command line


def xgboost(classify: bool) -> Model:
    """Return few shallow trees with small leaves, since nodes have few rows."""
    library = need("xgboost", "boost")
    kind = library.XGBClassifier if classify else library.XGBRegressor
    least = 0.1 if classify else 0.5
    return kind(n_estimators=40, max_depth=3, learning_rate=0.15, min_child_weight=least)


def lightgbm(classify: bool) -> Model:
    """Return few shallow trees with small leaves: LightGBM's defaults find no split in 20 rows."""
    library = need("lightgbm", "boost")
    kind = library.LGBMClassifier if classify else library.LGBMRegressor
    return kind(
        n_estimators=40,
        num_leaves=8,
        learning_rate=0.15,
        min_child_samples=3,
        min_data_in_bin=1,
        verbosity=-1,
    )
