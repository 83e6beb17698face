"""One symmetric positive semidefinite matrix per node, in the smaller of two forms."""

from __future__ import annotations

import numpy as np

from fedrelax.typing import AnyArray, FloatArray

CACHE_BYTES = 1 << 19
"""Low-rank products go node group by node group of this size, so that rows are read once."""


class Blocks:
    """Matrices ``G_i`` for all nodes: as ``G_i`` itself (n, d, d) or as rows ``F_i`` (n, m, d).

    The row form means ``G_i = F_i' F_i`` and is the smaller one when m < d. Rows of zeros change
    nothing, so nodes with fewer rows are padded.
    """

    def __init__(self, array: AnyArray, *, low_rank: bool) -> None:
        self.array = array
        self.low_rank = low_rank
        self.n, _, self.d = array.shape
        self._group = max(1, CACHE_BYTES // max(1, array[:1].nbytes))

    @property
    def nbytes(self) -> int:
        """Bytes held."""
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

    def dense(self, nodes: slice | AnyArray = slice(None)) -> AnyArray:
        """Return ``G_i`` (c, d, d) of the given nodes in the stored precision."""
        part = self.array[nodes]
        return np.matmul(part.transpose(0, 2, 1), part) if self.low_rank else part

    def row(self, a: int) -> AnyArray:
        """Return row ``a`` of every ``G_i``, as (n, d)."""
        if not self.low_rank:
            return np.ascontiguousarray(self.array[:, a, :])
        column = self.array[:, None, :, a]
        return np.ascontiguousarray(np.matmul(column, self.array)[:, 0, :])


def invert(matrices: AnyArray, *, intercept_last: bool) -> FloatArray:
    """Return the symmetric generalised inverse of each of (c, d, d) matrices, in float64.

    Invertible: the inverse. Otherwise the Moore-Penrose inverse, so that ``G b`` is the solution of
    least Euclidean norm. With ``intercept_last`` the norm is taken over all entries but the last:
    the intercept is eliminated first, and what remains is solved at minimum norm, as scikit-learn
    does on centred data. Eigenvalues below ``d * eps`` times the largest count as zero.
    """
    M = np.asarray(matrices, dtype=np.float64)
    eps = np.finfo(matrices.dtype).eps
    d = M.shape[-1]
    try:
        inverse = np.linalg.inv(M)
    except np.linalg.LinAlgError:
        return _generalised(M, intercept_last, d * eps)
    size = np.linalg.norm(M, axis=(1, 2)) * np.linalg.norm(inverse, axis=(1, 2))
    bad = np.flatnonzero(~(size < 0.1 / (d * eps)))
    if bad.size:
        inverse[bad] = _generalised(M[bad], intercept_last, d * eps)
    symmetric: FloatArray = np.asarray(0.5 * (inverse + inverse.transpose(0, 2, 1)), np.float64)
    return symmetric


def _generalised(M: FloatArray, intercept_last: bool, cut: float) -> FloatArray:
    """Return generalised inverses through eigenvalues, the intercept eliminated first."""
    out = np.zeros_like(M)
    corner = M[:, -1, -1]
    through = intercept_last & (corner > 0)
    plain = np.flatnonzero(~through)
    if plain.size:
        out[plain] = np.linalg.pinv(M[plain], rcond=cut, hermitian=True)
    nodes = np.flatnonzero(through)
    if nodes.size:
        c = corner[nodes, None, None]
        k = M[nodes, :-1, -1:]
        schur = M[nodes, :-1, :-1] - k @ k.transpose(0, 2, 1) / c
        # Relative to the whole matrix: a Schur complement of pure rounding counts as zero.
        scale = np.abs(M[nodes]).max(axis=(1, 2))
        P = _pinv_above(schur, cut * scale)
        Pk = P @ k
        out[nodes, :-1, :-1] = P
        out[nodes, :-1, -1:] = -Pk / c
        out[nodes, -1:, :-1] = -Pk.transpose(0, 2, 1) / c
        out[nodes, -1:, -1:] = 1 / c + k.transpose(0, 2, 1) @ Pk / c**2
    return out


def _pinv_above(M: FloatArray, threshold: FloatArray) -> FloatArray:
    """Return pseudo-inverses that drop eigenvalues at or below each node's threshold."""
    if M.shape[-1] == 0:
        return M
    values, vectors = np.linalg.eigh(M)
    keep = values > threshold[:, None]
    scaled = np.where(keep, 1 / np.where(keep, values, 1.0), 0.0)
    result: FloatArray = (vectors * scaled[:, None, :]) @ vectors.transpose(0, 2, 1)
    return result
