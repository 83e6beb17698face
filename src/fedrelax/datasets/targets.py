"""The target of a table: is it a number to predict or a class, and can it be learned at all?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from fedrelax.errors import FedRelaxError, counted
from fedrelax.schema.inferring import notes_on_numbers, numbers_in
from fedrelax.schema.kinds import first_text, is_whole, kind_of, to_numbers, where
from fedrelax.typing import AnyArray

if TYPE_CHECKING:
    import pandas as pd

Task = Literal["regression", "classification"]
MOST_CODES = 20
"""With more different whole numbers than this, ``task="auto"`` takes them as quantities."""


def prepare_target(
    column: pd.Series,
    frame: pd.DataFrame,
    task: Literal["auto"] | Task,
    gaps: bool,
    notes: list[str],
) -> tuple[AnyArray, Task, AnyArray | None]:
    """Return the targets, the task and the classes (None for regression).

    ``column`` is complete; ``gaps`` says whether rows were dropped from ``frame`` to make it so.
    Whole numbers in a column with gaps arrive as floats, and are taken as whole again.
    """
    if task not in ("auto", "regression", "classification"):
        raise FedRelaxError(
            f"task is {task!r}; give 'auto', 'regression' or 'classification' instead"
        )
    found: Task = _guess(column, frame, gaps, notes) if task == "auto" else task
    if found == "regression":
        return _quantities(column), found, None
    y = _labels(column, notes)
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) == 1:
        raise FedRelaxError(
            f"target column {column.name!r} holds the single class {classes.tolist()[0]!r}, so "
            f"there is nothing to learn; give rows of at least two classes"
        )
    if counts.max() == 1:
        raise FedRelaxError(
            f"target column {column.name!r} has a different class in each of its {len(y)} rows, so "
            f"there is nothing to learn; name another column as target"
        )
    return y, found, classes


def as_quantities(column: pd.Series, notes: list[str]) -> pd.Series:
    """Return a column of text as numbers if nearly all of it is, however written; any other as it is.

    What is no number becomes missing, and ``notes`` say so.
    """
    import pandas as pd

    text = kind_of(column) == "text" and not isinstance(column.dtype, pd.CategoricalDtype)
    reading = numbers_in(column) if text else None
    if reading is None:
        return column
    notes += notes_on_numbers(column, reading)
    return pd.Series(reading.values, column.index, name=column.name)


def _guess(column: pd.Series, frame: pd.DataFrame, gaps: bool, notes: list[str]) -> Task:
    """Choose the task, and say so where a user could have meant the other one."""
    from pandas.api import types

    kind = kind_of(column)
    if kind == "dates":
        raise FedRelaxError(
            f"target column {column.name!r} holds dates such as {str(column.iloc[0])!r}; turn them "
            f"into numbers, or name another column as target"
        )
    if kind == "text":
        place, value, strange = first_text(column)
        if 0 < strange < len(column) / 2:
            raise FedRelaxError(
                f"target column {column.name!r} holds numbers except in {counted(strange, 'row')}, such as "
                f"{value!r} on {where(column.index, place)}; correct these rows, or give "
                f"task='classification' if they are classes"
            )
        return "classification"
    if types.infer_dtype(column, skipna=True) == "boolean":
        return "classification"
    numbers = to_numbers(column)
    whole = is_whole(column) or (gaps and frame[column.name].isna().any() and _integral(numbers))
    if not whole:
        return "regression"
    values, counts = np.unique(numbers, return_counts=True)
    codes = len(values) <= MOST_CODES and counts.min() >= 2
    if codes and (values[0] >= 0 or len(values) == 2):
        notes.append(
            f"Target column {column.name!r} holds {len(values)} different whole numbers, taken as "
            f"classes; give task='regression' if they are quantities."
        )
        return "classification"
    notes.append(
        f"Target column {column.name!r} holds {len(values)} different whole numbers, taken as "
        f"quantities; give task='classification' if they are classes."
    )
    return "regression"


def _quantities(column: pd.Series) -> AnyArray:
    if kind_of(column) != "numbers":
        place, value, _ = first_text(column)
        raise FedRelaxError(
            f"target column {column.name!r} holds {kind_of(column)} such as {str(value)!r} on "
            f"{where(column.index, place)}, which regression cannot predict; correct it, or "
            f"give task='classification'"
        )
    y = to_numbers(column)
    if np.ptp(y) == 0:
        raise FedRelaxError(
            f"target column {column.name!r} is {y[0]:g} in every row, so there is nothing to "
            f"learn; name another column as target"
        )
    return y


def _labels(column: pd.Series, notes: list[str]) -> AnyArray:
    """Class labels of one type: true/false, whole numbers, or text without spaces around it."""
    from pandas.api import types

    if types.infer_dtype(column, skipna=True) == "boolean":
        return np.asarray(column.tolist(), dtype=bool)
    if kind_of(column) == "numbers":
        numbers = to_numbers(column)
        if not _integral(numbers):
            decimal = numbers[numbers != np.floor(numbers)][0]
            raise FedRelaxError(
                f"target column {column.name!r} holds decimal numbers such as {decimal:g}, which "
                f"are not classes; give task='regression', or whole numbers"
            )
        return numbers.astype(np.int64)
    if all(isinstance(label, (int, np.integer)) for label in column.tolist()):
        return np.asarray(column.tolist(), dtype=np.int64)
    labels = [str(label) for label in column.tolist()]
    stripped = [label.strip() for label in labels]
    if stripped != labels:
        notes.append(f"Spaces around classes in target column {column.name!r} are removed.")
    return np.asarray(stripped, dtype=np.str_)


def _integral(numbers: AnyArray) -> bool:
    return bool(np.all(numbers == np.floor(numbers)))
