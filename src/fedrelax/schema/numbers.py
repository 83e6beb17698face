"""Numbers as people write them: with decimal commas, thousands separators, currencies and percent signs."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from numbers import Number
from typing import Any, Literal

import numpy as np

from fedrelax.typing import AnyArray, FloatArray, Series

MISSING = frozenset(
    [
        *("", "NA", "N/A", "n/a", "nan", "NaN", "NAN", "-nan", "-NaN", "null", "NULL", "None"),
        *("<NA>", "#N/A", "#NA", "#N/A N/A", "1.#IND", "1.#QNAN", "-1.#IND", "-1.#QNAN", "?", "-"),
        *("na", "none", "missing", "--", "\u2013", "\u2014"),
        *("#DIV/0!", "#VALUE!", "#REF!", "#NUM!"),
    ]
)
"""Texts that mean a missing value in columns of numbers and dates."""

Mark = Literal["", ".", ","]
MARKS: tuple[Mark, ...] = (".", ",")
"""The decimal marks. The other one of the two may separate thousands, as may blanks and apostrophes."""
LONGEST = 16
"""Whole numbers with more digits are codes: as floats, some of them would coincide."""
FILE_MARK = "decimal"
"""Where ``read_table`` notes, in ``frame.attrs``, the decimal mark that suits the file's separator."""

SIGN = r"(?:%|[A-Z]{0,2}[$€£¥]|EUR|USD|GBP|CHF)"
"""Currencies and percent, before or after a number; they are left out."""
PLAIN = re.compile(r"[-+]?[0-9]*[.,]?[0-9]*(?:[eE][-+]?[0-9]+)?")
"""Digits with at most a decimal mark."""


def _form(mark: str) -> re.Pattern[str]:
    """Return the form of a number with a decimal mark; thousands stand in groups, none with a leading 0."""
    other, part = (re.escape(one) for one in (",." if mark == "." else ".,"))
    groups = rf"[1-9][0-9]{{0,2}}(?:(?:{other}[0-9]{{3}})+|(?:[\s'][0-9]{{3}})+)"
    return re.compile(
        rf"(?P<sign>[-+]?)(?:{SIGN}\s*)?"
        rf"(?P<digits>[-+]?(?:(?:{groups}|[0-9]+)(?:{part}[0-9]*)?|{part}[0-9]+)(?:[eE][-+]?[0-9]+)?)"
        rf"(?:\s*{SIGN})?"
    )


FORMS = {mark: _form(mark) for mark in MARKS}

FLAGS = {
    **dict.fromkeys(("false", "no", "f", "n", "0", "0.0"), 0.0),
    **dict.fromkeys(("true", "yes", "t", "y", "1", "1.0"), 1.0),
}
"""Texts that mean false or true."""


def texts_of(column: Series) -> AnyArray:
    """Return each value as text without surrounding blanks, None where it is missing.

    Whole numbers that became floats because of a gap are written as whole numbers.
    """
    present = column.notna().to_numpy(dtype=bool)
    values = column.astype(object).to_numpy()[present]
    whole = all(isinstance(value, float) and value.is_integer() for value in values)
    texts = np.full(len(column), None, dtype=object)
    texts[present] = [(str(int(v)) if whole else str(v).strip()) or None for v in values]
    return texts


def read_numbers(column: Series, decimal: Mark) -> FloatArray:
    """Return the column as floats, NaN for values that are missing, infinite or not a number.

    ``decimal`` is the decimal mark for texts that could be read with either; without one, and without
    one of the file's, these are NaN.
    """
    import pandas as pd

    if not pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        reading = read_texts(column, decimal)
        certain = not reading.unsure or decimal or FILE_MARK in column.attrs
        return reading.values if certain else np.full(len(column), np.nan)
    values = np.array(column.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)
    values[~np.isfinite(values)] = np.nan
    return values


@dataclass(frozen=True, eq=False)
class Reading:
    """The numbers that the values of a column are, and how they were written."""

    values: FloatArray
    """NaN for values that are missing, infinite or not a number."""
    decimal: Mark
    """The decimal mark; empty if nothing in the column shows which one it is."""
    unsure: bool
    """Whether the other mark would read as many values, but as other numbers."""
    example: int | None
    """The position of the first number that is written with more than digits and a decimal mark."""


def read_texts(column: Series, decimal: Mark = "") -> Reading:
    """Read values as numbers, with the decimal mark that reads most of them.

    ``decimal`` is the mark to take if both read as many; without it, that of the file that the column
    came from. Where nothing tells, the mark is a point and ``unsure`` is True.

    >>> import pandas as pd
    >>> read_texts(pd.Series(["1.053,56 €", "12 %", "n/a", "-7"])).values.tolist()
    [1053.56, 12.0, nan, -7.0]
    >>> found = read_texts(pd.Series(["1,234"])), read_texts(pd.Series(["1,234"]), ",")
    >>> [(float(one.values[0]), one.unsure) for one in found]
    [(1234.0, True), (1.234, True)]
    """
    keys = [
        math.nan if gone else value if isinstance(value, Number) else str(value).strip()
        for value, gone in zip(column.astype(object), column.isna(), strict=True)
    ]
    read = {mark: {key: _parse(key, mark) for key in dict.fromkeys(keys)} for mark in MARKS}
    point, comma = (np.array([read[mark][key] for key in keys], dtype=float) for mark in MARKS)
    same = np.array_equal(point, comma, equal_nan=True)
    more = int(np.isfinite(point).sum()) - int(np.isfinite(comma).sum())
    # Texts such as 1.234 hold decimals; 1,234 may hold thousands.
    unsure = more == 0 and not same and any("," in key for key in keys if isinstance(key, str))
    best: Mark = "." if more >= 0 else ","
    if unsure:
        best = decimal or column.attrs.get(FILE_MARK, ".")
    values, other = (point, ",") if best == "." else (comma, ".")
    odd = (
        k
        for k, key in enumerate(keys)
        if np.isfinite(values[k])
        and (
            point[k] != comma[k]
            if unsure
            else isinstance(key, str) and (other in key or not PLAIN.fullmatch(key))
        )
    )
    return Reading(values, "" if same else best, unsure, next(odd, None))


def _parse(value: Any, mark: Mark) -> float:
    """Return a finite number, or NaN."""
    try:
        if isinstance(value, str):
            form = FORMS[mark].fullmatch(value)
            digits = "nan" if form is None else form["sign"] + form["digits"]
            value = re.sub(r"[\s'.]" if mark == "," else r"[\s',]", "", digits).replace(",", ".")
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def is_code(text: str) -> bool:
    """Tell whether a text is a code rather than a number: with leading zeros, such as 007, or very long."""
    return text.isdecimal() and (len(text) > LONGEST or (text[0] == "0" and len(text) > 1))


def strange(column: Series, values: FloatArray) -> AnyArray:
    """Return the positions of values that are present but could not be read."""
    unread = np.flatnonzero(np.isnan(values))
    if not len(unread):
        return unread
    raw = column.iloc[unread]
    texts = raw.astype(object).astype(str).str.strip()
    return np.asarray(unread[(raw.notna() & ~texts.isin(MISSING)).to_numpy(dtype=bool)])
