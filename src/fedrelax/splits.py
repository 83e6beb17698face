"""Which rows of a node are held out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fedrelax.typing import AnyArray, IntArray, Label

TEST_STREAM = 2
"""Keeps the draw of test rows apart from other draws under one seed."""


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


def training_mask(
    rows: Mapping[Label, AnyArray], share: float, rng: np.random.Generator
) -> npt.NDArray[np.bool_]:
    """Return the mask of the training rows: all but a share of every node's row numbers ``rows``.

    >>> rows = {"a": np.array([0, 2, 4, 6]), "b": np.array([1, 3]), "c": np.array([5])}
    >>> mask = training_mask(rows, 0.5, np.random.default_rng(0))
    >>> {label: int(mask[index].sum()) for label, index in rows.items()}
    {'a': 2, 'b': 1, 'c': 1}
    """
    train = np.ones(sum(map(len, rows.values())), dtype=bool)
    for index in rows.values():
        _, held = hold_out(len(index), share, rng)
        train[index[held]] = False
    return train
