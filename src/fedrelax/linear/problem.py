"""A network of linear least-squares models, reduced to what a round needs."""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse._sparsetools import csr_matvecs
from scipy.sparse.csgraph import reverse_cuthill_mckee

from fedrelax.linear.arrays import with_constant
from fedrelax.linear.gram import Blocks, NodeRows
from fedrelax.typing import AnyArray, FloatArray, IntArray, SparseMatrix

CACHE_BYTES = 4 << 20
"""Below this size, the values of all nodes stay in cache in any order."""


class LinearProblem:
    """All rows as ``H_i = X_i'X_i/m_i``, ``b_i = X_i'y_i/m_i`` and ``Q_j = P_j'P_j/m_pub(j)``.

    Node i's model is ``w_i`` of shape (d, q); with ``intercept``, a constant column is appended, so
    its last row is the intercept. Node i's own objective is ``|X_i w - y_i|^2/m_i + w'R_i w`` with
    ``R_i = ridge_i`` on the diagonal, zero for the intercept.

    Parameters
    ----------
    X, y : rows (n, m, features) and targets (n, m) or (n, m, q); or, with ``offsets`` (n + 1),
        rows (N, features) and targets (N,) or (N, q), node i owning rows offsets[i]:offsets[i+1];
        or ``NodeRows``, and no y.
    adjacency : symmetric sparse matrix (n, n), weights >= 0, zero diagonal.
    public : (m_pub, features) for one common set; (n, m_pub, features), or (M, features) with
        ``public_offsets``, or ``NodeRows``, for a set per node.
    ridge : one number, one per node, or one per node and feature; in the units of H_i, that is
        already divided by the node's number of rows if ``scaling`` is "mean".
    scaling : "mean" as above; "rows" leaves out the divisions by m_i and m_pub(j).
    level : the share of the coupling that also applies to the level: ``Q - (1 - level) x x'`` replaces Q,
        with x the mean public row; for a common set only.
    """

    def __init__(
        self,
        X: npt.ArrayLike | NodeRows,
        y: npt.ArrayLike | None,
        adjacency: SparseMatrix,
        public: npt.ArrayLike | NodeRows,
        *,
        offsets: npt.ArrayLike | None = None,
        public_offsets: npt.ArrayLike | None = None,
        intercept: bool = False,
        ridge: npt.ArrayLike = 0.0,
        scaling: Literal["mean", "rows"] = "mean",
        level: float = 1.0,
    ) -> None:
        rows = X if isinstance(X, NodeRows) else NodeRows(X, y, offsets, intercept=intercept)
        mean = scaling == "mean"
        self.n, self.d, self.q = rows.n, rows.d, rows.q
        self.intercept, self.level = rows.intercept, float(level)
        self.join(sparse.csr_array(adjacency, dtype=np.float64))
        self.ridge: FloatArray = np.zeros((self.n, self.d))
        """The diagonals of all ``R_i``."""
        penalty = np.asarray(ridge, dtype=np.float64)
        penalised = self.ridge[:, : self.d - self.intercept]
        penalised[:] = penalty if penalty.ndim == 0 else penalty.reshape(self.n, -1)
        self.own, self.moment, self.power = Blocks.of(rows, mean)
        self.common: FloatArray | None = None
        self.whole: FloatArray | None = None
        """Q itself; ``common`` differs from it if ``level`` is below 1."""
        self.public: Blocks | None = None
        if not isinstance(public, NodeRows) and np.ndim(public) == 2 and public_offsets is None:
            P = with_constant(np.asarray(public), self.intercept)
            self.whole = self.common = P.T @ P / (len(P) if mean else 1)
            if level < 1.0:
                x = P.mean(axis=0) * (1.0 if mean else np.sqrt(len(P)))
                self.common = self.whole - (1.0 - level) * np.outer(x, x)
            return
        if not isinstance(public, NodeRows):
            public = NodeRows(public, offsets=public_offsets, intercept=self.intercept)
        self.public = Blocks.of(public, mean)[0]

    def join(self, graph: SparseMatrix) -> None:
        """Store the graph with the smallest index type that suffices: a round reads all of it."""
        index = np.int32 if graph.nnz < 1 << 31 else np.int64
        parts = (graph.data, graph.indices.astype(index), graph.indptr.astype(index))
        self.adjacency = sparse.csr_array(parts, shape=graph.shape, dtype=np.float64)
        self.degree: FloatArray = np.asarray(graph.sum(axis=1), dtype=np.float64).reshape(-1)
        self.__dict__.pop("around", None)

    def on(self, edges: SparseMatrix) -> LinearProblem:
        """Return the problem on another graph, a CSR matrix with the nodes in the same order.

        The rows' products are shared, not copied.
        """
        other = copy.copy(self)
        other.join(edges)
        return other

    @cached_property
    def around(self) -> AnyArray:
        """``S_i = sum_j A_ij Q_j`` (n, d, d) where every node has its own Q."""
        assert self.public is not None
        return self.public.sums(self.adjacency)

    def own_matrices(self, nodes: slice | AnyArray = slice(None)) -> AnyArray:
        """Return ``H_i + R_i`` (c, d, d), a copy."""
        M = np.array(self.own.dense(nodes), copy=not self.own.low_rank)
        steps = np.arange(self.d)
        M[:, steps, steps] += self.ridge[nodes]
        return M

    def start(self, W: npt.ArrayLike | None) -> FloatArray:
        """Return a copy of the models (n, d, q) or (n, d) to start from; zeros for None."""
        shape = (self.n, self.d, self.q)
        return np.zeros(shape) if W is None else np.array(W, dtype=np.float64).reshape(shape)


def local_order(adjacency: SparseMatrix, row_bytes: int) -> IntArray | None:
    """Return an order of the nodes in which neighbours lie near each other in memory; None keeps theirs.

    A sum over neighbours in any order misses the cache once per neighbour if the values of all nodes
    (``row_bytes`` each) exceed it. Reverse Cuthill-McKee helps on graphs that are like a map; on others,
    such as random ones, it hardly brings neighbours closer, and nothing is gained by moving nodes.
    """
    n = adjacency.shape[0]
    if n * row_bytes < CACHE_BYTES:
        return None
    order = reverse_cuthill_mckee(adjacency, symmetric_mode=True).astype(np.int64)
    position = np.argsort(order)
    row = np.repeat(np.arange(n), np.diff(adjacency.indptr))
    before = np.abs(row - adjacency.indices).mean()
    after = np.abs(position[row] - position[adjacency.indices]).mean()
    return order if 2 * after < before else None


def reordered(adjacency: SparseMatrix, order: IntArray) -> SparseMatrix:
    """Return the graph with its nodes in another order; the entries of a row stay in theirs."""
    rows, place = adjacency[order], np.argsort(order)
    return sparse.csr_array((rows.data, place[rows.indices], rows.indptr), shape=rows.shape)


class NeighbourSums:
    """``out_i = start_i + scale * sum_j A_ij u_j`` for all nodes at once; u is (n, d, q)."""

    def __init__(self, adjacency: SparseMatrix, scale: float = 1.0) -> None:
        self.graph = adjacency if scale == 1.0 else adjacency * scale

    @cached_property
    def turns(self) -> list[tuple[IntArray, SparseMatrix]]:
        """Groups of nodes to update one after the other, with their rows of the graph."""
        return [(nodes, self.graph[nodes]) for nodes in _levels(self.graph)]

    def __call__(self, u: AnyArray, out: AnyArray, start: AnyArray | None = None) -> AnyArray:
        """Write the neighbour sums of ``u``, plus ``start``, into ``out``.

        This is what ``graph @ u`` does, except that the sums are added to what is there: a product of
        its own would have to be allocated, and read again to add ``start``.
        """
        out[:] = 0.0 if start is None else start
        A, n = self.graph, len(u)
        sums, sent = np.reshape(out, -1, copy=False), u.reshape(-1)
        csr_matvecs(n, n, len(sums) // n, A.indptr, A.indices, A.data, sent, sums)
        return out


def _levels(adjacency: SparseMatrix) -> list[IntArray]:
    """Group nodes so that each comes after its lower-numbered neighbours; no edge is within a group."""
    level, indices, ends = (
        np.zeros(adjacency.shape[0], np.int64),
        adjacency.indices,
        adjacency.indptr,
    )
    for i in range(len(level)):
        near = indices[ends[i] : ends[i + 1]]
        level[i] = level[near[near < i]].max(initial=-1) + 1
    order = np.argsort(level, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(level[order])) + 1)
