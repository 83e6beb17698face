"""A network of least-squares models as stacked arrays, in well-conditioned coordinates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fedrelax.engines.linear.checks import minimum_norm_of, ridge_of
from fedrelax.engines.linear.fitted import FittedModels
from fedrelax.engines.linear.problem import LinearProblem
from fedrelax.graph import Graph
from fedrelax.models import Task
from fedrelax.network import Network, StackedRows
from fedrelax.typing import AnyArray, FloatArray, IntArray, Label


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
        scale = np.sqrt(np.square(X - centre).mean(axis=0))
        most = np.abs(X).max(axis=0, initial=0.0)
        scale = np.where(scale > 1e-12 * most, scale, most)
        return cls(centre, np.where(scale > 0, scale, 1.0), intercept)

    @classmethod
    def raw(cls, features: int, intercept: bool) -> Coordinates:
        """Return the features as they are."""
        return cls(np.zeros(features), np.ones(features), intercept)

    def rows(self, X: FloatArray) -> FloatArray:
        """Return rows in these coordinates."""
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

    def least(self, norm: str) -> FloatArray:
        """Return C such that ``|C u|`` is the norm of the raw coefficients, or of "all" raw entries."""
        f = len(self.scale)
        to_raw = np.diag(np.append(1 / self.scale, np.ones(int(self.intercept))))
        if self.intercept:
            to_raw[f, :f] = -self.centre / self.scale
        return to_raw if norm == "all" else to_raw[:f]


@dataclass(frozen=True)
class LinearNetwork:
    """Everything the linear and softmax engines take from a network, as stacked arrays."""

    labels: tuple[Label, ...]
    graph: Graph
    task: Task
    kinds: list[Any]
    """The distinct model objects."""
    codes: IntArray
    """The index of every node's model in ``kinds``."""
    own: StackedRows
    validation: StackedRows | None
    public: FloatArray
    public_offsets: IntArray | None

    @classmethod
    def of(cls, network: Network) -> LinearNetwork:
        """Stack the nodes' rows in their order."""
        task, public = network.task, network.public
        shared, public_offsets = public.common, None
        if shared is None:
            sets = [public.of(label) for label in network.labels]
            shared = np.concatenate(sets)
            public_offsets = np.cumsum([0, *map(len, sets)], dtype=np.int64)
        kinds, models = list(network.distinct_models.values()), network.models
        codes = np.zeros(len(models), dtype=np.int64)
        if len(kinds) > 1:
            number = {id(kind): k for k, kind in enumerate(kinds)}
            codes = np.array([number[id(model)] for model in models])
        held = network.validation_rows
        return cls(
            labels=network.labels,
            graph=network.graph,
            task=task,
            kinds=kinds,
            codes=codes,
            own=_encoded(network.own_rows, task),
            validation=None if held is None else _encoded(held, task),
            public=shared,
            public_offsets=public_offsets,
        )

    def model(self, i: int) -> Any:
        """Return the unfitted model of node number i."""
        return self.kinds[self.codes[i]]

    def per_node(self, value: Callable[[Any], Any]) -> AnyArray:
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

    @cached_property
    def minimum_norm(self) -> str:
        """The norm to minimise where rows leave weights undetermined."""
        norms = {minimum_norm_of(kind) for kind in self.kinds}
        return "all" if norms == {"all"} else "coefficients"

    @property
    def public_counts(self) -> FloatArray:
        """The number of public rows: one for all, or one per node."""
        if self.public_offsets is None:
            return np.array(float(len(self.public)))
        return np.diff(self.public_offsets).astype(float)

    def fitted(self, weights: FloatArray) -> FittedModels:
        """Return models with these weights (n, d, q), made on demand."""
        return FittedModels(self.labels, self.kinds, self.codes, self.task, weights)

    def problem(
        self, coordinates: Coordinates, weighting: str, level: float = 1.0
    ) -> LinearProblem:
        """Return the problem as Gram matrices; ``ridge |coef|^2`` is in the same units as own rows."""
        penalty = self.ridge / coordinates.scale**2
        if weighting == "mean":
            penalty /= self.own.counts[:, None]
        return LinearProblem(
            coordinates.rows(self.own.X),
            self.own.y,
            self.graph.adjacency,
            coordinates.rows(self.public),
            offsets=self.own.offsets,
            public_offsets=self.public_offsets,
            intercept=self.intercept,
            ridge=penalty,
            scaling="mean" if weighting == "mean" else "rows",
            level=level,
        )


def _encoded(rows: StackedRows, task: Task) -> StackedRows:
    return replace(rows, y=task.encode(rows.y))
