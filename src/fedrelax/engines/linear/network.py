"""A network of least-squares or softmax models as stacked arrays, and plain models made from arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from sklearn.linear_model import Ridge

from fedrelax.engines.linear.checks import ridge_of
from fedrelax.linear.arrays import nonzero
from fedrelax.models import LinearModel, LocalModel, Rows, SoftmaxModel, Task, adapt
from fedrelax.models.linear import LinearNode
from fedrelax.network import Network, StackedRows
from fedrelax.network.rows import Lookup
from fedrelax.typing import AnyArray, FloatArray, IntArray, Label, Model, SparseMatrix


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


@dataclass(frozen=True)
class LinearNetwork:
    """Everything the linear and softmax engines take from a network, as stacked arrays."""

    labels: tuple[Label, ...]
    task: Task
    kinds: list[Model]
    """The distinct model objects."""
    codes: IntArray
    """The index of every node's model in ``kinds``."""
    own: StackedRows
    validation: StackedRows | None
    public: FloatArray
    public_offsets: IntArray | None
    """Which public rows each node has; None for one common set."""
    edges: SparseMatrix
    """The graph's matrix."""

    @classmethod
    def of(cls, network: Network) -> LinearNetwork:
        """Stack the nodes' rows in their order."""
        task, public = network.task, network.public
        public_rows, public_offsets = public.common, None
        if public_rows is None:
            sets = [public.of(label) for label in network.labels]
            public_rows = np.concatenate(sets)
            public_offsets = np.cumsum([0, *map(len, sets)], dtype=np.int64)
        kinds, models = list(network.distinct_models.values()), network.models
        codes = np.zeros(len(models), dtype=np.int64)
        if len(kinds) > 1:
            number = {id(kind): k for k, kind in enumerate(kinds)}
            codes = np.array([number[id(model)] for model in models])
        held = network.validation_rows
        return cls(
            labels=network.labels,
            task=task,
            kinds=kinds,
            codes=codes,
            own=replace(network.own_rows, y=task.encode(network.own_rows.y)),
            validation=None if held is None else replace(held, y=task.encode(held.y)),
            public=public_rows,
            public_offsets=public_offsets,
            edges=network.graph.adjacency,
        )

    def per_node(self, value: Callable[[Model], object]) -> AnyArray:
        """Return ``value`` of every node's model, a number or array, computed once per model object."""
        return np.array([value(kind) for kind in self.kinds])[self.codes]

    @property
    def intercept(self) -> bool:
        """Whether the models have an intercept; either all do or none."""
        return bool(self.kinds[0].fit_intercept)

    @cached_property
    def ridge(self) -> FloatArray:
        """The factor of each squared coefficient, (n, features)."""
        features = self.own.X.shape[1]
        return self.per_node(lambda model: ridge_of(model, features))

    @property
    def n_weights(self) -> int:
        """The number of weights of a model per output, including the intercept."""
        return int(self.own.X.shape[1]) + self.intercept

    def fitted(self, weights: FloatArray) -> Mapping[Label, LocalModel]:
        """Return models with these weights (n, d, q), made on demand."""
        return fitted_models(self.labels, self.kinds, self.codes, self.task, weights)


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


def fitted_models(
    labels: tuple[Label, ...],
    kinds: Sequence[Model],
    codes: IntArray,
    task: Task,
    weights: FloatArray,
) -> Mapping[Label, LocalModel]:
    """Return the models of all nodes from their weights (n, d, q), the intercept last if there is one.

    Node i's model is of the kind ``kinds[codes[i]]``.
    """
    settings = [(type(kind), kind.get_params(deep=False)) for kind in kinds]
    number = {label: i for i, label in enumerate(labels)}
    return Lookup(number, partial(_fitted, settings, codes, task, weights, number))


def _fitted(
    settings: Sequence[tuple[Any, dict[str, Any]]],
    codes: IntArray,
    task: Task,
    all_weights: FloatArray,
    number: Mapping[Label, int],
    label: Label,
) -> LocalModel:
    """Set weights (d, q) on a new estimator, in the shapes that its own ``fit`` would give them."""
    i = number[label]
    kind, parameters = settings[codes[i]]
    estimator, weights = kind(**parameters), all_weights[i]
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
