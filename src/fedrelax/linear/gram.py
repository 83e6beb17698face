"""Rows of all nodes, in groups of nodes of similar size, and their Gram matrices and moments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedrelax.linear.arrays import with_constant
from fedrelax.losses import Loss
from fedrelax.typing import AnyArray, FloatArray, IntArray

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
        self.targets = targets.reshape(len(rows), -1)
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
