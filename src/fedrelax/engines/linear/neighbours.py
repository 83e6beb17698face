"""The exchange: every node sums what its neighbours send, weighted by the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from fedrelax.engines.linear.vectors import SMALL_PRODUCT, rows_times
from fedrelax.typing import AnyArray

DENSE_MOST = 1 << 22
DENSE_SHARE = 1 / 6
"""A graph with at least this share of all pairs is multiplied as a dense matrix (measured)."""
PART_BYTES = 1 << 19
"""Neighbour sums are computed in parts of this size, which stay in cache until they are added."""


class NeighbourSums:
    """``out_i = start_i + scale * sum_j A_ij u_j`` for all nodes at once; u is (n, d, q)."""

    def __init__(self, adjacency: Any, width: int, scale: float = 1.0) -> None:
        n = adjacency.shape[0]
        self.n = n
        self.graph = adjacency
        if scale != 1.0:
            data = adjacency.data * scale
            self.graph = sparse.csr_array(
                (data, adjacency.indices, adjacency.indptr), shape=adjacency.shape
            )
        self._dense: AnyArray | None = None
        if n * n <= DENSE_MOST and adjacency.nnz >= DENSE_SHARE * n * n:
            cut = max(1, -(-n * n * width // SMALL_PRODUCT))
            rows = -(-n // cut)
            self._dense = np.zeros((cut, rows, n))
            self._dense.reshape(-1, n)[:n] = self.graph.toarray()
            self._sums = np.empty((cut, rows, width))
            return
        few = max(1, PART_BYTES // (width * 8))
        self._parts = [_rows(self.graph, lo, min(lo + few, n)) for lo in range(0, n, few)]

    @property
    def nbytes(self) -> int:
        """Bytes of the graph that one exchange reads."""
        if self._dense is not None:
            return int(self._dense.nbytes)
        A = self.graph
        return int(A.data.nbytes + A.indices.nbytes + A.indptr.nbytes)

    def __call__(self, u: AnyArray, out: AnyArray, start: AnyArray | None = None) -> AnyArray:
        """Write the neighbour sums of ``u``, plus ``start``, into ``out``."""
        n = self.n
        if self._dense is not None:
            np.matmul(self._dense, u.reshape(n, -1), out=self._sums)
            sums = self._sums.reshape(-1, self._sums.shape[2])[:n].reshape(out.shape)
            if start is not None:
                return np.add(sums, start, out=out)
            np.copyto(out, sums)
            return out
        told, result = u.reshape(n, -1), out.reshape(n, -1)
        first: AnyArray | None = None if start is None else start.reshape(n, -1)
        lo = 0
        for part in self._parts:
            hi = lo + part.shape[0]
            heard: AnyArray = part @ told
            result[lo:hi] = heard if first is None else np.add(heard, first[lo:hi], out=heard)
            lo = hi
        return out


def _rows(graph: Any, lo: int, hi: int) -> Any:
    """Return some rows of a CSR matrix without copying its entries."""
    starts = graph.indptr[lo : hi + 1]
    part = slice(starts[0], starts[-1])
    entries = (graph.data[part], graph.indices[part], starts - starts[0])
    return sparse.csr_array(entries, shape=(hi - lo, graph.shape[1]))


def times_common(W: AnyArray, Q: AnyArray, out: AnyArray) -> AnyArray:
    """Write ``Q w_i`` for one symmetric Q and all nodes; W and out are (n, d, q)."""
    if W.shape[2] > 1:
        return np.matmul(Q, W, out=out)
    rows_times(W[:, :, 0], Q, out[:, :, 0])
    return out
