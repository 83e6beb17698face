"""Whole counts that follow given shares and sum to the total exactly."""

from __future__ import annotations

import numpy as np

from fedrelax.typing import FloatArray, IntArray


def largest_remainder(
    shares: FloatArray, total: int, rng: np.random.Generator | None = None
) -> IntArray:
    """Round ``total * shares`` to whole counts, row by row, so that every row sums to ``total``.

    Everyone gets the whole part; what is left goes one each to the largest remainders. Ties go to
    the first, or at random where a generator is given.

    >>> largest_remainder(np.array([[0.5, 0.3, 0.2], [0.34, 0.33, 0.33]]), 10)
    array([[5, 3, 2],
           [4, 3, 3]])
    """
    exact = total * np.asarray(shares, dtype=np.float64)
    # The small allowance keeps 10 * 0.3 = 2.9999999999999996 a whole three.
    counts = np.floor(exact + 1e-9).astype(np.int64)
    remainder = np.round(exact - counts, 9)
    tie = np.zeros_like(exact) if rng is None else rng.random(exact.shape)
    rank = np.lexsort((tie, -remainder), axis=-1).argsort(axis=-1, kind="stable")
    left = total - counts.sum(axis=-1, keepdims=True)
    return np.asarray(counts + (rank < left), dtype=np.int64)
