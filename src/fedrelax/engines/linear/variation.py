"""How far apart neighbours' predictions are, edge by edge and summed over each node's edges."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from fedrelax.engines.linear.neighbours import NeighbourSums
from fedrelax.engines.linear.problem import LinearProblem
from fedrelax.engines.linear.rows import BUFFER_NUMBERS
from fedrelax.engines.linear.vectors import rows_times
from fedrelax.typing import AnyArray, FloatArray

CANCELLED = 1e-5
"""A sum this small relative to its terms has lost digits, and is recomputed edge by edge."""


class Variation:
    """``d(i, j) = (w_i - v_j)' Q_j (w_i - v_j)`` for models w and messages v, in stored order.

    ``counts`` are the nodes' numbers of public rows, by which an unnormalised problem
    (``scaling="rows"``) is divided here; one number for a common set.
    """

    def __init__(self, problem: LinearProblem, counts: float | FloatArray = 1.0) -> None:
        self.problem = problem
        self._graph = problem.adjacency
        self._learner = np.repeat(np.arange(problem.n), np.diff(self._graph.indptr))
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
            return _squares(_times(self._whole, D))
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
        doubtful = np.flatnonzero(total < CANCELLED * (mine + theirs))
        if doubtful.size:
            total[doubtful] = self._node_sums_by_edge(W, V, doubtful)
        return total

    def embedding(self, V: AnyArray) -> FloatArray:
        """Return messages (n, d q) whose squared distances are d(i, j); for one common public set."""
        return self._rooted(V).reshape(self.problem.n, -1)

    def edges(self, W: AnyArray, V: AnyArray) -> FloatArray:
        """Return d(i, j) for every stored entry of the adjacency matrix, in its order."""
        if self._root is not None:
            W, V = self._rooted(W), self._rooted(V)
        return self._edges(W, V, np.arange(self.problem.adjacency.nnz))

    def _edges(self, W: AnyArray, V: AnyArray, which: AnyArray) -> FloatArray:
        """Return d(i, j) of some entries; for a common set W and V are multiplied by its root."""
        problem, public = self.problem, self.problem.public
        values = np.empty(len(which))
        size = problem.d * (problem.q + (0 if public is None else problem.d))
        group = max(1, BUFFER_NUMBERS // size)
        for lo in range(0, len(which), group):
            part = which[lo : lo + group]
            j = problem.adjacency.indices[part]
            gap = W[self._learner[part]] - V[j]
            if public is None:
                values[lo : lo + group] = _squares(gap)
            else:
                values[lo : lo + group] = public.squares(gap, j) / self._counts[j]
        return values

    def _node_sums_by_edge(self, W: AnyArray, V: AnyArray, nodes: AnyArray) -> FloatArray:
        marked = np.zeros(self.problem.n, dtype=bool)
        marked[nodes] = True
        which = np.flatnonzero(marked[self._learner])
        values = self._graph.data[which] * self._edges(W, V, which)
        sums = np.bincount(self._learner[which], values, self.problem.n)
        return np.asarray(sums, dtype=np.float64)[nodes]

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
        return _times(self._root, W)


def _root(Q: FloatArray) -> FloatArray:
    """Return C with ``C C' = Q``."""
    values, vectors = np.linalg.eigh(Q)
    values[values < len(Q) * np.finfo(float).eps * values[-1]] = 0.0
    return np.ascontiguousarray(vectors * np.sqrt(values))


def _times(root: FloatArray, W: AnyArray) -> FloatArray:
    if W.shape[2] > 1:
        return np.asarray(np.matmul(root.T, W))
    out = np.empty(W.shape)
    rows_times(np.ascontiguousarray(W[:, :, 0]), root, out[:, :, 0])
    return out


def _inner(X: AnyArray, Y: AnyArray) -> FloatArray:
    return np.asarray(np.einsum("ndq,ndq->n", X, Y))


def _squares(X: AnyArray) -> FloatArray:
    return _inner(X, X)
