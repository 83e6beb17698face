"""DataFrames of any library, converted to pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedrelax.errors import FedRelaxError

if TYPE_CHECKING:
    import pandas as pd


def is_frame(given: Any) -> bool:
    """Tell whether this is a DataFrame of pandas, polars or another library, or one yet to be collected."""
    kind = type(given)
    methods = ("iloc", "to_dict", "collect")
    return hasattr(kind, "columns") and any(hasattr(kind, name) for name in methods)


def as_frame(given: Any) -> pd.DataFrame:
    """Return a DataFrame of any library as a pandas DataFrame.

    >>> import pandas as pd
    >>> as_frame(pd.DataFrame({"a": [1]})).shape
    (1, 1)
    """
    import pandas as pd

    if isinstance(given, pd.DataFrame):
        return given
    import narwhals as nw

    try:
        table = nw.from_native(given)
        table = table.collect() if isinstance(table, nw.LazyFrame) else table
    except TypeError as error:
        raise FedRelaxError(
            f"X is a {type(given).__name__}; give a pandas or polars DataFrame, or an array"
        ) from error
    columns = {}
    for name in table.columns:
        column = table[name]
        if isinstance(column.dtype, nw.Datetime | nw.Date):
            columns[name] = pd.to_datetime(pd.Series(column.to_list()), utc=True)
        else:
            columns[name] = pd.Series(column.to_list())
    return pd.DataFrame(columns)


def index_of(given: Any) -> pd.Index:
    """Return what rows are called: the index of a pandas DataFrame, else their numbers."""
    import pandas as pd

    return given.index if isinstance(given, pd.DataFrame) else pd.RangeIndex(len(given))
