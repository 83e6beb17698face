"""The result of a run on arrays: plain fitted estimators, made on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import Ridge

from fedrelax.models import LinearModel, LocalModel, Rows, SoftmaxModel, Task, adapt
from fedrelax.models.linear import LinearNode
from fedrelax.typing import AnyArray, FloatArray, IntArray, Label


class FittedLinear(LocalModel):
    """A least-squares estimator with its weights set; predictions use these directly."""

    def __init__(self, estimator: Any, task: Task) -> None:
        self.task = task
        self._estimator = estimator

    @property
    def estimator(self) -> Any:
        """The plain estimator."""
        return self._estimator

    @property
    def fits(self) -> frozenset[str] | None:
        """Squared error."""
        return frozenset({"squared"})

    @property
    def settles(self) -> bool:
        """Least squares is convex, so rounds settle."""
        return True

    def fit(self, terms: Sequence[Rows], *, seed: int, continued: bool = False) -> LocalModel:
        """Fit with the general adapter."""
        return adapt(self._estimator, self.task).fit(terms, seed=seed, continued=continued)

    def predict(self, X: AnyArray) -> FloatArray:
        """Return x' coef + intercept as (rows, outputs)."""
        fitted = self._estimator
        answer = np.asarray(X, dtype=float) @ np.atleast_2d(fitted.coef_).T + fitted.intercept_
        return np.asarray(answer).reshape(len(X), self.task.n_outputs)


class FittedModels(Mapping[Label, LocalModel]):
    """The models of all nodes from their weights (n, d, q), the intercept last if there is one.

    Node i's model is of the kind ``kinds[codes[i]]``.
    """

    def __init__(
        self,
        labels: tuple[Label, ...],
        kinds: Sequence[Any],
        codes: IntArray,
        task: Task,
        weights: FloatArray,
    ) -> None:
        self._labels, self._codes = labels, codes
        self._place: dict[Label, int] | None = None
        self._settings = [(type(kind), kind.get_params(deep=False)) for kind in kinds]
        self._task, self._weights = task, weights
        self._made: dict[Label, LocalModel] = {}

    def __getitem__(self, label: Label) -> LocalModel:
        if label not in self._made:
            if self._place is None:
                self._place = {name: place for place, name in enumerate(self._labels)}
            place = self._place[label]
            kind, parameters = self._settings[self._codes[place]]
            self._made[label] = _fitted(kind(**parameters), self._weights[place], self._task)
        return self._made[label]

    def __iter__(self) -> Iterator[Label]:
        return iter(self._labels)

    def __len__(self) -> int:
        return len(self._labels)


def _fitted(estimator: Any, weights: FloatArray, task: Task) -> LocalModel:
    """Set weights (d, q) on an estimator, in the shapes that its own ``fit`` would give them."""
    q = weights.shape[1]
    features = len(weights) - bool(estimator.fit_intercept)
    coef = np.ascontiguousarray(weights[:features].T)
    intercept: Any = weights[-1].copy() if estimator.fit_intercept else np.zeros(q)
    estimator.n_features_in_ = features
    if isinstance(estimator, SoftmaxModel):
        assert task.classes is not None
        estimator.coef_, estimator.intercept_, estimator.classes_ = coef, intercept, task.classes
        return LinearNode(estimator, task)
    if not (estimator.fit_intercept or isinstance(estimator, LinearModel)):
        intercept = 0.0
    if q == 1:
        coef = coef[0]
        intercept = intercept[0] if np.ndim(intercept) else intercept
    estimator.coef_, estimator.intercept_ = coef, intercept
    if isinstance(estimator, Ridge):
        estimator.n_iter_ = None
        estimator.solver_ = "svd" if estimator.solver == "svd" else "cholesky"
    return FittedLinear(estimator, task)
