"""Which rows of every node are labelled, and which are kept for testing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedrelax.datasets.rounding import largest_remainder
from fedrelax.errors import FedRelaxError
from fedrelax.typing import AnyArray


def labelled_split(
    nodes: Sequence[Any] | AnyArray,
    per_node: int = 20,
    random_state: int | np.random.Generator | None = 0,
    stratify: Sequence[Any] | AnyArray | None = None,
) -> npt.NDArray[np.bool_]:
    """Choose ``per_node`` rows of every node at random; return the mask of the chosen rows.

    ``nodes`` names the node of each row. With ``stratify`` (usually the class of each row) every
    node's choice follows its own class proportions, rounded. A node must keep at least one row
    outside the choice, so one with ``per_node`` rows or fewer is an error, not a smaller choice.

    >>> labelled_split(["a"] * 3 + ["b"] * 4, per_node=2).sum()
    np.int64(4)
    """
    if not isinstance(per_node, (int, np.integer)) or per_node < 1:
        raise FedRelaxError(f"per_node is {per_node!r}; give a whole number, 1 or more")
    labels, node = np.unique(_column("nodes", nodes), return_inverse=True)
    group = np.zeros(len(node), dtype=np.int64)
    if stratify is not None:
        group = np.unique(_column("stratify", stratify), return_inverse=True)[1]
        if len(group) != len(node):
            raise FedRelaxError(
                f"stratify has {len(group)} entries and nodes has {len(node)}; give one per row"
            )
    counts = np.zeros((len(labels), group.max() + 1), dtype=np.int64)
    np.add.at(counts, (node, group), 1)
    rows = counts.sum(axis=1)
    short = np.flatnonzero(rows <= per_node)
    if len(short):
        raise FedRelaxError(
            f"node {labels.tolist()[short[0]]!r} has {rows[short[0]]} rows, so {per_node} labelled "
            f"rows leave none for testing; lower per_node or leave the node out"
            + (f" ({len(short)} nodes are this small)" if len(short) > 1 else "")
        )
    rng = np.random.default_rng(random_state)
    wanted = largest_remainder(counts / rows[:, None], int(per_node), rng)
    order = np.lexsort((rng.random(len(node)), group, node))
    start = (np.cumsum(counts.ravel()) - counts.ravel()).reshape(counts.shape)
    rank = np.empty(len(node), dtype=np.int64)
    rank[order] = np.arange(len(node))
    chosen: npt.NDArray[np.bool_] = rank - start[node, group] < wanted[node, group]
    return chosen


def _column(name: str, values: Sequence[Any] | AnyArray) -> AnyArray:
    column = np.asarray(values)
    if column.ndim != 1 or not len(column):
        raise FedRelaxError(
            f"{name} has shape {column.shape}; give one entry per row, at least one row"
        )
    return column
