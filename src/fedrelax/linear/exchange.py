"""The exchange: every node adds up what its neighbours send, weighted by the graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrelax.typing import AnyArray

try:  # the compiled product that adds into an existing array; the public one allocates every time
    from scipy.sparse._sparsetools import csr_matvecs as _add_product
except ImportError:  # pragma: no cover - other scipy layouts
    _add_product = None

DENSE_MOST = 1 << 22
DENSE_SHARE = 1 / 7
"""A graph with at least this share of all pairs is multiplied as a dense matrix (measured)."""


class Exchange:
    """``out_i = start_i + sum_j A_ij u_j`` for all nodes at once."""

    def __init__(self, adjacency: Any) -> None:
        n = adjacency.shape[0]
        self.adjacency = adjacency
        self._dense: AnyArray | None = None
        if n * n <= DENSE_MOST and adjacency.nnz >= DENSE_SHARE * n * n:
            self._dense = adjacency.toarray()

    @property
    def nbytes(self) -> int:
        """Bytes of the graph that one exchange reads."""
        if self._dense is not None:
            return int(self._dense.nbytes)
        A = self.adjacency
        return int(A.data.nbytes + A.indices.nbytes + A.indptr.nbytes)

    def __call__(self, u: AnyArray, out: AnyArray, start: AnyArray | None = None) -> AnyArray:
        """Write the neighbour sums of ``u`` (n, d, q), plus ``start``, into ``out``."""
        n = u.shape[0]
        if self._dense is not None:
            np.matmul(self._dense, u.reshape(n, -1), out=out.reshape(n, -1))
            return out if start is None else np.add(out, start, out=out)
        if start is None:
            out.fill(0)
        else:
            np.copyto(out, start)
        A = self.adjacency
        if _add_product is None:
            out.reshape(n, -1)[...] += A @ u.reshape(n, -1)
        elif out.size:
            width = out.size // n
            _add_product(n, n, width, A.indptr, A.indices, A.data, u.reshape(-1), out.reshape(-1))
        return out
