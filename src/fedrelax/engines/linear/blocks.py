"""One symmetric positive semidefinite matrix per node, in the smaller of two forms."""

from __future__ import annotations

import numpy as np

from fedrelax.typing import AnyArray, FloatArray

CACHE_BYTES = 1 << 19
"""Low-rank products run in groups of nodes of this size, so that rows are read once."""


class Blocks:
    """Matrices ``G_i`` for all nodes: as ``G_i`` itself (n, d, d) or as rows ``F_i`` (n, m, d).

    The row form means ``G_i = F_i' F_i`` and is the smaller one if m < d. Rows of zeros change
    nothing, so nodes with fewer rows are padded.
    """

    def __init__(self, array: AnyArray, *, low_rank: bool) -> None:
        self.array = array
        self.low_rank = low_rank
        self.n, _, self.d = array.shape
        self._group = max(1, CACHE_BYTES // max(1, array[:1].nbytes))

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return int(self.array.nbytes)

    def apply(self, x: AnyArray, out: AnyArray) -> AnyArray:
        """Write ``G_i x_i`` for all nodes; x and out are (n, d, q)."""
        if not self.low_rank:
            return np.matmul(self.array, x, out=out)
        for lo in range(0, self.n, self._group):
            rows = self.array[lo : lo + self._group]
            inner = np.matmul(rows, x[lo : lo + self._group])
            np.matmul(rows.transpose(0, 2, 1), inner, out=out[lo : lo + self._group])
        return out

    def squares(self, x: AnyArray, nodes: slice | AnyArray = slice(None)) -> FloatArray:
        """Return ``x_i' G_i x_i`` (c,) for x (c, d, q) at the given nodes."""
        part = self.array[nodes]
        image = np.matmul(part, x)
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
