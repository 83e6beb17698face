"""Which rows of a node are held out."""

from __future__ import annotations

import numpy as np

from fedrelax.typing import IntArray


def hold_out(rows: int, share: float, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Return the row numbers to train on and to hold out; at least one row is left to train on.

    >>> train, held = hold_out(5, 0.4, np.random.default_rng(0))
    >>> len(train), len(held)
    (3, 2)
    >>> [len(part) for part in hold_out(1, 0.4, np.random.default_rng(0))]
    [1, 0]
    """
    count = min(round(rows * share), rows - 1)
    if share <= 0 or count < 1:
        return np.arange(rows), np.arange(0)
    order = rng.permutation(rows)
    return np.sort(order[count:]), np.sort(order[:count])
