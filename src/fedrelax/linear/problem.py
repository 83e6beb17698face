"""Rows of all nodes in groups of similar size, and a network of least-squares models reduced to sums."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import sparse

from fedrelax.linear.arrays import with_constant
from fedrelax.losses import Loss
from fedrelax.typing import AnyArray, FloatArray, IntArray, SparseMatrix

BUFFER_NUMBERS = 1 << 16
"""Numbers in what is computed at a time: half a megabyte, which stays in cache."""


@dataclass(frozen=True)
class Group:
    """Nodes of similar size: rows (c, m, d) and targets (c, m, q), padded with zeros; to be read only."""

    nodes: IntArray
    rows: FloatArray
    targets: FloatArray
    mask: AnyArray
    """Which rows (c, m) are real."""

    def mean_losses(self, loss: Loss, predictions: AnyArray) -> FloatArray:
        """Return the mean loss of predictions (c, m, q) over every node's rows."""
        values = loss.per_row(self.targets, predictions) * self.mask
        return np.asarray(values.sum(axis=1) / self.mask.sum(axis=1))


class NodeRows:
    """Rows and targets of n nodes: (n, m, d) and (n, m) or (n, m, q), or stacked, with offsets (n + 1).

    With ``intercept``, a constant column comes last.
    """

    def __init__(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        offsets: npt.ArrayLike | None = None,
        *,
        intercept: bool = False,
    ) -> None:
        rows = np.asarray(X)
        if offsets is None:
            n, m, d = rows.shape
            rows, offsets = rows.reshape(n * m, d), np.arange(n + 1) * m
        targets = np.empty((len(rows), 0)) if y is None else np.asarray(y)
        self.rows, self.intercept = with_constant(rows, intercept), bool(intercept)
        self.targets = targets.reshape(len(rows), -1 if targets.size else targets.shape[-1])
        ends: IntArray = np.asarray(offsets, dtype=np.int64)
        self._starts, self.counts = ends[:-1], np.diff(ends)
        self.n, self.d, self.q = len(self.counts), self.rows.shape[1], self.targets.shape[1]

    def groups(self, most: int | None = None) -> Iterator[Group]:
        """Yield all nodes that have rows, in groups of similar size.

        Padding at most doubles the rows; a group has at most ``most`` nodes, or fits into the buffer.
        """
        order = np.argsort(self.counts, kind="stable")
        sizes = self.counts[order]
        lo = int(np.searchsorted(sizes, 1))
        while lo < self.n:
            few = most or max(1, BUFFER_NUMBERS // (int(sizes[lo]) * (self.d + self.q)))
            hi = min(lo + few, int(np.searchsorted(sizes, 2 * sizes[lo], side="right")))
            nodes, steps = order[lo:hi], np.arange(sizes[hi - 1])
            mask = steps < self.counts[nodes, None]
            at = self._starts[nodes, None] + np.where(mask, steps, 0)
            real = mask[:, :, None]
            yield Group(nodes, self.rows[at] * real, self.targets[at] * real, mask)
            lo = hi

    def products(self) -> tuple[FloatArray, FloatArray]:
        """Return ``X_i' X_i / m_i`` (n, d, d) and ``X_i' y_i / m_i`` (n, d, q); zeros without rows."""
        gram, moment = np.zeros((self.n, self.d, self.d)), np.zeros((self.n, self.d, self.q))
        for group in self.groups():
            flipped = group.rows.transpose(0, 2, 1) / self.counts[group.nodes, None, None]
            gram[group.nodes], moment[group.nodes] = flipped @ group.rows, flipped @ group.targets
        return gram, moment


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
        ``public_offsets``, for a set per node.
    ridge : one number, one per node, or one per node and feature; in the units of H_i, that is
        already divided by the node's number of rows.
    level : the share of the coupling that also applies to the level, for a common set; see ``with_level``.
    """

    def __init__(
        self,
        X: npt.ArrayLike | NodeRows,
        y: npt.ArrayLike | None,
        adjacency: SparseMatrix,
        public: npt.ArrayLike,
        *,
        offsets: npt.ArrayLike | None = None,
        public_offsets: npt.ArrayLike | None = None,
        intercept: bool = False,
        ridge: npt.ArrayLike = 0.0,
        level: float = 1.0,
    ) -> None:
        rows = X if isinstance(X, NodeRows) else NodeRows(X, y, offsets, intercept=intercept)
        self.n, self.d, self.q, self.intercept = rows.n, rows.d, rows.q, rows.intercept
        self.adjacency = sparse.csr_array(adjacency, dtype=np.float64)
        penalty, each = np.asarray(ridge, dtype=np.float64), np.arange(self.d - self.intercept)
        self.own, self.moment = rows.products()
        """``H_i + R_i`` and b_i."""
        self.own[:, each, each] += penalty if penalty.ndim == 0 else penalty.reshape(self.n, -1)
        if np.ndim(public) == 2 and public_offsets is None:
            P = with_level(with_constant(np.asarray(public), self.intercept), level)
            self.public = P.T @ P / len(P)
        else:
            shared = NodeRows(public, offsets=public_offsets, intercept=self.intercept)
            self.public = shared.products()[0]
        """``Q`` (d, d) for one common set, or all ``Q_j`` (n, d, d)."""

    @cached_property
    def degree(self) -> FloatArray:
        """``sum_j A_ij`` of every node."""
        return np.asarray(self.adjacency.sum(axis=1), dtype=np.float64).reshape(-1)

    def on(self, edges: SparseMatrix) -> LinearProblem:
        """Return the problem on another graph, a CSR matrix with the nodes in the same order."""
        other = copy.copy(self)
        other.adjacency = sparse.csr_array(edges, dtype=np.float64)
        other.__dict__.pop("degree", None)
        return other

    def near(self, values: AnyArray) -> FloatArray:
        """Return ``sum_j A_ij u_j`` of every node, for values u (n, ...)."""
        return np.asarray(self.adjacency @ values.reshape(self.n, -1)).reshape(values.shape)

    def shared(self, W: AnyArray) -> FloatArray:
        """Return ``Q_j w_j`` of every node, for models W (n, d, q)."""
        if self.public.ndim == 3:
            return np.asarray(self.public @ W)
        flat = W.transpose(0, 2, 1).reshape(-1, self.d) @ self.public
        return np.ascontiguousarray(flat.reshape(self.n, self.q, self.d).transpose(0, 2, 1))

    def start(self, W: npt.ArrayLike | None) -> FloatArray:
        """Return a copy of the models (n, d, q) or (n, d) to start from; zeros for None."""
        shape = (self.n, self.d, self.q)
        return np.zeros(shape) if W is None else np.array(W, dtype=np.float64).reshape(shape)


def with_level(P: AnyArray, level: float) -> FloatArray:
    """Return common public rows on which mean squares are ``level s^2 + v``, not ``s^2 + v``.

    s is the mean of predictions on the rows, and v their variance. With x the mean row, ``P'P / m`` becomes
    ``P'P / m - (1 - level) x x'``.

    >>> with_level(np.array([[1.0], [3.0]]), 0.25).tolist()
    [[0.0], [2.0]]
    """
    return np.asarray(P - (1.0 - np.sqrt(level)) * P.mean(axis=0))
