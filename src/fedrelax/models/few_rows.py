"""Classic models, adapted to nodes that hold only a handful of rows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import check_is_fitted, validate_data

from fedrelax.models.base import MostLikelyClass
from fedrelax.typing import AnyArray, FloatArray


class _Nearest:
    """Weighs rows by 1 / distance, and asks for no more neighbours than there are rows.

    There scikit-learn would raise an error.
    """

    n_neighbors: int
    n_samples_fit_: int

    def __init__(self, n_neighbors: int = 5) -> None:
        parent: Any = super()
        parent.__init__(n_neighbors, weights="distance")

    def kneighbors(
        self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True
    ) -> Any:
        """Return the nearest rows, at most all of them."""
        count = min(n_neighbors or self.n_neighbors, self.n_samples_fit_ - (X is None))
        parent: Any = super()
        return parent.kneighbors(X, count, return_distance)


class NearestRegressor(_Nearest, KNeighborsRegressor):  # type: ignore[misc]
    """The mean of the nearest rows, weighted by 1 / distance."""


class NearestClassifier(_Nearest, KNeighborsClassifier):  # type: ignore[misc]
    """The class shares of the nearest rows, weighted by 1 / distance."""


class SmoothedForestClassifier(RandomForestClassifier):  # type: ignore[misc]
    """A random forest that rules out no class: one more tree votes for the shares of the classes.

    With T trees, the probabilities p become (T p + s) / (T + 1), s being the shares of the classes
    among the rows: the smoothing of Laplace, with one more vote instead of one more row.

    >>> forest = SmoothedForestClassifier(4, random_state=0).fit([[0.0], [0.1], [1.0]], [0, 0, 1])
    >>> bool(forest.predict_proba([[5.0], [-5.0]]).min() > 0)
    True
    """

    def fit(self, X: Any, y: Any, sample_weight: FloatArray | None = None) -> Self:
        """Grow the forest, and a tree of a single leaf."""
        super().fit(X, y, sample_weight)
        rows, codes = np.asarray(X, dtype=np.float32), np.searchsorted(self.classes_, y)
        leaf = DecisionTreeClassifier(min_samples_split=len(codes) + 1)
        self.estimators_.append(leaf.fit(rows, codes, sample_weight))
        return self


class SupportVectorClassifier(MostLikelyClass, BaseEstimator):  # type: ignore[misc]
    """A support vector machine with class probabilities.

    The scores of ``SVC`` go through a logistic regression on the same rows. Calibrating on held-out
    folds would give less overconfident probabilities, but needs several rows of every class.
    """

    def __init__(self, C: float = 1.0) -> None:
        self.C = C

    def fit(self, X: AnyArray, y: AnyArray, sample_weight: FloatArray | None = None) -> Self:
        """Fit the machine, then a logistic regression on its scores."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.svm import SVC

        X, y = validate_data(self, X, y, dtype=float)
        self.machine_ = SVC(C=self.C).fit(X, y, sample_weight)
        self.classes_ = self.machine_.classes_
        scores = self._scores(X)
        self.probabilities_ = LogisticRegression(max_iter=200).fit(scores, y, sample_weight)
        return self

    def _scores(self, X: AnyArray) -> FloatArray:
        return np.asarray(self.machine_.decision_function(X)).reshape(len(X), -1)

    def predict_proba(self, X: AnyArray) -> FloatArray:
        """Return class probabilities in the order of ``classes_``."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=float)
        return np.asarray(self.probabilities_.predict_proba(self._scores(X)))
