"""Numbers as people write them: with decimal commas, thousands separators, currencies and percent signs."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from numbers import Number
from typing import Any, Literal, NamedTuple

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

_CURRENCY = (
    r"(?:[A-Z]{0,2}[$€£¥₹₽₩₺₴₪฿¢]|EUR|USD|GBP|CHF|JPY|CNY|SEK|NOK|DKK|ISK|PLN|CZK|HUF|RON|BGN|TRY|RUB|UAH"
    r"|INR|KRW|BRL|MXN|CAD|AUD|NZD|ZAR|SGD|HKD|ILS|THB|kr|zł|Kč|Ft|Fr\.)"
)
_USUAL = str.maketrans({"\u2212": "-", "\u2019": "'"})
"""The minus sign and the typographic apostrophe, which count as those of keyboards."""


def _form(mark: str) -> re.Pattern[str]:
    """Return the form of a number with a decimal mark; thousands stand in groups, none with a leading 0."""
    groups = r"(?:,[0-9]{2,3})*,[0-9]{3}" if mark == "." else r"(?:\.[0-9]{3})+"
    whole = rf"(?:[1-9][0-9]{{0,2}}(?:{groups}|(?:[\s'][0-9]{{3}})+)|[0-9]+)"
    part = re.escape(mark)
    return re.compile(
        rf"(?P<open>\()?(?P<sign>[-+]?)\s*(?P<before>{_CURRENCY})?\s*(?P<inner>[-+]?)\s*"
        rf"(?P<number>(?:{whole}(?:{part}[0-9]*)?|{part}[0-9]+)(?:[eE][-+]?[0-9]+)?)"
        rf"\s*(?P<after>%|{_CURRENCY})?(?(open)\))"
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
    signs: tuple[str, ...]
    """The currency and percent signs that were removed."""
    example: int | None
    """The position of the first value that is in doubt, or is more than digits and a decimal mark."""


def read_texts(column: Series, decimal: Mark = "") -> Reading:
    """Read values as numbers, with the decimal mark that reads most of them.

    ``decimal`` is the mark to take if both read as many; without it, that of the file that the column
    came from. Where nothing tells, the mark is a point and ``unsure`` is True.

    >>> import pandas as pd
    >>> read_texts(pd.Series(["1.053,56 €", "12 %", "n/a", "(7)"])).values.tolist()
    [1053.56, 12.0, nan, -7.0]
    >>> found = read_texts(pd.Series(["1,234"])), read_texts(pd.Series(["1,234"]), ",")
    >>> [(float(one.values[0]), one.unsure) for one in found]
    [(1234.0, True), (1.234, True)]
    """
    keys = [
        None
        if gone
        else value
        if isinstance(value, Number)
        else str(value).strip().translate(_USUAL)
        for value, gone in zip(column.astype(object), column.isna(), strict=True)
    ]
    read = {mark: {key: _parse(key, mark) for key in dict.fromkeys(keys)} for mark in MARKS}
    values = {mark: np.array([read[mark][key].value for key in keys], float) for mark in MARKS}
    counts = {mark: int(np.isfinite(values[mark]).sum()) for mark in MARKS}
    same = np.array_equal(values["."], values[","], equal_nan=True)
    unsure = counts["."] == counts[","] and not same
    best: Mark = "." if counts["."] >= counts[","] else ","
    if unsure:
        plain = all(one.plain for one in read["."].values() if math.isfinite(one.value))
        unsure, best = not plain, "." if plain else decimal or column.attrs.get(FILE_MARK, ".")
    good = {key: one for key, one in read[best].items() if math.isfinite(one.value)}
    doubtful = {key for key in good if unsure and read["."][key].value != read[","][key].value}
    special = doubtful or {key for key, one in good.items() if not one.plain}
    return Reading(
        values[best],
        "" if same else best,
        unsure,
        tuple(dict.fromkeys(sign for one in good.values() for sign in one.signs)),
        next((k for k, key in enumerate(keys) if key in special), None),
    )


class _Number(NamedTuple):
    value: float
    """NaN if a text is not a number, or not finite."""
    plain: bool = True
    """Whether it is a number already, or digits with at most a decimal mark."""
    signs: tuple[str, ...] = ()


def _parse(value: Any, mark: Mark) -> _Number:
    if not isinstance(value, str):
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        return _Number(number if math.isfinite(number) else math.nan)
    form = FORMS[mark].fullmatch(value)
    if form is None or (form["sign"] and form["inner"]) or (form["before"] and form["after"]):
        return _Number(math.nan)
    digits = re.sub(r"[\s'.]" if mark == "," else r"[\s',]", "", form["number"])
    number = float(digits.replace(",", "."))
    if "-" in (form["sign"], form["inner"]) or form["open"]:
        number = -number
    signs = tuple(sign for sign in (form["before"], form["after"]) if sign)
    return _Number(
        math.nan if math.isinf(number) else number, form["sign"] + digits == value, signs
    )


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
