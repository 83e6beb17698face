"""Squared errors of all nodes on their own rows, from the rows themselves."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedrelax.engines.linear.rows import NodeRows
from fedrelax.typing import AnyArray, FloatArray


class RowResiduals:
    """Rows (N, features), targets (N, q) and offsets as in LinearProblem, ready for many models.

    Sums over rows stay accurate where the squared error is tiny compared with the targets; Gram
    matrices do not. Models are (n, d, q) in the given order of nodes.
    """

    def __init__(
        self, X: npt.ArrayLike, y: AnyArray, offsets: npt.ArrayLike, *, intercept: bool
    ) -> None:
        rows = NodeRows(X, offsets, name="X")
        self.counts = rows.counts
        self._groups: list[tuple[AnyArray, FloatArray, FloatArray]] = []
        for nodes, take, mask in rows.groups(y):
            if not take.size:
                continue
            targets = np.where(mask[:, :, None], y[take], 0.0)
            self._groups.append((nodes, rows.padded(take, mask, intercept), targets))

    def losses(self, W: AnyArray) -> FloatArray:
        """Return ``|X_i w_i - y_i|^2 / m_i`` per node; NaN for a node without rows."""
        total = np.zeros(len(self.counts))
        for nodes, X, y in self._groups:
            gap = np.matmul(X, W[nodes])
            gap -= y
            total[nodes] = np.einsum("cmq,cmq->c", gap, gap)
        mean: FloatArray = np.where(self.counts > 0, total / np.maximum(self.counts, 1), np.nan)
        return mean

    def slopes(self, W: AnyArray) -> FloatArray:
        """Return ``X_i'(X_i w_i - y_i)`` per node, zero for a node without rows."""
        out: FloatArray = np.zeros(W.shape)
        for nodes, X, y in self._groups:
            out[nodes] = np.matmul(X.transpose(0, 2, 1), np.matmul(X, W[nodes]) - y)
        return out
