"""New rows for a saved result: from a table's values to numbers like those its models were trained on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.schema import Column, Preparation, Schema
from fedrelax.schema.kinds import where
from fedrelax.storage.loading import SavedResult
from fedrelax.typing import FloatArray

if TYPE_CHECKING:
    import pandas as pd


def preparation_of(saved: SavedResult) -> Preparation:
    """Return what the columns mean; without a schema, they are numbers."""
    if saved.preparation is not None:
        return saved.preparation
    names = saved.about["feature_names"]
    return Preparation(Schema(tuple(Column(name, "number") for name in names)))


def coded_rows(
    saved: SavedResult, frame: pd.DataFrame, nodes: Any, source: str, note: Callable[[str], None]
) -> FloatArray:
    """Return the rows as numbers, one per column of training; ``note`` is told what was not seen there.

    ``source`` is the name of the table in messages.
    """
    ready = preparation_of(saved)
    absent = ready.absent(nodes)
    coded = ready.schema.code(frame, source, absent=absent)
    for column, values in zip(ready.schema.columns, coded.T, strict=True):
        gone = np.flatnonzero(np.isnan(values))
        if len(gone) and column.name not in absent and not column.gaps:
            found = (
                f"column {column.name!r} has {len(gone)} values that are missing or not a "
                f"{column.kind}, the first on {where(frame.index, int(gone[0]))}"
            )
            if ready.is_plain:
                raise FedRelaxError(
                    f"{source}: {found}; training had none, so fill them in or leave these rows out"
                )
            if not ready.lacks:
                note(f"{found}; training had none, so they count as average.")
        new = np.flatnonzero(values == len(column.categories))
        if column.kind == "category" and len(new) and not column.others:
            note(
                f"column {column.name!r} has {len(new)} values that were not seen in training, the "
                f"first on {where(frame.index, int(new[0]))}; they count as average."
            )
    for text in ready.schema.far_outside(coded, frame.index):
        note(text)
    return coded
