"""Round 0, losses on own rows, and how far apart neighbours' predictions are."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg.lapack import dpstrf

from fedrelax.engines.answers import learners_of
from fedrelax.engines.linear.network import Coordinates, LinearNetwork
from fedrelax.linear.arrays import times_common
from fedrelax.linear.fixed_point import ExactUpdate, System
from fedrelax.linear.gram import BUFFER_NUMBERS, Group, NodeRows, RowResiduals
from fedrelax.linear.problem import LinearProblem, NeighbourSums
from fedrelax.linear.solving import invert
from fedrelax.network import StackedRows
from fedrelax.typing import AnyArray, FloatArray, IntArray, SparseMatrix

REFINEMENTS = 2


class Apart(NamedTuple):
    """How safe the models are that nodes train alone: see ``linear.solving.Inverses``."""

    condition: FloatArray
    rank: IntArray


class Prepared:
    """A network in given coordinates: its problem, every node's model alone, and losses of other models.

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
        by_rows, counts = weighting == "rows", network.counts
        own, public, penalty = self._residuals(network.own), network.public, network.ridge
        ends, move = network.public_offsets, coordinates.rows
        self.problem = LinearProblem(
            own,
            None,
            network.edges,
            move(public)
            if ends is None
            else NodeRows(public, offsets=ends, intercept=network.intercept, moved=move),
            ridge=penalty / coordinates.scale**2 / (1.0 if by_rows else counts[:, None]),
            scaling="rows" if by_rows else "mean",
            level=level,
        )
        self._share = counts if by_rows else np.ones(len(counts))
        self.public_rows = np.broadcast_to(network.public_counts if by_rows else 1.0, len(counts))
        """What mean squared predictions on public rows are divided by."""
        self.alone = np.empty_like(self.problem.moment) if alone is None else alone
        """Every node's model trained on its own rows, (n, d, q) in these coordinates."""
        self.apart = Apart(np.empty(len(counts)), np.empty(len(counts), dtype=np.int64))
        self._losses, self._slopes = np.empty(len(counts)), np.empty_like(self.alone)
        for group in own.groups():
            nodes = group.at
            if alone is None:
                self._train_alone(group)
            gaps = group.gaps(self.alone[nodes])
            self._losses[nodes] = group.mean_squares(gaps)
            self._slopes[nodes] = group.slopes(gaps) / counts[nodes][:, None, None]
        held = network.validation
        self.validation = None if held is None else self._residuals(held)

    def _residuals(self, rows: StackedRows) -> RowResiduals:
        """Return rows of the nodes, in these coordinates, for sums over them."""
        return RowResiduals(
            rows.X,
            rows.y,
            rows.offsets,
            intercept=self.network.intercept,
            moved=self.coordinates.rows,
            order=self.network.order,
        )

    def _train_alone(self, group: Group) -> None:
        """Solve ``(H_i + R_i) u = b_i``, then refine with residuals of the rows themselves.

        The refinement ``u <- u - (H + R)^-1 [X'(X u - y)/m + R u]`` recovers the digits lost in forming H.
        """
        problem, nodes = self.problem, group.at
        share = (self.network.counts[nodes] / self._share[nodes])[:, None, None]
        ridge = problem.ridge[nodes][:, :, None]
        least = self.coordinates.least(self.network.minimum_norm)
        inverse = invert(problem.own_matrices(nodes), least)
        U = inverse.matrices @ problem.moment[nodes]
        for _ in range(REFINEMENTS):
            U -= inverse.matrices @ (group.slopes(group.gaps(U)) / share + ridge * U)
        self.alone[nodes] = U
        self.apart.condition[nodes], self.apart.rank[nodes] = inverse.condition, inverse.rank

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

    def own_losses(self, W: FloatArray, nodes: slice | AnyArray = slice(None)) -> FloatArray:
        """Return ``|X_i w - y_i|^2 / m_i`` for each of the nodes i and its model w in W (c, d, q)."""
        D = W - self.alone[nodes]
        change = self.problem.own.squares(D, nodes) / self._share[nodes]
        change += 2 * _inner(D, self._slopes[nodes])
        return np.maximum(self._losses[nodes] + change, 0.0)

    def losses_of_others(self, edges: SparseMatrix, V: FloatArray) -> FloatArray:
        """Return ``|X_i v_j - y_i|^2 / m_i`` for every stored entry (i, j)."""
        learner, values = learners_of(edges), np.empty(edges.nnz)
        group = max(1, BUFFER_NUMBERS // self.problem.own.array[0].size)
        for lo in range(0, len(values), group):
            part = slice(lo, lo + group)
            values[part] = self.own_losses(V[edges.indices[part]], learner[part])
        return values


class Variation:
    """``d(i, j) = (w_i - v_j)' Q_j (w_i - v_j)`` for models w and messages v, in stored order.

    ``counts`` are the nodes' numbers of public rows, by which an unnormalised problem
    (``scaling="rows"``) is divided here; one number for a common set.
    """

    def __init__(self, problem: LinearProblem, counts: float | FloatArray = 1.0) -> None:
        self.problem = problem
        self._counts = np.broadcast_to(np.asarray(counts, dtype=np.float64), problem.n)
        self._root: FloatArray | None = None
        graph = problem.adjacency
        if problem.common is not None and problem.whole is not None:
            self._root = _root(problem.common / self._counts[0])
            same = problem.whole is problem.common
            self._whole = self._root if same else _root(problem.whole / self._counts[0])
        else:
            weights = graph.data / self._counts[graph.indices]
            graph = sparse.csr_array((weights, graph.indices, graph.indptr), shape=graph.shape)
        self._sums = NeighbourSums(graph)

    def own(self, D: AnyArray) -> FloatArray:
        """Return ``D_i' Q_i D_i`` per node: the mean squared predictions on its own public rows."""
        if self.problem.public is not None:
            return self.problem.public.squares(D) / self._counts
        predictions = times_common(D, self._whole, np.empty(D.shape))
        return _inner(predictions, predictions)

    def nodes(self, W: AnyArray, V: AnyArray) -> FloatArray:
        """Return ``sum_j A_ij d(i, j)`` per node i.

        Expanded to ``w'S w - 2 w' sum_j A_ij Q_j v_j + sum_j A_ij v_j'Q_j v_j``, with w and v relative
        to the mean message, so that the cost does not grow with the degree times d^2.
        """
        problem, public = self.problem, self.problem.public
        centre = V.mean(axis=0)
        W, V = self._rooted(W - centre), self._rooted(V - centre)
        if public is None:
            sent, mine = V, problem.degree * _inner(W, W)
        else:
            sent = public.apply(V, np.empty_like(V))
            mine = _inner(W, np.matmul(self._around, W))
        both = np.concatenate([sent.reshape(problem.n, -1), _inner(V, sent)[:, None]], axis=1)
        near = self._sums(both, np.empty_like(both))
        cross = np.einsum("nk,nk->n", W.reshape(problem.n, -1), near[:, :-1])
        return np.asarray(np.maximum(mine - 2 * cross + near[:, -1], 0.0))

    def embedding(self, V: AnyArray) -> FloatArray:
        """Return messages (n, d q) whose squared distances are d(i, j); for one common public set."""
        return self._rooted(V).reshape(self.problem.n, -1)

    def edges(self, W: AnyArray, V: AnyArray) -> FloatArray:
        """Return d(i, j) for every stored entry of the adjacency matrix, in its order."""
        W, V = self._rooted(W), self._rooted(V)
        problem, public = self.problem, self.problem.public
        learner, values = learners_of(problem.adjacency), np.empty(problem.adjacency.nnz)
        size = problem.d * (problem.q + (0 if public is None else problem.d))
        group = max(1, BUFFER_NUMBERS // size)
        for lo in range(0, len(values), group):
            part = slice(lo, lo + group)
            j = problem.adjacency.indices[part]
            gap = W[learner[part]] - V[j]
            if public is None:
                values[part] = _inner(gap, gap)
            else:
                values[part] = public.squares(gap, j) / self._counts[j]
        return values

    @cached_property
    def _around(self) -> AnyArray:
        """``S_i = sum_j A_ij Q_j`` (n, d, d)."""
        problem = self.problem
        if (self._counts == 1).all():
            return problem.around
        assert problem.public is not None
        return problem.public.sums(self._sums.graph)

    def _rooted(self, W: AnyArray) -> FloatArray:
        """Return models times the root of a common Q, or unchanged where every node has its own."""
        return W if self._root is None else times_common(W, self._root, np.empty(W.shape))


def _root(Q: FloatArray) -> FloatArray:
    """Return C with ``C C' = Q``, by a pivoted Cholesky factorisation: fast where public rows are few."""
    factor, pivots, rank, _ = dpstrf(Q, lower=1)
    root = np.zeros_like(Q)
    root[pivots - 1, :rank] = np.tril(factor)[:, :rank]
    return root


def _inner(X: AnyArray, Y: AnyArray) -> FloatArray:
    return np.asarray(np.einsum("ndq,ndq->n", X, Y))
