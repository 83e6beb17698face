"""Inverses of one symmetric matrix per node, and generalised ones where there is none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedrelax.typing import AnyArray, FloatArray, IntArray


@dataclass(frozen=True)
class Inverses:
    """Symmetric (generalised) inverses (c, d, d) in float64, and how safe they are."""

    matrices: FloatArray
    condition: FloatArray
    """The condition number; for a singular matrix, that of its non-zero part."""
    rank: IntArray


def invert(matrices: AnyArray, least: FloatArray | None = None) -> Inverses:
    """Return the inverses of (c, d, d) positive semidefinite matrices.

    Where ``M w = s`` does not determine w, the generalised inverse G gives the solution ``G s`` that
    minimises ``|least w|``, with ``least`` (p, d) the same for all; by default ``|w|``. Eigenvalues
    below ``d * eps`` times the largest count as zero.
    """
    M = np.asarray(matrices, dtype=np.float64)
    d = M.shape[-1]
    cut = d * float(np.finfo(np.float64).eps)
    hopeless = np.zeros(len(M), dtype=bool)
    try:
        inverse = np.linalg.inv(M)
    except np.linalg.LinAlgError:  # a single zero pivot fails the whole batch
        hopeless = np.linalg.slogdet(M).sign == 0
        inverse = np.linalg.inv(np.where(hopeless[:, None, None], np.eye(d), M))
    condition = np.linalg.norm(M, axis=(1, 2)) * np.linalg.norm(inverse, axis=(1, 2))
    rank = np.full(len(M), d, dtype=np.int64)
    bad = np.flatnonzero(hopeless | ~(condition < 0.1 / cut))
    if bad.size:
        inverse[bad], condition[bad], rank[bad] = _generalised(M[bad], least, cut)
    symmetric: FloatArray = np.asarray(0.5 * (inverse + inverse.transpose(0, 2, 1)), np.float64)
    return Inverses(symmetric, condition, rank)


def _generalised(
    M: FloatArray, least: FloatArray | None, cut: float
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return generalised inverses, and the condition number and rank of what they invert.

    With eigenvectors N of eigenvalue zero and ``P = I - N (least N)^+ least``, the inverse is
    ``P M^+ P'``: M's pseudo-inverse, moved along N to where ``|least w|`` is smallest.
    """
    values, vectors = np.linalg.eigh(M)
    top = values[:, -1]
    keep = values > cut * top[:, None]
    inner = np.where(keep, 1 / np.where(keep, values, 1.0), 0.0)
    inverse = (vectors * inner[:, None, :]) @ vectors.transpose(0, 2, 1)
    smallest = np.where(keep, values, np.inf).min(axis=1)
    condition = np.where(keep.any(axis=1), top / smallest, 1.0)
    rank: IntArray = keep.sum(axis=1)
    free = M.shape[-1] - rank
    if least is not None:
        for k in np.unique(free[free > 0]):
            nodes = np.flatnonzero(free == k)
            N = vectors[nodes][:, :, :k]
            P = np.eye(M.shape[-1]) - N @ _left_inverse(least @ N) @ least
            inverse[nodes] = P @ inverse[nodes] @ P.transpose(0, 2, 1)
    return inverse, condition, rank


def _left_inverse(B: FloatArray) -> FloatArray:
    """Return ``B^+`` of (c, p, k) matrices, through QR where the columns are independent."""
    if B.shape[1] >= B.shape[2]:
        Q, R = np.linalg.qr(B)
        pivots = np.abs(np.diagonal(R, axis1=1, axis2=2))
        if (pivots.min(axis=1) > 1e-12 * pivots.max(axis=1)).all():
            return np.asarray(np.linalg.solve(R, Q.transpose(0, 2, 1)))
    return np.asarray(np.linalg.pinv(B))
