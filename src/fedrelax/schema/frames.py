"""DataFrames of any library, converted to pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedrelax.errors import FedRelaxError

if TYPE_CHECKING:
    import pandas as pd


def is_frame(given: Any) -> bool:
    """Tell whether this is a DataFrame of pandas, polars or another library."""
    return hasattr(given, "columns") and (hasattr(given, "iloc") or hasattr(given, "to_dict"))


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
        table = nw.from_native(given, eager_only=True)
    except TypeError as error:
        raise FedRelaxError(
            f"X is a {type(given).__name__}; give a pandas or polars DataFrame, or an array"
        ) from error
    columns = {}
    for name in table.columns:
        column = table[name]
        if isinstance(column.dtype, nw.Datetime | nw.Date):
            columns[name] = pd.to_datetime(pd.Series(column.to_list()))
        else:
            columns[name] = pd.Series(column.to_list())
    return pd.DataFrame(columns)
