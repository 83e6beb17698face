"""A network of least-squares models as stacked arrays, in coordinates that computing likes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fedrelax.engines.linear.checks import minimum_norm_of, ridge_of
from fedrelax.engines.linear.fitted import FittedModels
from fedrelax.engines.linear.problem import LinearProblem
from fedrelax.graph import Graph
from fedrelax.models import Task
from fedrelax.network import Network
from fedrelax.typing import AnyArray, FloatArray, IntArray, Label


@dataclass(frozen=True)
class StackedRows:
    """Rows of all nodes, one node after the other: node i owns offsets[i]:offsets[i + 1]."""

    X: FloatArray
    y: FloatArray
    offsets: IntArray

    @property
    def counts(self) -> IntArray:
        """The number of rows of every node."""
        return np.diff(self.offsets)


@dataclass(frozen=True)
class Coordinates:
    """Features as ``(x - centre) / scale``, common to all nodes; a change of names, not of models.

    Gram matrices of such rows keep the digits that raw ones may lose. A model u in these
    coordinates is ``coef = u / scale`` and ``intercept = u_last - centre' coef``.
    """

    centre: FloatArray
    scale: FloatArray
    intercept: bool

    @classmethod
    def standard(cls, X: FloatArray, intercept: bool) -> Coordinates:
        """Return mean 0 (only with an intercept: without one, zero is special) and size 1."""
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

    def forth(self, W: FloatArray) -> FloatArray:
        """Return raw models in these coordinates."""
        f = len(self.scale)
        U = W.copy()
        if self.intercept:
            U[:, f] += np.einsum("f,nfq->nq", self.centre, W[:, :f])
        U[:, :f] *= self.scale[:, None]
        return U

    def least(self, norm: str) -> FloatArray:
        """Return C with ``|C u|`` the norm of the coefficients, or of "all" raw entries."""
        f = len(self.scale)
        to_raw = np.diag(np.append(1 / self.scale, np.ones(int(self.intercept))))
        if self.intercept:
            to_raw[f, :f] = -self.centre / self.scale
        return to_raw if norm == "all" else to_raw[:f]


@dataclass(frozen=True)
class LinearNetwork:
    """All that the linear engine takes from a network."""

    labels: tuple[Label, ...]
    graph: Graph
    task: Task
    models: list[Any]
    own: StackedRows
    validation: StackedRows | None
    public: FloatArray
    public_offsets: IntArray | None
    intercept: bool
    ridge: FloatArray

    @classmethod
    def of(cls, network: Network) -> LinearNetwork:
        """StackedRows the nodes' rows in their order."""
        nodes, task, public = list(network), network.task, network.public
        held = [node.validation for node in nodes]
        validation = None
        if any(part is not None for part in held):
            none = (nodes[0].X[:0], nodes[0].y[:0])
            pairs = [none if part is None else part for part in held]
            validation = _stack([X for X, _ in pairs], [y for _, y in pairs], task)
        shared, public_offsets = public.common, None
        if shared is None:
            sets = [public.of(node.label) for node in nodes]
            shared, public_offsets = np.concatenate(sets), _offsets(sets)
        return cls(
            labels=tuple(node.label for node in nodes),
            graph=network.graph,
            task=task,
            models=[node.model for node in nodes],
            own=_stack([node.X for node in nodes], [node.y for node in nodes], task),
            validation=validation,
            public=shared,
            public_offsets=public_offsets,
            intercept=bool(nodes[0].model.fit_intercept),
            ridge=np.array([ridge_of(node.model, nodes[0].X.shape[1]) for node in nodes]),
        )

    @property
    def n_weights(self) -> int:
        """The weights of one model and output, with the intercept."""
        return int(self.own.X.shape[1]) + self.intercept

    @cached_property
    def minimum_norm(self) -> str:
        """The norm to minimise where rows leave weights open."""
        norms = {minimum_norm_of(model) for model in self.models}
        return "all" if norms == {"all"} else "coefficients"

    @property
    def public_counts(self) -> FloatArray:
        """The number of public rows: one for all, or one per node."""
        if self.public_offsets is None:
            return np.array(float(len(self.public)))
        return np.diff(self.public_offsets).astype(float)

    def fitted(self, weights: FloatArray) -> FittedModels:
        """Return models with these weights (n, d, q), made when asked for."""
        return FittedModels(self.labels, self.models, self.task, weights)

    def problem(self, coordinates: Coordinates, weighting: str) -> LinearProblem:
        """Return Gram matrices; the penalty ``ridge |coef|^2`` is in the same units as own rows."""
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
            reorder=False,
        )


def _offsets(parts: Sequence[AnyArray]) -> IntArray:
    return np.cumsum([0, *map(len, parts)], dtype=np.int64)


def _stack(X: Sequence[AnyArray], y: Sequence[AnyArray], task: Task) -> StackedRows:
    return StackedRows(np.concatenate(X), task.encode(np.concatenate(y)), _offsets(X))
