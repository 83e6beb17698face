"""Products over all nodes in small pieces, on one BLAS thread.

Starting threads for products of this size gains little, and can stall for long on a busy machine.
"""

from __future__ import annotations

import numpy as np

from fedrelax.typing import AnyArray

PIECE = 4096
"""Length of inner products up to which BLAS stays on one thread."""
SMALL_PRODUCT = 1 << 18
"""Multiplications in a matrix product up to which BLAS stays on one thread."""


def dot(x: AnyArray, y: AnyArray) -> float:
    """Return the inner product, piece by piece.

    >>> dot(np.full((5, 2000), 0.5), np.full((5, 2000), 2.0))
    10000.0
    """
    x, y = x.reshape(-1), y.reshape(-1)
    whole = x.size - x.size % PIECE
    total = float(np.dot(x[whole:], y[whole:]))
    if whole:
        pieces = np.vecdot(x[:whole].reshape(-1, PIECE), y[:whole].reshape(-1, PIECE))
        total += float(pieces.sum())
    return total


def norm(x: AnyArray) -> float:
    """Return the Euclidean norm over all nodes."""
    return float(np.sqrt(dot(x, x)))


def scale_of(b: AnyArray) -> float:
    """Return the norm of b that residuals are relative to; 1 if b is zero."""
    return norm(b) or 1.0


def rows_times(rows: AnyArray, B: AnyArray, out: AnyArray) -> AnyArray:
    """Write ``rows @ B``, (r, a) times (a, b), a few rows at a time; rows and out are contiguous."""
    r, a = rows.shape
    b = B.shape[1]
    few = max(1, SMALL_PRODUCT // max(1, a * b))
    cut = r // few
    whole = cut * few
    if cut:
        np.matmul(rows[:whole].reshape(cut, few, a), B, out=out[:whole].reshape(cut, few, b))
    np.matmul(rows[whole:], B, out=out[whole:])
    return out
