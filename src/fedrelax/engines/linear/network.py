"""Networks of linear models as stacked arrays: which can be, and plain models made from arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression, Ridge

from fedrelax.errors import FedRelaxError
from fedrelax.linear.arrays import nonzero
from fedrelax.linear.problem import NodeRows
from fedrelax.losses import Squared
from fedrelax.models import LinearModel, LocalModel, Rows, ScikitModel, SoftmaxModel, Task, adapt
from fedrelax.models.linear import LinearNode
from fedrelax.network import Network, StackedRows
from fedrelax.network.rows import Lookup
from fedrelax.typing import AnyArray, FloatArray, IntArray, Label, Model, SparseMatrix

EXACT_SOLVERS = ("auto", "svd", "cholesky")
"""Settings of ``Ridge(solver=)`` that do not stop early."""
WIDE = 1500
"""Columns above which a matrix of columns x columns for every node costs more than it saves."""


@dataclass(frozen=True)
class Coordinates:
    """Features as ``(x - centre) / scale``, common to all nodes; the models stay the same.

    Gram matrices of such rows keep digits that raw ones may lose. A model u in these
    coordinates is ``coef = u / scale`` and ``intercept = u_last - centre' coef``.
    """

    centre: FloatArray
    scale: FloatArray
    intercept: bool

    @classmethod
    def standard(cls, X: FloatArray, intercept: bool) -> Coordinates:
        """Return coordinates of size 1 and, with an intercept, mean 0 (without one, zero is special)."""
        centre = X.mean(axis=0) if intercept else np.zeros(X.shape[1])
        moved = X - centre if intercept else X
        scale = np.sqrt(np.einsum("rf,rf->f", moved, moved) / len(X))
        constant = scale <= 1e-12 * np.abs(centre)
        scale[constant] = np.abs(X[:, constant]).max(axis=0, initial=0.0)
        return cls(centre, nonzero(scale), intercept)

    def rows(self, X: FloatArray) -> FloatArray:
        """Return rows in these coordinates."""
        if not self.centre.any():
            return np.asarray(X / self.scale)
        moved: FloatArray = X - self.centre
        moved /= self.scale
        return moved

    def back(self, U: FloatArray) -> FloatArray:
        """Return models (n, d, q) in raw coordinates, the intercept last if there is one."""
        f = len(self.scale)
        W = U.copy()
        W[:, :f] /= self.scale[:, None]
        if self.intercept:
            W[:, f] -= np.einsum("f,nfq->nq", self.centre, W[:, :f])
        return W

    def forth(self, W: FloatArray) -> FloatArray:
        """Return models (n, d, q), given in raw coordinates, in these."""
        f = len(self.scale)
        U = W.copy()
        if self.intercept:
            U[:, f] += np.einsum("f,nfq->nq", self.centre, W[:, :f])
        U[:, :f] *= self.scale[:, None]
        return U


class LinearNetwork:
    """Everything the linear and softmax engines take from a network, as stacked arrays."""

    def __init__(self, network: Network) -> None:
        self.labels, self.task, public = network.labels, network.task, network.public
        self.edges: SparseMatrix = network.graph.adjacency
        self.kinds, models = list(network.distinct_models.values()), network.models
        """The distinct model objects."""
        self.codes: IntArray = np.zeros(len(models), dtype=np.int64)
        """The index of every node's model in ``kinds``."""
        if len(self.kinds) > 1:
            number = {id(kind): k for k, kind in enumerate(self.kinds)}
            self.codes = np.array([number[id(model)] for model in models])
        own, held = network.own_rows, network.validation_rows
        self.own = replace(own, y=self.task.encode(own.y))
        if held is None:
            held = StackedRows(own.X[:0], own.y[:0], np.zeros_like(own.offsets))
        self.validation = replace(held, y=self.task.encode(held.y))
        self.public: FloatArray
        self.public_offsets: IntArray | None = None
        """Which public rows each node has; None for one common set."""
        if public.common is not None:
            self.public = public.common
        else:
            sets = [public.of(label) for label in self.labels]
            self.public = np.concatenate(sets)
            self.public_offsets = np.cumsum([0, *map(len, sets)], dtype=np.int64)
        self.intercept = bool(self.kinds[0].fit_intercept)
        """Whether the models have an intercept; either all do or none."""
        self.n_weights = int(own.X.shape[1]) + self.intercept
        """The number of weights of a model per output, including the intercept."""

    def per_node(self, value: Callable[[Model], object]) -> AnyArray:
        """Return ``value`` of every node's model, a number or array, computed once per model object."""
        return np.array([value(kind) for kind in self.kinds])[self.codes]

    def node_rows(self, rows: StackedRows, coordinates: Coordinates | None = None) -> NodeRows:
        """Return rows in these coordinates, with a constant column if the models have an intercept."""
        X = rows.X if coordinates is None else coordinates.rows(rows.X)
        return NodeRows(X, rows.y, rows.offsets, intercept=self.intercept)

    @cached_property
    def ridge(self) -> FloatArray:
        """The factor of each squared coefficient, (n, features)."""
        features = self.own.X.shape[1]
        return self.per_node(lambda model: ridge_of(model, features))

    def fitted(self, weights: FloatArray) -> Mapping[Label, LocalModel]:
        """Return models with these weights (n, d, q), made on demand."""
        return FittedModels(self.labels, self.kinds, self.codes, self.task, weights)


class FittedLinear(LocalModel):
    """A least-squares estimator with its weights set; predictions use these directly."""

    fits = frozenset({"squared"})
    settles = True

    def fit(self, terms: Sequence[Rows], *, seed: int, continued: bool = False) -> LocalModel:
        """Fit with the general adapter."""
        return adapt(self._estimator, self.task).fit(terms, seed=seed, continued=continued)

    def predict(self, X: AnyArray) -> FloatArray:
        """Return x' coef + intercept as (rows, outputs)."""
        fitted = self._estimator
        answer = np.asarray(X, dtype=float) @ np.atleast_2d(fitted.coef_).T + fitted.intercept_
        return np.asarray(answer).reshape(len(X), self.task.n_outputs)


class FittedModels(Lookup[LocalModel]):
    """The models of all nodes, made on demand from their weights (n, d, q), the intercept last if any.

    Node i's model is of the kind ``kinds[codes[i]]``.
    """

    def __init__(
        self,
        labels: Iterable[Label],
        kinds: Sequence[Model],
        codes: IntArray,
        task: Task,
        weights: FloatArray,
    ) -> None:
        self._number = {label: i for i, label in enumerate(labels)}
        super().__init__(self._number, self._fitted)
        self._kinds = [(type(kind), kind.get_params(deep=False)) for kind in kinds]
        self._codes, self._task, self._weights = codes, task, weights

    def _fitted(self, label: Label) -> LocalModel:
        """Set weights (d, q) on a new estimator, in the shapes that its own ``fit`` would give them."""
        i, task = self._number[label], self._task
        kind, parameters = self._kinds[self._codes[i]]
        estimator, weights = kind(**parameters), self._weights[i]
        q = weights.shape[1]
        features = len(weights) - bool(estimator.fit_intercept)
        coef = np.ascontiguousarray(weights[:features].T)
        intercept: Any = weights[-1].copy() if estimator.fit_intercept else np.zeros(q)
        estimator.n_features_in_ = features
        if isinstance(estimator, SoftmaxModel):
            assert task.classes is not None
            estimator.coef_, estimator.intercept_, estimator.classes_ = (
                coef,
                intercept,
                task.classes,
            )
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


def unsupported_models(
    models: Mapping[Label, Model],
    check: Callable[[Model], str | None] | None = None,
    kind: str = "regression",
) -> str | None:
    """Return which node's model ``check`` refuses or has another intercept setting, or None.

    By default, models must be linear least squares.
    """
    task = Task(kind, 1) if kind == "regression" else Task(kind, 2, np.arange(2))
    intercepts = {label: getattr(model, "fit_intercept", None) for label, model in models.items()}
    first = next(iter(models))
    for label, model in models.items():
        reason = (check or _reason_in_model)(model) or _reason_in_adapter(model, task)
        if reason is not None:
            return f"node {label!r}: {reason}"
        if bool(intercepts[label]) != bool(intercepts[first]):
            return (
                f"node {label!r} has fit_intercept={intercepts[label]} and node {first!r} has "
                f"fit_intercept={intercepts[first]}"
            )
    return None


def _reason_in_adapter(model: Model, task: Task) -> str | None:
    try:
        adapted: LocalModel = adapt(model, task)
    except FedRelaxError as error:
        return str(error)
    if type(adapted) not in (ScikitModel, LinearNode):
        return f"{type(model).__name__} has its own adapter, {type(adapted).__name__}"
    return None


def unsupported_shape(network: Network) -> str | None:
    """Return why the rows, alike at all nodes, are not rows of features, or None."""
    first = next(iter(network))
    plain = first.X.ndim == 2
    return None if plain else f"node {first.label!r}: its rows have the shape {first.X.shape[1:]}"


def unsupported_rows(network: Network) -> str | None:
    """Return why the rows are not rows of features, or of too many for linear models, or None."""
    reason = unsupported_shape(network)
    if reason is not None:
        return reason
    first, models = next(iter(network)), network.distinct_models.values()
    if first.X.shape[1] > WIDE and all(isinstance(m, Ridge | LinearRegression) for m in models):
        return (
            f"{first.X.shape[1]} columns are more than {WIDE}, where scikit-learn's own solver is faster: "
            "it has as many unknowns as there are rows"
        )
    return None


def ridge_of(model: Model, features: int) -> FloatArray:
    """Return the factor of each ``coef^2``, relative to a sum over own rows of weight 1."""
    if isinstance(model, LinearModel | SoftmaxModel):
        return model.penalties(features)
    return np.full(features, float(model.alpha) if isinstance(model, Ridge) else 0.0)


def _reason_in_model(model: Model) -> str | None:
    reason = None
    if type(model) not in (LinearRegression, Ridge, LinearModel):
        return f"{type(model).__name__} is not LinearRegression, Ridge or LinearModel"
    penalty = {Ridge: "alpha", LinearModel: "ridge"}.get(type(model))
    value, loss = getattr(model, penalty or "", 0.0), getattr(model, "loss", "squared")
    if getattr(model, "positive", False):
        reason = "positive=True"
    elif isinstance(model, Ridge) and model.solver not in EXACT_SOLVERS:
        reason = f"solver={model.solver!r}, which stops at its own tolerance"
    elif not (loss == "squared" or isinstance(loss, Squared)):
        reason = f"loss={loss!r}"
    elif not (isinstance(value, Real) and 0 <= float(value) < math.inf):
        reason = f"{penalty}={value!r}, not one number of at least 0"
    return None if reason is None else f"{type(model).__name__} has {reason}"
