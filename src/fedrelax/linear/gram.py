"""Rows of all nodes, and what is left of them in a linear model: Gram matrices and moments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedrelax.typing import AnyArray, FloatArray, IntArray

BUFFER_NUMBERS = 1 << 20
"""Numbers in a buffer of rows: 8 MB."""
CACHE_BYTES = 1 << 19
"""Low-rank products run in groups of nodes of this size, so that rows are read once."""


@dataclass(frozen=True)
class Group:
    """Nodes of similar size: rows (c, m, d) and targets (c, m, q), padded with zeros."""

    nodes: IntArray
    rows: FloatArray
    targets: FloatArray
    mask: AnyArray
    """Which rows (c, m) are real."""


class NodeRows:
    """Rows of n nodes: stacked ``(n, m, d)``, or ``(N, d)`` with row offsets of length n + 1."""

    def __init__(self, values: npt.ArrayLike, offsets: npt.ArrayLike | None = None) -> None:
        array = np.asarray(values)
        if offsets is None:
            n, m, d = array.shape
            array, offsets = array.reshape(n * m, d), np.arange(n + 1) * m
        self.flat = array
        self.offsets: IntArray = np.asarray(offsets, dtype=np.int64)
        self.n, self.d = self.offsets.size - 1, array.shape[1]
        self.counts: IntArray = np.diff(self.offsets)
        self.most = int(self.counts.max(initial=0))

    def groups(
        self, targets: AnyArray | None, intercept: bool, most: int | None = None
    ) -> Iterator[Group]:
        """Yield all nodes that have rows, in groups of similar size.

        Padding at most doubles the rows; a group has at most ``most`` nodes, or fits into the buffer. With
        ``intercept``, a constant column comes last.
        """
        q = 0 if targets is None else targets.shape[1]
        order = np.argsort(self.counts, kind="stable")
        sizes = self.counts[order]
        lo = int(np.searchsorted(sizes, 1))
        while lo < self.n:
            few = most or max(1, BUFFER_NUMBERS // (int(sizes[lo]) * (self.d + q)))
            hi = min(lo + few, int(np.searchsorted(sizes, 2 * sizes[lo], side="right")))
            nodes, m = order[lo:hi], int(sizes[hi - 1])
            mask = np.arange(m) < self.counts[nodes, None]
            rows = np.ones((hi - lo, m, self.d + intercept))
            held = np.zeros((hi - lo, m, q))
            if sizes[lo] == m and (np.diff(nodes) == 1).all():
                part = slice(self.offsets[nodes[0]], self.offsets[nodes[-1] + 1])
                rows[:, :, : self.d] = self.flat[part].reshape(hi - lo, m, self.d)
                if targets is not None:
                    held[:] = targets[part].reshape(held.shape)
            else:
                take = self.offsets[nodes, None] + np.where(mask, np.arange(m), 0)
                rows[:, :, : self.d] = self.flat[take]
                rows[~mask] = 0.0
                if targets is not None:
                    held[mask] = targets[take[mask]]
            yield Group(nodes, rows, held, mask)
            lo = hi


class Blocks:
    """Matrices ``G_i`` for all nodes: as ``G_i`` itself (n, d, d) or as rows ``F_i`` (n, m, d).

    The row form means ``G_i = F_i' F_i`` and is the smaller one if m < d. Rows of zeros change
    nothing, so nodes with fewer rows are padded.
    """

    def __init__(self, array: AnyArray, *, low_rank: bool) -> None:
        self.array = array
        self.low_rank = low_rank
        self._group = max(1, CACHE_BYTES // max(1, array[:1].nbytes))

    @classmethod
    def of(
        cls, rows: NodeRows, *, intercept: bool, targets: AnyArray | None = None, mean: bool = True
    ) -> tuple[Blocks, FloatArray, FloatArray]:
        """Return ``G_i = X_i' X_i / m_i``, ``b_i = X_i' y_i / m_i`` and ``|y_i|^2 / m_i``.

        Without ``mean``, nothing is divided by m_i. Without targets, the last two are empty. A node
        without rows gets zeros.
        """
        d = rows.d + intercept
        q = 0 if targets is None else targets.shape[1]
        low_rank = rows.most < d
        stored = np.zeros((rows.n, rows.most if low_rank else d, d))
        moment, power = np.zeros((rows.n, d, q)), np.zeros((rows.n, q))
        for group in rows.groups(targets, intercept):
            nodes, X, y = group.nodes, group.rows, group.targets
            if mean:
                root = np.sqrt(rows.counts[nodes])[:, None, None]
                X /= root
                y /= root
            flipped = X.transpose(0, 2, 1)
            if low_rank:
                stored[nodes, : X.shape[1]] = X
            else:
                stored[nodes] = flipped @ X
            moment[nodes], power[nodes] = flipped @ y, np.square(y).sum(axis=1)
        return cls(stored, low_rank=low_rank), moment, power

    def apply(self, x: AnyArray, out: AnyArray) -> AnyArray:
        """Write ``G_i x_i`` for all nodes; x and out are (n, d, q)."""
        if not self.low_rank:
            return np.matmul(self.array, x, out=out)
        for lo in range(0, len(self.array), self._group):
            part = slice(lo, lo + self._group)
            rows = self.array[part]
            np.matmul(rows.transpose(0, 2, 1), np.matmul(rows, x[part]), out=out[part])
        return out

    def squares(self, x: AnyArray, nodes: slice | AnyArray = slice(None)) -> FloatArray:
        """Return ``x_i' G_i x_i`` (c,) for x (c, d, q) at the given nodes."""
        image = np.matmul(self.array[nodes], x)
        return np.asarray(np.einsum("crq,crq->c", image if self.low_rank else x, image))

    def dense(self, nodes: slice | AnyArray = slice(None)) -> AnyArray:
        """Return ``G_i`` (c, d, d) of the given nodes."""
        part = self.array[nodes]
        return np.matmul(part.transpose(0, 2, 1), part) if self.low_rank else part

    def row(self, a: int) -> AnyArray:
        """Return row ``a`` of every ``G_i``, as (n, d)."""
        if not self.low_rank:
            return np.ascontiguousarray(self.array[:, a, :])
        column = self.array[:, None, :, a]
        return np.ascontiguousarray(np.matmul(column, self.array)[:, 0, :])


class RowResiduals:
    """Squared errors of all nodes on their own rows, from the rows themselves.

    Sums over rows stay accurate where the squared error is tiny compared with the targets; Gram
    matrices do not. Models are (n, d, q) in the given order of nodes.
    """

    def __init__(
        self, X: npt.ArrayLike, y: AnyArray, offsets: npt.ArrayLike, *, intercept: bool
    ) -> None:
        rows = NodeRows(X, offsets)
        self.counts = rows.counts
        self._groups = list(rows.groups(y, intercept))

    def losses(self, W: AnyArray) -> FloatArray:
        """Return ``|X_i w_i - y_i|^2 / m_i`` per node; NaN for a node without rows."""
        mean = np.full(len(self.counts), np.nan)
        for group in self._groups:
            gap = np.matmul(group.rows, W[group.nodes])
            gap -= group.targets
            mean[group.nodes] = np.einsum("cmq,cmq->c", gap, gap) / self.counts[group.nodes]
        return mean

    def slopes(self, W: AnyArray) -> FloatArray:
        """Return ``X_i'(X_i w_i - y_i)`` per node, zero for a node without rows."""
        out: FloatArray = np.zeros(W.shape)
        for group in self._groups:
            gap = np.matmul(group.rows, W[group.nodes]) - group.targets
            out[group.nodes] = np.matmul(group.rows.transpose(0, 2, 1), gap)
        return out
