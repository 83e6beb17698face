"""From a table to its schema: what each column holds, with a note where that is in doubt."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedrelax.errors import FedRelaxError, counted, listing
from fedrelax.schema.coding import FALSE, TRUE, texts_of
from fedrelax.schema.column import Column
from fedrelax.schema.dates import order_of, read_dates
from fedrelax.schema.kinds import kind_of, where
from fedrelax.schema.numbers import MISSING, Reading, is_code, read_texts, strange
from fedrelax.schema.schema import Schema
from fedrelax.typing import AnyArray, FloatArray

if TYPE_CHECKING:
    import pandas as pd

MOST_CATEGORIES = 30
"""At most this many categories, the most common ones, have a column each; the others share one."""
COMMON = 3
"""Rows that a category needs to be one of them."""
MOSTLY = 0.9
"""The share of a column's values that must be numbers, or dates, for the others to count as mistakes."""
EXACT = 2**53
"""Whole numbers beyond this are taken for names: as floats, some of them would coincide."""


def schema_of(
    frame: pd.DataFrame, columns: Sequence[Hashable] | None = None, named: bool = False
) -> tuple[Schema, list[str]]:
    """Return the schema of a table, and notes on what was decided, one sentence each.

    Columns with nothing to learn from are left out. Those that the user has ``named`` are kept, unless
    empty, which is an error.
    """
    schema, _, notes = coded_table(frame, columns, named)
    return schema, notes


def coded_table(
    frame: pd.DataFrame, columns: Sequence[Hashable] | None = None, named: bool = False
) -> tuple[Schema, FloatArray, list[str]]:
    """Return the schema of a table, its coded rows, and the notes of ``schema_of``."""
    notes: list[str] = []
    chosen = list(frame.columns) if columns is None else list(columns)
    plain = _plain_numbers(frame, chosen)
    if plain is not None:
        return plain[0], plain[1], notes
    found = [column_of(frame[name], named, notes) for name in chosen]
    made = [column for column in found if column is not None]
    if not made:
        raise FedRelaxError(
            "no column is left to learn from; add at least one feature column besides node and target"
            + (f" ({' '.join(notes)})" if notes else "")
        )
    schema = Schema(tuple(made))
    coded = schema.code(frame)
    return schema.measured(coded), coded, notes


def _plain_numbers(
    frame: pd.DataFrame, chosen: Sequence[Hashable]
) -> tuple[Schema, FloatArray] | None:
    """Return schema and rows of a table of nothing but finite numbers, quickly; None for any other."""
    kinds = [getattr(frame[name].dtype, "kind", "O") for name in chosen]
    if not chosen or not set(kinds) <= set("fiub"):
        return None
    names = [str(name) for name in chosen]
    coded = np.ascontiguousarray(frame[list(chosen)].to_numpy(dtype=np.float64))
    whole = np.array([kind in "iu" for kind in kinds])
    exact = not whole.any() or np.abs(coded[:, whole]).max(initial=0.0) < EXACT
    if not exact or not np.isfinite(coded).all() or len(set(names)) < len(names):
        return None
    columns = tuple(
        Column(name, "flag" if kind == "b" else "number")
        for name, kind in zip(names, kinds, strict=True)
    )
    return Schema(columns).measured(coded), coded


def column_of(given: pd.Series, named: bool, notes: list[str]) -> Column | None:
    """Return the column, or None if there is nothing in it to learn from."""
    name = str(given.name)
    kind = kind_of(given)
    if kind == "nothing":
        if named:
            raise FedRelaxError(f"feature column {name!r} is empty; fill it in or leave it out")
        notes.append(f"Column {name!r} is left out: it is empty.")
        return None
    if kind == "numbers":
        return _numbers(given, name, named, notes)
    if kind == "dates":
        return _dates(given, name, notes)
    texts = texts_of(given)
    known = texts[[text is not None for text in texts]]
    if not len(known):
        return column_of(given.iloc[:0], named, notes)
    if {str(text).lower() for text in known} <= {*FALSE, *TRUE}:
        return Column(name, "flag")
    reading = numbers_in(given)
    if reading is not None:
        notes += notes_on_numbers(given, reading)
        return Column(name, "number", decimal=reading.decimal)
    if _mostly(given, _as_dates(given)):
        return _dates(given, name, notes)
    return _categories(known, name, len(given), named, notes)


def _numbers(given: pd.Series, name: str, named: bool, notes: list[str]) -> Column | None:
    from pandas.api import types

    if types.infer_dtype(given, skipna=True) == "boolean":
        return Column(name, "flag")
    if types.infer_dtype(given, skipna=True) == "integer":
        present = given.dropna()
        if max(abs(int(present.max())), abs(int(present.min()))) > EXACT:
            texts = texts_of(given)
            known = texts[[text is not None for text in texts]]
            return _categories(known, name, len(given), named, notes)
    values = np.asarray(given.to_numpy(dtype=np.float64, na_value=np.nan))
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        notes.append(
            f"Column {name!r} is infinite in {counted(len(infinite), 'row')}, first on "
            f"{where(given.index, int(infinite[0]))}; these values count as missing."
        )
    return Column(name, "number")


def _dates(given: pd.Series, name: str, notes: list[str]) -> Column:
    order, unsure = order_of(given)
    if unsure:
        first = str(given.dropna().iloc[0])
        notes.append(
            f"Dates in column {name!r} such as {first!r} are read with the {order}; write them as "
            "year-month-day if that is wrong."
        )
    values = read_dates(given, order)
    _name_strange(given, name, strange(given, values), "dates", notes)
    return Column(name, "date", order=order)


def _as_dates(given: pd.Series) -> FloatArray:
    raw = given.astype(object).where(given.notna(), None)
    shaped = raw.astype(str).str.contains(r"\d.*[-/.:].*\d", regex=True)
    if shaped.mean() < MOSTLY / 2:
        return np.full(len(given), np.nan)
    return read_dates(given, order_of(given)[0])


def _mostly(given: pd.Series, values: FloatArray) -> bool:
    """Tell whether nearly all values that are not missing could be read."""
    good = int(np.isfinite(values).sum())
    return good >= 2 and good >= MOSTLY * (good + len(strange(given, values)))


def numbers_in(given: pd.Series) -> Reading | None:
    """Return the numbers that nearly all texts of a column are, however they are written, or None.

    A column in which some text is a code such as 007 holds no numbers.
    """
    if any(is_code(text) for text in texts_of(given) if text is not None):
        return None
    reading = read_texts(given)
    return reading if _mostly(given, reading.values) else None


def notes_on_numbers(given: pd.Series, reading: Reading) -> list[str]:
    """Return how the texts of a column are read as numbers, and which of them are none."""
    name, place, notes = str(given.name), reading.example, list[str]()
    if place is not None:
        texts = (
            given.iloc[np.flatnonzero(np.isnan(reading.values))].dropna().astype(str).str.strip()
        )
        words = list(dict.fromkeys(text for text in texts if text and text in MISSING))
        gaps = f"; {listing(words, most=3)} counts as missing" if words else ""
        signs = [sign for sign in reading.signs if sign != "%"]
        mixed = f"; {listing(signs, most=3)} are not converted" if len(signs) > 1 else ""
        other = "," if reading.decimal == "." else "."
        unsure = (
            f"; if {other!r} is the decimal mark, write these numbers without thousands separators"
            if reading.unsure
            else ""
        )
        notes.append(
            f"Column {name!r} holds numbers such as {str(given.iloc[place])!r}, read as "
            f"{reading.values[place]:.10g}{gaps}{mixed}{unsure}."
        )
    _name_strange(given, name, strange(given, reading.values), "numbers", notes)
    return notes


def _name_strange(given: pd.Series, name: str, bad: AnyArray, what: str, notes: list[str]) -> None:
    if len(bad):
        place = int(bad[0])
        texts = list(dict.fromkeys(given.iloc[bad].astype(str).str.strip()))
        others = f" (also {listing(texts[1:], most=3)})" if len(texts) > 1 else ""
        notes.append(
            f"Column {name!r} holds {what} except in {counted(len(bad), 'row')}, such as "
            f"{str(given.iloc[place])!r} on {where(given.index, place)}{others}; these count as "
            "missing: correct them."
        )


def is_name(texts: Sequence[str] | AnyArray, rows: int) -> bool:
    """Tell whether each of ``rows`` rows has a text of its own, as names or IDs of rows would be.

    Texts of several words, many of which recur, are no names.
    """
    words = [word for text in texts for word in str(text).lower().split()]
    has_words = len(words) > 1.5 * len(texts) and len(set(words)) < 0.7 * len(words)
    return len(texts) == rows > MOST_CATEGORIES and not has_words


def _categories(
    known: AnyArray, name: str, rows: int, named: bool, notes: list[str]
) -> Column | None:
    """Return a column of the common categories, or of free text if too few values recur."""
    texts, counts = np.unique(known.astype(str), return_counts=True)
    if len(texts) == 1 and len(known) == rows and not named:
        notes.append(f"Column {name!r} is left out: it is {str(texts[0])!r} in every row.")
        return None
    if not named and is_name(texts, len(known)):
        notes.append(
            f"Column {name!r} is left out: it holds a different text in every row, such as "
            f"{str(texts[0])!r}, like a name or an ID."
        )
        return None
    order = np.lexsort([texts, -counts])
    least = 1 if len(texts) <= MOST_CATEGORIES else COMMON
    common = [str(texts[k]) for k in order[:MOST_CATEGORIES] if counts[k] >= least]
    covered = sum(int(counts[k]) for k in order[: len(common)])
    if covered < len(known) / 2:
        notes.append(
            f"Column {name!r} holds {len(texts)} different texts in {len(known)} of {rows} rows; "
            "models see a hash of their letters."
        )
        return Column(name, "text")
    if len(common) < len(texts):
        notes.append(
            f"Column {name!r} holds {len(texts)} different texts; the {len(common)} most common, such "
            f"as {listing(common, most=2)}, are categories of their own, and the others share one."
        )
    return Column(name, "category", categories=tuple(sorted(common)))
