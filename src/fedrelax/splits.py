"""Which rows belong to which node, and which of them are held out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fedrelax.errors import FedRelaxError
from fedrelax.typing import AnyArray, IntArray, Label

Part = tuple[dict[Label, AnyArray], dict[Label, AnyArray]]
"""The row numbers of every node to train on, and those that are held out."""

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


def deal(rows: Mapping[Label, AnyArray], folds: int, rng: np.random.Generator) -> list[Part]:
    """Return, for each fold, the row numbers of every node to train on and those to hold out.

    A single row is never held out. Folds in which no node holds out a row are left out, so nodes
    with one row each give none at all.

    >>> rows = {"a": np.arange(4), "b": np.array([4])}
    >>> parts = deal(rows, 2, np.random.default_rng(0))
    >>> [(len(train["a"]), len(held["a"]), len(train["b"])) for train, held in parts]
    [(2, 2, 1), (2, 2, 1)]
    """
    dealt = {
        label: rng.permutation(np.arange(len(index)) % folds) if len(index) > 1 else np.full(1, -1)
        for label, index in rows.items()
    }
    parts = []
    for part in range(folds):
        held = {label: index[dealt[label] == part] for label, index in rows.items()}
        train = {label: index[dealt[label] != part] for label, index in rows.items()}
        if any(map(len, held.values())):
            parts.append((train, held))
    return parts


def as_seed(random_state: Any) -> int:
    """Return a whole number from ``random_state``: a number, None (anew each time) or a generator.

    >>> as_seed(7), as_seed(np.random.default_rng(0)) == as_seed(np.random.default_rng(0))
    (7, True)
    """
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        return int(random_state)
    if random_state is None:
        random_state = np.random.default_rng()
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    raise FedRelaxError(
        f"random_state={random_state!r} must be a whole number, None, a numpy.random.Generator or a "
        "RandomState"
    )


def group_rows(nodes: Any, n_rows: int) -> dict[Label, AnyArray]:
    """Return the row numbers of every node, nodes in the order of their first row."""
    import pandas as pd

    if hasattr(nodes, "to_numpy"):
        labels = nodes.to_numpy()
    elif isinstance(nodes, np.ndarray):
        labels = nodes.astype(object)
    else:
        labels = np.fromiter(nodes, dtype=object)  # Labels that are tuples stay whole.
    if labels.ndim != 1 or len(labels) != n_rows:
        raise FedRelaxError(f"nodes has shape {labels.shape}, but X has {n_rows} rows")
    codes, names = pd.factorize(labels)
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        raise FedRelaxError(f"nodes has a missing label in row {row}; every row needs a node")
    order = np.argsort(codes, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(codes, minlength=len(names)))[:-1])
    return {
        (name.item() if isinstance(name, np.generic) else name): part
        for name, part in zip(names, parts, strict=True)
    }
