"""Tables of any library as pandas DataFrames; finding a column, telling what it holds, naming a bad row."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from typing import Any, Literal

import numpy as np

from fedrelax.errors import FedRelaxError, did_you_mean, listing
from fedrelax.schema.numbers import read_texts
from fedrelax.typing import DataFrame, FloatArray, Index, Series

DATE_LIKE = r"\d.*[-/.:].*\d"
Kind = Literal["numbers", "dates", "text", "nothing"]
INFERRED: dict[str, Kind] = {
    **dict.fromkeys(
        ("integer", "floating", "mixed-integer-float", "boolean", "decimal"), "numbers"
    ),
    **dict.fromkeys(("date", "datetime", "datetime64", "period", "timedelta64"), "dates"),
    **dict.fromkeys(("categorical", "complex"), "text"),
}
"""What pandas infers of values, where that tells what they are."""
EXACT = 2**53
"""Whole numbers beyond this are taken for names: as floats, some of them would coincide."""


def find_column(frame: DataFrame, name: Hashable) -> Hashable:
    """Return the column called ``name``; surrounding blanks do not matter.

    >>> import pandas as pd
    >>> find_column(pd.DataFrame({" wind speed ": [1.0]}), "wind speed")
    ' wind speed '
    """
    label = named_column(frame, name)
    if label is not None:
        return label
    hint = did_you_mean(name, frame.columns) or "; name one of the table's columns"
    raise FedRelaxError(
        f"there is no column {name!r} among {listing(frame.columns, most=12)}{hint}"
    )


def named_column(frame: DataFrame, name: Hashable) -> Hashable | None:
    """Return the column called ``name``, or None."""
    if name in frame.columns:
        return name
    alike = [label for label in frame.columns if str(label).strip() == str(name).strip()]
    return alike[0] if len(alike) == 1 else None


def where(index: Index, position: int) -> str:
    """Name a row as the user knows it: by its line in the file, or by its index."""
    label = index[position]
    if isinstance(label, np.generic):
        label = label.item()
    return f"line {label}" if index.name == "line" else f"the row with index {label!r}"


def kind_of(column: Series) -> Kind:
    """Say what a column holds: numbers (also true/false), dates, text, or nothing at all.

    >>> import pandas as pd
    >>> [kind_of(pd.Series(v)) for v in ([1, 2], [True, None], ["2024-01-31"], ["a"], [None])]
    ['numbers', 'numbers', 'dates', 'text', 'nothing']
    """
    from pandas.api import types

    present = column.dropna()
    if present.empty:
        return "nothing"
    inferred = types.infer_dtype(present, skipna=True)
    if inferred in INFERRED:
        return INFERRED[inferred]
    return "dates" if _look_like_dates(present) else "text"


def to_numbers(column: Series) -> FloatArray:
    """Return the column as floats, NaN where a value is missing; integers too large become infinite."""
    try:
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    except OverflowError:
        texts = column.astype(object).where(column.notna(), "nan").astype(str)
        return np.array([float(text) for text in texts], dtype=np.float64)


def _look_like_dates(present: Series) -> bool:
    import pandas as pd

    sample = present.iloc[:50].astype(str).str.strip()
    if not sample.str.contains(DATE_LIKE, regex=True).all():
        return False
    if np.isfinite(read_texts(sample).values).all():  # 1.234,5 could pass for a date
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bool(pd.to_datetime(sample, errors="coerce", utc=True).notna().all())


def is_frame(table: object) -> bool:
    """Tell whether this is a DataFrame of pandas, polars or another library, or one yet to be collected."""
    kind = type(table)
    methods = ("iloc", "to_dict", "collect")
    return hasattr(kind, "columns") and any(hasattr(kind, name) for name in methods)


def as_frame(table: Any) -> DataFrame:
    """Return a DataFrame of any library as a pandas DataFrame.

    >>> import pandas as pd
    >>> as_frame(pd.DataFrame({"a": [1]})).shape
    (1, 1)
    """
    import pandas as pd

    if isinstance(table, pd.DataFrame):
        return table
    import narwhals as nw

    try:
        frame = nw.from_native(table)
        frame = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
    except TypeError as error:
        raise FedRelaxError(
            f"X is a {type(table).__name__}; give a pandas or polars DataFrame, or an array"
        ) from error
    columns = {name: pd.Series(frame[name].to_list()) for name in frame.columns}
    for name, kind in frame.schema.items():
        if isinstance(kind, nw.Datetime | nw.Date):
            columns[name] = pd.to_datetime(columns[name], utc=True)
    return pd.DataFrame(columns)
