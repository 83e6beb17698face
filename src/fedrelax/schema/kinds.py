"""Tables of any library as pandas DataFrames; finding a column, telling what it holds, naming a bad row."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Hashable, Sized
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fedrelax.errors import FedRelaxError, did_you_mean, listing
from fedrelax.schema.numbers import read_texts
from fedrelax.typing import FloatArray

if TYPE_CHECKING:
    import pandas as pd

DATE_LIKE = r"\d.*[-/.:].*\d"
Kind = Literal["numbers", "dates", "text", "nothing"]


def find_column(frame: pd.DataFrame, name: Hashable) -> Hashable:
    """Return the column called ``name``; surrounding blanks do not matter.

    >>> import pandas as pd
    >>> find_column(pd.DataFrame({" wind speed ": [1.0]}), "wind speed")
    ' wind speed '
    """
    if name in frame.columns:
        return name
    plain = {c: unicodedata.normalize("NFC", str(c)).strip() for c in (name, *frame.columns)}
    same: list[Hashable] = [c for c in frame.columns if plain[c] == plain[name]]
    if len(same) == 1:
        return same[0]
    hint = did_you_mean(name, frame.columns) or "; name one of the table's columns"
    raise FedRelaxError(
        f"there is no column {name!r} among {listing(frame.columns, most=12)}{hint}"
    )


def where(index: pd.Index, position: int) -> str:
    """Name a row as the user knows it: by its line in the file, or by its index."""
    label = index[position]
    if isinstance(label, np.generic):
        label = label.item()
    return f"line {label}" if index.name == "line" else f"the row with index {label!r}"


def kind_of(column: pd.Series) -> Kind:
    """Say what a column holds: numbers (also true/false), dates, text, or nothing at all.

    >>> import pandas as pd
    >>> [kind_of(pd.Series(v)) for v in ([1, 2], [True, None], ["2024-01-31"], ["a"], [None])]
    ['numbers', 'numbers', 'dates', 'text', 'nothing']
    """
    import pandas as pd
    from pandas.api import types

    present = column.dropna()
    if present.empty:
        return "nothing"
    if isinstance(column.dtype, pd.CategoricalDtype) or types.is_complex_dtype(column):
        return "text"
    if isinstance(column.dtype, pd.PeriodDtype) or types.is_timedelta64_dtype(column):
        return "dates"
    if types.is_datetime64_any_dtype(column):
        return "dates"
    if types.is_numeric_dtype(column) or types.is_bool_dtype(column):
        return "numbers"
    inferred = types.infer_dtype(present, skipna=True)
    if inferred in ("integer", "floating", "mixed-integer-float", "boolean", "decimal"):
        return "numbers"
    return "dates" if inferred in ("date", "datetime") or _look_like_dates(present) else "text"


def to_numbers(column: pd.Series) -> FloatArray:
    """Return the column as floats, NaN where a value is missing; integers too large become infinite."""
    try:
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    except OverflowError:
        return np.array([_as_float(value) for value in column], dtype=np.float64)


def _as_float(value: Any) -> float:
    try:
        return float("nan") if value is None else float(value)
    except OverflowError:
        return float("inf")


def is_whole(column: pd.Series) -> bool:
    """Say whether a column of numbers was given as integers or true/false."""
    from pandas.api import types

    if column.dtype == object:
        return types.infer_dtype(column, skipna=True) in ("integer", "boolean")
    return bool(types.is_integer_dtype(column) or types.is_bool_dtype(column))


def first_text(column: pd.Series) -> tuple[int, object, int]:
    """Return position and value of the first entry that is not a number, and how many such there are."""
    import pandas as pd

    numbers = pd.to_numeric(column.astype(object), errors="coerce")
    bad = np.flatnonzero((numbers.isna() & column.notna()).to_numpy())
    row = int(bad[0]) if len(bad) else int(np.flatnonzero(column.notna())[0])
    return row, column.iloc[row], len(bad)


def _look_like_dates(present: pd.Series) -> bool:
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


def as_frame(table: Any) -> pd.DataFrame:
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
    columns = {}
    for name in frame.columns:
        column = frame[name]
        if isinstance(column.dtype, nw.Datetime | nw.Date):
            columns[name] = pd.to_datetime(pd.Series(column.to_list()), utc=True)
        else:
            columns[name] = pd.Series(column.to_list())
    return pd.DataFrame(columns)


def index_of(table: Sized) -> pd.Index:
    """Return what rows are called: the index of a pandas DataFrame, else their numbers."""
    import pandas as pd

    return table.index if isinstance(table, pd.DataFrame) else pd.RangeIndex(len(table))
