"""Rows of all nodes, and what is left of them in a linear model: Gram matrices and moments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedrelax.typing import AnyArray, FloatArray, IntArray, SparseMatrix

BUFFER_NUMBERS = 1 << 16
"""Numbers in what is computed at a time: half a megabyte, which stays in cache."""
CACHE_BYTES = 1 << 19
"""Low-rank products run in groups of nodes of this size, so that rows are read once."""


@dataclass(frozen=True)
class Group:
    """Nodes of similar size: rows (c, m, d) and targets (c, m, q), padded with zeros; to be read only."""

    nodes: IntArray
    rows: FloatArray
    targets: FloatArray
    mask: AnyArray
    """Which rows (c, m) are real."""
    at: slice | IntArray
    """The nodes, as a slice where they follow each other."""

    def gaps(self, W: AnyArray) -> FloatArray:
        """Return ``X_i w_i - y_i`` for models W (c, d, q)."""
        gaps: FloatArray = np.matmul(self.rows, W)
        gaps -= self.targets
        return gaps

    def slopes(self, gaps: AnyArray) -> FloatArray:
        """Return ``X_i'g_i`` for gaps g (c, m, q): half the gradient of their squares' sum."""
        return np.asarray(np.matmul(self.rows.transpose(0, 2, 1), gaps))

    def mean_squares(self, gaps: AnyArray) -> FloatArray:
        """Return ``|g_i|^2 / m_i`` for gaps g (c, m, q)."""
        return np.asarray(np.einsum("cmq,cmq->c", gaps, gaps) / self.mask.sum(axis=1))


class NodeRows:
    """Rows and targets of n nodes: (n, m, d) and (n, m) or (n, m, q), or stacked, with offsets (n + 1).

    With ``intercept``, a constant column comes last. ``moved`` takes rows to other coordinates. With
    ``order``, node i is the one whose rows are number order[i].
    """

    def __init__(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        offsets: npt.ArrayLike | None = None,
        *,
        intercept: bool = False,
        moved: Callable[[AnyArray], AnyArray] = np.asarray,
        order: IntArray | None = None,
    ) -> None:
        rows = np.asarray(X)
        if offsets is None:
            n, m, d = rows.shape
            rows, offsets = rows.reshape(n * m, d), np.arange(n + 1) * m
        targets = np.empty((len(rows), 0)) if y is None else np.asarray(y)
        self._rows, self._moved, self.intercept = rows, moved, bool(intercept)
        self.targets = targets.reshape(len(rows), -1)
        nodes = slice(None) if order is None else order
        ends = np.asarray(offsets, dtype=np.int64)
        self._starts: IntArray = ends[:-1][nodes]
        self.counts: IntArray = np.diff(ends)[nodes]
        self.n, self.most = len(self.counts), int(self.counts.max(initial=0))
        self.d, self.q = rows.shape[1] + self.intercept, self.targets.shape[1]

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
            nodes, m = order[lo:hi], int(sizes[hi - 1])
            mask, starts = np.arange(m) < self.counts[nodes, None], self._starts[nodes]
            at: AnyArray | slice = starts[:, None] + np.where(mask, np.arange(m), 0)
            if sizes[lo] == m and (np.diff(starts) == m).all():
                at = slice(starts[0], starts[-1] + m)
            rows = self._moved(self._rows[at]).reshape(hi - lo, m, -1)
            if self.intercept:
                rows = np.concatenate([rows, np.ones((hi - lo, m, 1))], axis=2)
            targets = self.targets[at].reshape(hi - lo, m, self.q)
            if sizes[lo] < m:
                rows, targets = rows * mask[:, :, None], targets * mask[:, :, None]
            follow = bool((np.diff(nodes) == 1).all())
            near = slice(int(nodes[0]), int(nodes[-1]) + 1) if follow else nodes
            yield Group(nodes, rows, targets, mask, near)
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
    def of(cls, rows: NodeRows, mean: bool = True) -> tuple[Blocks, FloatArray, FloatArray]:
        """Return ``G_i = X_i' X_i / m_i``, ``b_i = X_i' y_i / m_i`` and ``|y_i|^2 / m_i``.

        Without ``mean``, nothing is divided by m_i. A node without rows gets zeros.
        """
        n, d, q, low_rank = rows.n, rows.d, rows.q, rows.most < rows.d
        stored = np.zeros((n, rows.most if low_rank else d, d))
        moment, power = np.zeros((n, d, q)), np.zeros((n, q))
        for group in rows.groups():
            nodes, X, y = group.at, group.rows, group.targets
            count = rows.counts[nodes][:, None, None] if mean else 1
            flipped = X.transpose(0, 2, 1)
            if low_rank:
                stored[nodes, : X.shape[1]] = X / np.sqrt(count)
            else:
                stored[nodes] = flipped @ X / count
            moment[nodes] = flipped @ y / count
            power[nodes] = (np.square(y) / count).sum(axis=1)
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

    def sums(self, adjacency: SparseMatrix) -> AnyArray:
        """Return ``sum_j A_ij G_j`` (n, d, d)."""
        dense = self.dense()
        return np.asarray(adjacency @ dense.reshape(len(dense), -1)).reshape(dense.shape)


class RowResiduals(NodeRows):
    """Squared errors of all nodes on their own rows, from the rows themselves, which it holds in groups.

    Sums over rows stay accurate where the squared error is tiny compared with the targets; Gram
    matrices do not. Models are (n, d, q) in the given order of nodes.
    """

    def __init__(self, *rows: Any, **options: Any) -> None:
        super().__init__(*rows, **options)
        self._groups = list(super().groups())

    def groups(self, most: int | None = None) -> Iterator[Group]:
        """Yield the groups."""
        return iter(self._groups)

    def losses(self, W: AnyArray) -> FloatArray:
        """Return ``|X_i w_i - y_i|^2 / m_i`` per node; NaN for a node without rows."""
        mean = np.full(self.n, np.nan)
        for group in self._groups:
            mean[group.at] = group.mean_squares(group.gaps(W[group.at]))
        return mean
