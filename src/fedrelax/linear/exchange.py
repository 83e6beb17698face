"""The exchange: every node adds up what its neighbours send, weighted by the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from fedrelax.linear.vectors import SMALL_PRODUCT, rows_times
from fedrelax.typing import AnyArray

try:  # the compiled product that adds into an existing array; the public one allocates every time
    from scipy.sparse._sparsetools import csr_matvecs as _add_product
except ImportError:  # pragma: no cover - other scipy layouts
    _add_product = None

DENSE_MOST = 1 << 22
DENSE_SHARE = 1 / 6
"""A graph with at least this share of all pairs is multiplied as a dense matrix (measured)."""


class Exchange:
    """``out_i = start_i + scale * sum_j A_ij u_j`` for all nodes at once; u is (n, d, q)."""

    def __init__(self, adjacency: Any, width: int, scale: float = 1.0) -> None:
        n = adjacency.shape[0]
        self.n = n
        self.graph = adjacency
        if scale != 1.0:
            data = adjacency.data * adjacency.dtype.type(scale)
            self.graph = sparse.csr_array(
                (data, adjacency.indices, adjacency.indptr), shape=adjacency.shape
            )
        self._dense: AnyArray | None = None
        if n * n <= DENSE_MOST and adjacency.nnz >= DENSE_SHARE * n * n:
            cut = max(1, -(-n * n * width // SMALL_PRODUCT))
            rows = -(-n // cut)
            self._dense = np.zeros((cut, rows, n), dtype=adjacency.dtype)
            self._dense.reshape(-1, n)[:n] = self.graph.toarray()
            self._sums = np.empty((cut, rows, width), dtype=adjacency.dtype)

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
        if start is None:
            out.fill(0)
        else:
            np.copyto(out, start)
        A = self.graph
        if _add_product is None:
            out.reshape(n, -1)[...] += A @ u.reshape(n, -1)
        elif out.size:
            width = out.size // n
            _add_product(n, n, width, A.indptr, A.indices, A.data, u.reshape(-1), out.reshape(-1))
        return out


def times_common(W: AnyArray, Q: AnyArray, out: AnyArray) -> AnyArray:
    """Write ``Q w_i`` for one symmetric Q and all nodes; W and out are (n, d, q)."""
    if W.shape[2] > 1:
        return np.matmul(Q, W, out=out)
    rows_times(W[:, :, 0], Q, out[:, :, 0])
    return out
