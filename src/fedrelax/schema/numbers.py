"""Numbers as people write them: with decimal commas, thousands separators, currencies and percent signs."""

from __future__ import annotations

import math
import numbers
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fedrelax.typing import AnyArray, FloatArray

if TYPE_CHECKING:
    import pandas as pd

MISSING = frozenset(
    [
        *("", "NA", "N/A", "n/a", "nan", "NaN", "NAN", "-nan", "-NaN", "null", "NULL", "None"),
        *("<NA>", "#N/A", "#NA", "#N/A N/A", "1.#IND", "1.#QNAN", "-1.#IND", "-1.#QNAN", "?", "-"),
        *(
            "na",
            "none",
            "missing",
            "--",
            "\u2013",
            "\u2014",
            "#DIV/0!",
            "#VALUE!",
            "#REF!",
            "#NUM!",
        ),
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
PLAIN = {
    mark: re.compile(
        rf"[-+]?(?:[0-9]+(?:{re.escape(mark)}[0-9]*)?|{re.escape(mark)}[0-9]+)(?:[eE][-+]?[0-9]+)?"
    )
    for mark in MARKS
}


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


def read_texts(column: pd.Series, decimal: Mark = "") -> Reading:
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
    raw = column.astype(object).to_numpy()
    missing = column.isna().to_numpy(dtype=bool)
    distinct = dict.fromkeys(_key(value) for value in raw[~missing])
    read = {mark: {key: _number(key, mark) for key in distinct} for mark in MARKS}
    values = {
        mark: np.array(
            [
                np.nan if gone else found[_key(value)]
                for value, gone in zip(raw, missing, strict=True)
            ]
        )
        for mark, found in read.items()
    }
    counts = {mark: int(np.isfinite(found).sum()) for mark, found in values.items()}
    same = np.array_equal(values["."], values[","], equal_nan=True)
    unsure = counts["."] == counts[","] and not same
    best: Mark = "." if counts["."] >= counts[","] else ","
    if unsure:
        plain = all(_is_plain(key, ".") for key, value in read["."].items() if math.isfinite(value))
        unsure, best = not plain, "." if plain else decimal or column.attrs.get(FILE_MARK, ".")
    good = [key for key, value in read[best].items() if math.isfinite(value)]
    signs = dict.fromkeys(sign for key in good for sign in _signs(key, best))
    differ = {key for key in good if unsure and read["."][key] != read[","][key]}
    special = differ or {key for key in good if not _is_plain(key, best)}
    places = (k for k, value in enumerate(raw) if not missing[k] and _key(value) in special)
    return Reading(
        values[best],
        "" if same else best,
        unsure,
        tuple(signs),
        next(places, None) if special else None,
    )


def _key(value: Any) -> Any:
    """Return a text without surrounding blanks, or the value itself if it is a number."""
    return value if isinstance(value, numbers.Number) else str(value).strip().translate(_USUAL)


def _number(value: Any, mark: Mark) -> float:
    """Return one value as a number, NaN if it is not finite or not a number."""
    if not isinstance(value, str):
        try:
            found = float(value)
        except (TypeError, ValueError, OverflowError):
            return math.nan
        return found if math.isfinite(found) else math.nan
    form = FORMS[mark].fullmatch(value)
    if form is None or (form["sign"] and form["inner"]) or (form["before"] and form["after"]):
        return math.nan
    digits = re.sub(r"[\s']" if mark == "," else r"[\s',]", "", form["number"])
    if mark == ",":
        digits = digits.replace(".", "").replace(",", ".")
    found = float(digits)
    negative = "-" in (form["sign"], form["inner"]) or form["open"]
    return math.nan if math.isinf(found) else -found if negative else found


def _signs(value: Any, mark: Mark) -> list[str]:
    form = FORMS[mark].fullmatch(value) if isinstance(value, str) else None
    return [] if form is None else [sign for sign in (form["before"], form["after"]) if sign]


def _is_plain(value: Any, mark: Mark) -> bool:
    """Tell whether a value is a number, or digits with at most a decimal mark."""
    return not isinstance(value, str) or PLAIN[mark].fullmatch(value) is not None


def is_code(text: str) -> bool:
    """Tell whether a text is a code rather than a number: with leading zeros, such as 007, or very long."""
    return text.isdecimal() and (len(text) > LONGEST or (text[0] == "0" and len(text) > 1))


def strange(column: pd.Series, values: FloatArray) -> AnyArray:
    """Return the positions of values that are present but could not be read."""
    unread = np.isnan(values)
    if unread.any():
        unread &= column.notna().to_numpy(dtype=bool)
    places = np.flatnonzero(unread)
    if not len(places):
        return places
    raw = column.iloc[places].astype(object).astype(str).str.strip()
    return np.asarray(places[~raw.isin(MISSING).to_numpy()])
