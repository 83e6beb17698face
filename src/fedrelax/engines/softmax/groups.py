"""Nodes of similar size as padded arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedrelax.engines.linear.rows import NodeRows
from fedrelax.losses import Log
from fedrelax.models.newton import softmax
from fedrelax.network import StackedRows
from fedrelax.typing import AnyArray, FloatArray

LOSS = Log()


@dataclass(frozen=True)
class Group:
    """Nodes of similar size: rows (c, m, d) and labels (c, m, K), padded with zeros."""

    nodes: AnyArray
    rows: FloatArray
    labels: FloatArray
    mask: FloatArray

    def losses(self, W: FloatArray) -> FloatArray:
        """Return each node's mean log loss."""
        values = LOSS.per_row(self.labels, softmax(self.rows @ W[self.nodes]))
        return np.asarray((values * self.mask).sum(axis=1) / self.mask.sum(axis=1))


def groups_of(stack: StackedRows, intercept: bool, most: int) -> list[Group]:
    """Return all nodes with rows, at most ``most`` per group; padding at most doubles the rows."""
    rows = NodeRows(stack.X, stack.offsets, name="X")
    order = np.argsort(rows.counts, kind="stable")
    sizes = rows.counts[order]
    found, lo = [], int(np.searchsorted(sizes, 1))
    while lo < len(order):
        hi = min(lo + most, int(np.searchsorted(sizes, 2 * sizes[lo], side="right")))
        nodes, steps = order[lo:hi], np.arange(sizes[hi - 1])
        mask = steps < rows.counts[nodes, None]
        take = np.where(mask, rows.offsets[nodes, None] + steps, 0)
        labels = np.where(mask[:, :, None], stack.y[take], 0.0)
        found.append(Group(nodes, rows.padded(take, mask, intercept), labels, mask.astype(float)))
        lo = hi
    return found
