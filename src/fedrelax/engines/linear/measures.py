"""Round 0, the measures of every round, and how far apart neighbours' predictions are."""

from __future__ import annotations

import copy

import numpy as np
from scipy import sparse

from fedrelax.engines.answers import learners_of
from fedrelax.engines.linear.network import Coordinates, LinearNetwork
from fedrelax.linear.arrays import times_common
from fedrelax.linear.fixed_point import ExactUpdate, System
from fedrelax.linear.gram import BUFFER_NUMBERS, RowResiduals
from fedrelax.linear.problem import LinearProblem, NeighbourSums
from fedrelax.typing import AnyArray, FloatArray, SparseMatrix

REFINEMENTS = 2


class Prepared:
    """A network in given coordinates: its problem, every node's model alone, and measures of other models.

    Own losses are computed relative to the models alone, w0, whose loss is known from the rows:
    ``L(w) = L(w0) + 2 (w - w0)' g0 + (w - w0)' H (w - w0)``, where the gradient at w0 is 2 g0. No large
    terms cancel, as they would in ``|y|^2 - 2 b'w + w'H w``.
    """

    def __init__(
        self,
        network: LinearNetwork,
        coordinates: Coordinates,
        weighting: str,
        level: float = 1.0,
        alone: FloatArray | None = None,
    ) -> None:
        self.network, self.coordinates, self.weighting = network, coordinates, weighting
        self.problem, residuals = network.problem(coordinates, weighting, level)
        by_rows, self._counts = weighting == "rows", network.own.counts
        self._share = self._counts if by_rows else np.ones(len(self._counts))
        self._public_rows = network.public_counts if by_rows else np.array(1.0)
        if alone is None:
            alone = self._trained_alone(residuals)
        self.alone = alone
        """Every node's model trained on its own rows, (n, d, q) in these coordinates."""
        self._losses = residuals.losses(alone)
        self._slopes = residuals.slopes(alone) / self._counts[:, None, None]
        self.variation = Variation(self.problem, self._public_rows)
        held = network.validation
        self.validation_rows = np.zeros(len(network.labels)) if held is None else held.counts
        self._held = None
        if held is not None:
            rows = coordinates.rows(held.X)
            self._held = RowResiduals(rows, held.y, held.offsets, intercept=network.intercept)

    def _trained_alone(self, residuals: RowResiduals) -> FloatArray:
        """Solve ``(H_i + R_i) u = b_i``, then refine with residuals of the rows themselves.

        The refinement ``u <- u - (H + R)^-1 [X'(X u - y)/m + R u]`` recovers the digits lost in forming H.
        """
        problem = self.problem
        self.apart = self.exact(0.0, "paper", fused=False)
        share = (self._counts / self._share)[:, None, None]
        U = self.apart.models(problem.moment)
        for _ in range(REFINEMENTS):
            slope = residuals.slopes(U) / share + problem.ridge[:, :, None] * U
            U -= self.apart.models(slope)
        return U

    def raw(self) -> Prepared:
        """Return the same in the user's features, in which gradient steps are defined."""
        features = len(self.coordinates.scale)
        coordinates = Coordinates(np.zeros(features), np.ones(features), self.coordinates.intercept)
        alone = self.coordinates.back(self.alone)
        return Prepared(self.network, coordinates, self.weighting, alone=alone)

    def exact(self, alpha: float, system: System, *, fused: bool) -> ExactUpdate:
        """Return the exact update of all nodes."""
        norm = self.coordinates.least(self.network.minimum_norm)
        return ExactUpdate(self.problem, alpha, system=system, minimum_norm=norm, fused=fused)

    def on(self, edges: SparseMatrix) -> Prepared:
        """Return the measures on another graph."""
        other = copy.copy(self)
        other.problem = self.problem.on(edges)
        other.variation = Variation(other.problem, self._public_rows)
        return other

    def local_losses(self, W: FloatArray) -> FloatArray:
        """Return ``|X_i w_i - y_i|^2 / m_i`` per node."""
        D = W - self.alone
        curve = self.problem.own.apply(D, np.empty_like(D)) / self._share[:, None, None]
        gain: FloatArray = np.einsum("ndq,ndq->n", D, curve + 2 * self._slopes)
        return np.maximum(self._losses + gain, 0.0)

    def losses_of_others(self, edges: SparseMatrix, V: FloatArray) -> FloatArray:
        """Return ``|X_i v_j - y_i|^2 / m_i`` for every stored entry (i, j)."""
        learner, values = learners_of(edges), np.empty(edges.nnz)
        group = max(1, BUFFER_NUMBERS // self.problem.own.array[0].size)
        for lo in range(0, len(values), group):
            i, j = learner[lo : lo + group], edges.indices[lo : lo + group]
            D = V[j] - self.alone[i]
            curve = self.problem.own.squares(D, i) / self._share[i]
            slope = 2 * np.einsum("edq,edq->e", D, self._slopes[i])
            values[lo : lo + group] = np.maximum(self._losses[i] + curve + slope, 0.0)
        return values

    def validation_losses(self, W: FloatArray) -> FloatArray:
        """Return the mean squared error on each node's validation rows; NaN for a node without any."""
        return np.full(len(W), np.nan) if self._held is None else self._held.losses(W)

    def variations(self, W: FloatArray, V: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return each node's part of GTV, and the coupling term of its objective without alpha."""
        if self.weighting == "mean" or self.problem.common is not None:
            gtv = self.variation.nodes(W, V)
            return gtv, gtv if self.weighting == "mean" else gtv * self._public_rows / self._counts
        A = self.problem.adjacency
        learner = learners_of(A)
        values = A.data * self.variation.edges(W, V)
        terms = values * self._public_rows[A.indices] / self._counts[learner]
        sums = (np.bincount(learner, parts, self.problem.n) for parts in (values, terms))
        gtv, term = (np.asarray(part, dtype=np.float64) for part in sums)
        return gtv, term


class Variation:
    """``d(i, j) = (w_i - v_j)' Q_j (w_i - v_j)`` for models w and messages v, in stored order.

    ``counts`` are the nodes' numbers of public rows, by which an unnormalised problem
    (``scaling="rows"``) is divided here; one number for a common set.
    """

    def __init__(self, problem: LinearProblem, counts: float | FloatArray = 1.0) -> None:
        self.problem = problem
        self._graph = problem.adjacency
        self._learner = learners_of(self._graph)
        self._counts = np.broadcast_to(np.asarray(counts, dtype=np.float64), problem.n)
        self._root: FloatArray | None = None
        self._whole: FloatArray | None = None
        self._near: AnyArray | None = None
        graph = self._graph
        if problem.common is not None:
            assert problem.whole is not None
            self._root = _root(problem.common / self._counts[0])
            self._whole = self._root
            if problem.whole is not problem.common:
                self._whole = _root(problem.whole / self._counts[0])
        else:
            weights = graph.data / self._counts[graph.indices]
            graph = sparse.csr_array((weights, graph.indices, graph.indptr), shape=graph.shape)
        self._sums = NeighbourSums(graph, problem.d * problem.q + 1)

    def own(self, D: AnyArray) -> FloatArray:
        """Return ``D_i' Q_i D_i`` per node: the mean squared predictions on its own public rows."""
        if self._whole is not None:
            return _squares(times_common(D, self._whole, np.empty(D.shape)))
        public = self.problem.public
        assert public is not None
        return public.squares(D) / self._counts

    def nodes(self, W: AnyArray, V: AnyArray) -> FloatArray:
        """Return ``sum_j A_ij d(i, j)`` per node i.

        Expanded to ``w'S w - 2 w' sum_j A_ij Q_j v_j + sum_j A_ij v_j'Q_j v_j``, with w and v relative
        to the mean message, so that the cost does not grow with the degree times d^2.
        """
        problem = self.problem
        centre = V.mean(axis=0)
        W, V = W - centre, V - centre
        if self._root is not None:
            W, V = self._rooted(W), self._rooted(V)
            sent, size = V, _squares(V)
            mine = problem.degree * _squares(W)
        else:
            assert problem.public is not None
            sent = problem.public.apply(V, np.empty_like(V))
            size = _inner(V, sent)
            mine = _inner(W, np.matmul(self._neighbourhoods(), W))
        heard = np.empty((problem.n, problem.d * problem.q + 1))
        both = np.concatenate([sent.reshape(problem.n, -1), size[:, None]], axis=1)
        self._sums(both, heard)
        theirs = heard[:, -1]
        cross = np.einsum("nk,nk->n", W.reshape(problem.n, -1), heard[:, :-1])
        total: FloatArray = mine - 2 * cross + theirs
        return np.maximum(total, 0.0)

    def embedding(self, V: AnyArray) -> FloatArray:
        """Return messages (n, d q) whose squared distances are d(i, j); for one common public set."""
        return self._rooted(V).reshape(self.problem.n, -1)

    def edges(self, W: AnyArray, V: AnyArray) -> FloatArray:
        """Return d(i, j) for every stored entry of the adjacency matrix, in its order."""
        if self._root is not None:
            W, V = self._rooted(W), self._rooted(V)
        problem, public = self.problem, self.problem.public
        values = np.empty(problem.adjacency.nnz)
        size = problem.d * (problem.q + (0 if public is None else problem.d))
        group = max(1, BUFFER_NUMBERS // size)
        for lo in range(0, len(values), group):
            part = slice(lo, lo + group)
            j = problem.adjacency.indices[part]
            gap = W[self._learner[part]] - V[j]
            if public is None:
                values[part] = _squares(gap)
            else:
                values[part] = public.squares(gap, j) / self._counts[j]
        return values

    def _neighbourhoods(self) -> AnyArray:
        """Return ``S_i = sum_j A_ij Q_j`` (n, d, d)."""
        if self._near is None:
            assert self.problem.public is not None
            dense = self.problem.public.dense()
            flat = self._sums.graph @ dense.reshape(self.problem.n, -1)
            self._near = np.asarray(flat).reshape(dense.shape)
        return self._near

    def _rooted(self, W: AnyArray) -> FloatArray:
        assert self._root is not None
        return times_common(W, self._root, np.empty(W.shape))


def _root(Q: FloatArray) -> FloatArray:
    """Return C with ``C C' = Q``."""
    values, vectors = np.linalg.eigh(Q)
    values[values < len(Q) * np.finfo(float).eps * values[-1]] = 0.0
    return np.ascontiguousarray(vectors * np.sqrt(values))


def _inner(X: AnyArray, Y: AnyArray) -> FloatArray:
    return np.asarray(np.einsum("ndq,ndq->n", X, Y))


def _squares(X: AnyArray) -> FloatArray:
    return _inner(X, X)
