"""The rows of one node, and of all nodes stacked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.typing import AnyArray, IntArray
from fedrelax.validation import check_sizes


@dataclass(frozen=True)
class StackedRows:
    """The rows of all nodes, stacked: node i owns rows offsets[i]:offsets[i + 1]."""

    X: AnyArray
    y: AnyArray
    offsets: IntArray

    @classmethod
    def of(cls, X: list[AnyArray], y: list[AnyArray]) -> StackedRows:
        """Stack the arrays of all nodes."""
        offsets = np.cumsum([0, *map(len, X)], dtype=np.int64)
        return cls(np.concatenate(X), np.concatenate(y), offsets)

    @property
    def counts(self) -> IntArray:
        """The number of rows of every node."""
        return np.diff(self.offsets)

    def part(self, i: int) -> tuple[AnyArray, AnyArray]:
        """Return the rows of node number i, without a copy."""
        own = slice(self.offsets[i], self.offsets[i + 1])
        return self.X[own], self.y[own]


def width_of(X: AnyArray) -> str:
    """Return the number of features, or the shape of a row, for messages."""
    return str(X.shape[1]) if X.ndim == 2 else f"shape {X.shape[1:]}"


def numbers_of(values: Any, what: str, gaps: bool = False) -> AnyArray:
    """Return a float array; refuse infinity and, unless ``gaps``, NaN."""
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise FedRelaxError(f"{what} has an entry that is not a number ({error})") from error
    bad = np.argwhere(np.isinf(array) if gaps else ~np.isfinite(array))
    if len(bad):
        row = int(bad[0][0]) if array.ndim else 0
        raise FedRelaxError(
            f"{what} has {len(bad)} NaN or infinite value{'s' * (len(bad) != 1)}, the first in "
            f"row {row}; fill them in or leave out the rows"
        )
    check_sizes(array, what, vanishing=False)
    return array


def public_rows_of(values: Any, what: str, gaps: bool = False) -> AnyArray:
    """Return public rows as a float array with at least one row."""
    rows = numbers_of(values, f"public rows of {what}", gaps)
    if rows.ndim < 2 or len(rows) == 0:
        raise FedRelaxError(
            f"the public rows of {what} have shape {rows.shape}; give at least one row "
            "(rows x features)"
        )
    return rows
