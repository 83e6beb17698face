"""The adapter for boosting libraries: their scikit-learn classes as local models."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.extras import need
from fedrelax.models.base import Rows, Task, some, stack
from fedrelax.models.boost.classifier import BoostedClassifier, CodedClassifier
from fedrelax.models.boost.libraries import LIBRARIES, package_of, takes_soft_labels
from fedrelax.models.criteria import ABSOLUTE, LOG, SQUARED, last_step
from fedrelax.models.scikit import ScikitModel, fresh
from fedrelax.typing import AnyArray, FloatArray

CRITERIA = {
    "reg:squarederror": SQUARED,
    "regression": SQUARED,
    "RMSE": SQUARED,
    "reg:absoluteerror": ABSOLUTE,
    "regression_l1": ABSOLUTE,
    "MAE": ABSOLUTE,
}


def is_boosted(estimator: Any) -> bool:
    """Whether an estimator, or the last step of a pipeline, comes from a boosting library."""
    return package_of(last_step(estimator)) in LIBRARIES


class BoostModel(ScikitModel):
    """A model of XGBoost, LightGBM or CatBoost.

    Every fit uses one thread. With ``continued``, a round adds trees to those of the rounds before;
    otherwise it starts afresh. XGBoost and LightGBM classifiers are trained on soft labels directly and
    become a ``BoostedClassifier``; where that is impossible (CatBoost, a pipeline, a custom objective)
    they get K weighted copies of every row.
    """

    def __init__(self, estimator: Any, task: Task) -> None:
        super().__init__(estimator, task)
        self._library = LIBRARIES[package_of(last_step(estimator))]
        if task.n_outputs > 1 and not task.is_classification and "LGBM" in self.name:
            raise FedRelaxError(
                f"{self.name} predicts one number per row and the target has {task.n_outputs}; wrap "
                "it in sklearn.multioutput.MultiOutputRegressor"
            )

    @property
    def fits(self) -> frozenset[str] | None:
        """The loss that the objective means, if it is a known one."""
        if self.task.is_classification:
            return LOG
        settings = last_step(self._template).get_params()
        asked = settings.get("objective", settings.get("loss_function"))
        return SQUARED if asked is None else CRITERIA.get(asked) if isinstance(asked, str) else None

    @property
    def takes_soft_labels(self) -> bool:
        """Always true: boosting learns probabilities, from soft labels or from weighted copies."""
        return True

    def fit(self, terms: Sequence[Rows], *, seed: int, continued: bool = False) -> ScikitModel:
        """Return a model fitted to the stacked rows."""
        direct = self.task.is_classification and self._template is last_step(self._template)
        if not direct or not takes_soft_labels(self._template):
            return super().fit(terms, seed=seed, continued=continued)
        rows = stack(terms)
        if (rows.weight @ rows.target > 0).sum() < 2:
            return super().fit(terms, seed=seed)
        before = self._fitted if continued and isinstance(self._fitted, BoostedClassifier) else None
        fitted = copy.copy(self)
        made = BoostedClassifier(fresh(self._template, seed))
        classes: Any = self.task.classes
        fitted._fitted = made.fit_soft(rows.X, rows.target, rows.weight, classes, before)
        return fitted

    def _fit_estimator(
        self, X: AnyArray, y: AnyArray, weight: FloatArray, seed: int, continued: bool
    ) -> Any:
        import sklearn

        if len(X) == 1:  # LightGBM refuses a single row; two copies of half its weight are the same
            X, y, weight = some(X, np.array([0, 0])), y[[0, 0]], weight[[0, 0]] / 2
        estimator = fresh(self._template, seed)
        inner = last_step(estimator)
        inner.set_params(**{self._library.threads: 1})
        codes = self.task.is_classification and type(inner).__name__.startswith("XGB")
        learner = CodedClassifier(estimator) if codes else estimator
        given: dict[str, Any] = {}
        if self._weight_argument is not None:
            given[self._weight_argument] = weight
        if continued and estimator is inner and self._grows(y):
            given[self._library.grows] = getattr(self._fitted, "estimator_", self._fitted)
        # Weights are passed by name, even if an outer search has turned metadata routing on.
        with sklearn.config_context(enable_metadata_routing=False):
            return learner.fit(X, y, **given)

    def _grows(self, y: AnyArray) -> bool:
        """Whether trees for these labels can be added to the fitted ones."""
        if self._fitted is None or not self.task.is_classification:
            return self._fitted is not None
        inner = getattr(self._fitted, "estimator_", self._fitted)
        return package_of(inner) in LIBRARIES and np.array_equal(
            self._fitted.classes_, np.unique(y)
        )


# The models of the command line


def xgboost(classify: bool) -> Any:
    """Return few shallow trees with small leaves, since nodes have few rows."""
    library = need("xgboost", "boost")
    kind = library.XGBClassifier if classify else library.XGBRegressor
    least = 0.1 if classify else 0.5
    return kind(n_estimators=40, max_depth=3, learning_rate=0.15, min_child_weight=least)


def lightgbm(classify: bool) -> Any:
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
