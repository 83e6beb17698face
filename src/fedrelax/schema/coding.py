"""From the values of a table's column to numbers in rows, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.schema.column import Column, Texts
from fedrelax.schema.dates import read_dates
from fedrelax.schema.kinds import where
from fedrelax.schema.numbers import FILE_MARK, Mark, read_texts, strange
from fedrelax.typing import AnyArray, FloatArray

if TYPE_CHECKING:
    import pandas as pd

FALSE, TRUE = ("false", "no", "f", "n", "0", "0.0"), ("true", "yes", "t", "y", "1", "1.0")


def texts_of(column: pd.Series) -> AnyArray:
    """Return each value as text without surrounding blanks, None where it is missing.

    Whole numbers that became floats because of a gap are written as whole numbers.
    """
    missing = column.isna().to_numpy(dtype=bool)
    values = column.astype(object).to_numpy()
    floats = [v for v, gone in zip(values, missing, strict=True) if not gone]
    whole = all(isinstance(v, float) and v.is_integer() for v in floats)
    found = np.empty(len(values), dtype=object)
    for k, (value, gone) in enumerate(zip(values, missing, strict=True)):
        text = None if gone else str(int(value)) if whole else str(value).strip()
        found[k] = text or None
    return found


def read_numbers(column: pd.Series, decimal: Mark) -> FloatArray:
    """Return the column as floats, NaN for values that are missing, infinite or not a number.

    ``decimal`` is the decimal mark for texts that could be read with either; without one, and without
    one of the file's, these are NaN.
    """
    import pandas as pd

    if not pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        found = read_texts(column, decimal)
        certain = not found.unsure or decimal or FILE_MARK in column.attrs
        return found.values if certain else np.full(len(column), np.nan)
    values = np.array(column.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)
    values[~np.isfinite(values)] = np.nan
    return values


def read_flags(column: pd.Series) -> FloatArray:
    """Return 0 for false, 1 for true, NaN for anything else."""
    words = {**dict.fromkeys(FALSE, 0.0), **dict.fromkeys(TRUE, 1.0)}
    return np.array(
        [np.nan if text is None else words.get(text.lower(), np.nan) for text in texts_of(column)]
    )


def code_column(
    column: Column, given: pd.Series, texts: Texts | None = None, source: str = "the table"
) -> FloatArray:
    """Return the numbers that stand for a column's values in rows."""
    if column.kind in ("category", "text"):
        found = texts_of(given)
        known = np.array([text is not None for text in found], dtype=bool)
        codes = np.full(len(found), np.nan)
        if column.kind == "text":
            assert texts is not None
            codes[known] = texts.codes(found[known])
        else:
            places = {text: k for k, text in enumerate(column.categories)}
            codes[known] = [places.get(text, len(places)) for text in found[known]]
        return codes
    if column.kind == "date":
        values = read_dates(given, column.order)
    else:
        number = column.kind == "number"
        values = read_numbers(given, column.decimal) if number else read_flags(given)
    bad = strange(given, values)
    if len(bad) and len(bad) * 2 > int(given.notna().sum()):
        place = int(bad[0])
        raise FedRelaxError(
            f"{source}: column {column.name!r} must hold {column.kind}s, as in training, but has "
            f"{str(given.iloc[place])!r} on {where(given.index, place)}; correct it"
        )
    return values


def decode_column(column: Column, codes: FloatArray, texts: Texts | None = None) -> Any:
    """Return the values as a column of the matching pandas or numpy type."""
    import pandas as pd

    missing = np.isnan(codes)
    if column.kind == "number":
        return codes
    if column.kind == "flag":
        return codes if missing.any() else codes.astype(bool)
    if column.kind == "date":
        moments = pd.to_datetime(np.where(missing, 0, codes) * 1e6, unit="us")
        return pd.Series(moments).mask(pd.Series(missing))
    if column.kind == "text":
        assert texts is not None
        found = np.full(len(codes), None, dtype=object)
        found[~missing] = texts.texts(codes[~missing])
        return found
    places = np.where(missing | (codes >= len(column.categories)), -1, codes).astype(int)
    return pd.Categorical.from_codes(places.tolist(), categories=list(column.categories))
