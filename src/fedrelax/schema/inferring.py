"""From a table to its schema: what each column holds, with a note where that is in doubt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from fedrelax.errors import FedRelaxError, counted, listing
from fedrelax.schema.column import Column
from fedrelax.schema.dates import order_of, read_dates
from fedrelax.schema.kinds import DATE_LIKE, EXACT, kind_of, where
from fedrelax.schema.numbers import FLAGS, Reading, is_code, read_texts, strange, texts_of
from fedrelax.schema.schema import Schema
from fedrelax.typing import DataFrame, FloatArray, Series

MOST_CATEGORIES = 30
"""At most this many categories, the most common ones, have a column each; the others share one."""
COMMON = 3
"""Rows that a category needs to be one of them."""
MOSTLY = 0.9
"""The share of a column's values that must be numbers, or dates, for the others to count as mistakes."""


def schema_of(
    frame: DataFrame, columns: Sequence[Hashable] | None = None, named: bool = False
) -> tuple[Schema, list[str]]:
    """Return the schema of a table, and notes on what was decided, one sentence each.

    Columns with nothing to learn from are left out. Those that the user has ``named`` are kept, unless
    empty, which is an error.
    """
    schema, coded, notes = coded_table(frame, columns, named)
    return schema.measured(coded), notes


def coded_table(
    frame: DataFrame, columns: Sequence[Hashable] | None = None, named: bool = False
) -> tuple[Schema, FloatArray, list[str]]:
    """Return the schema of a table, not measured yet, its coded rows, and the notes of ``schema_of``."""
    notes: list[str] = []
    chosen = list(frame.columns if columns is None else columns)
    inferred = [column_of(frame[name], named, notes) for name in chosen]
    usable = tuple(column for column in inferred if column is not None)
    if not usable:
        raise FedRelaxError(
            "no column is left to learn from; add at least one feature column besides node and target"
            + (f" ({' '.join(notes)})" if notes else "")
        )
    schema = Schema(usable)
    return schema, schema.code(frame), notes


def column_of(values: Series, named: bool, notes: list[str]) -> Column | None:
    """Return the column, or None if there is nothing in it to learn from."""
    from pandas.api import types

    name, kind = str(values.name), kind_of(values)
    if kind == "dates":
        return _dates(values, name, notes)
    if kind == "numbers":
        inferred = types.infer_dtype(values, skipna=True)
        if inferred == "boolean":
            return Column(name, "flag")
        present = values.dropna()
        if inferred != "integer" or max(int(present.max()), -int(present.min())) <= EXACT:
            infinite = np.flatnonzero(np.isinf(values.to_numpy(dtype=np.float64, na_value=np.nan)))
            if len(infinite):
                notes.append(
                    f"Column {name!r} is infinite in {counted(len(infinite), 'row')}, first on "
                    f"{where(values.index, int(infinite[0]))}; these values count as missing."
                )
            return Column(name, "number")
    texts = [text for text in texts_of(values) if text is not None]
    if not texts:
        if named:
            raise FedRelaxError(f"feature column {name!r} is empty; fill it in or leave it out")
        notes.append(f"Column {name!r} is left out: it is empty.")
        return None
    if kind == "text":
        if all(text.lower() in FLAGS for text in texts):
            return Column(name, "flag")
        reading = numbers_in(values)
        if reading is not None:
            notes += notes_on_numbers(values, reading)
            return Column(name, "number", decimal=reading.decimal)
        if _mostly(values, _as_dates(values)):
            return _dates(values, name, notes)
    return _categories(texts, name, len(values), named, notes)


def _dates(values: Series, name: str, notes: list[str]) -> Column:
    order, unsure = order_of(values)
    if unsure:
        first = str(values.dropna().iloc[0])
        notes.append(
            f"Dates in column {name!r} such as {first!r} are read with the {order}; write them as "
            "year-month-day if that is wrong."
        )
    _name_strange(values, read_dates(values, order), "dates", notes)
    return Column(name, "date", order=order)


def _as_dates(values: Series) -> FloatArray:
    texts = values.astype(object).where(values.notna(), None).astype(str)
    if texts.str.contains(DATE_LIKE, regex=True).mean() < MOSTLY / 2:
        return np.full(len(values), np.nan)
    return read_dates(values, order_of(values)[0])


def _mostly(values: Series, read: FloatArray) -> bool:
    """Tell whether nearly all values that are not missing could be read."""
    good = int(np.isfinite(read).sum())
    return good >= 2 and good >= MOSTLY * (good + len(strange(values, read)))


def numbers_in(values: Series) -> Reading | None:
    """Return the numbers that nearly all texts of a column are, however they are written, or None.

    A column in which some text is a code such as 007 holds no numbers.
    """
    if any(is_code(text) for text in texts_of(values) if text is not None):
        return None
    reading = read_texts(values)
    return reading if _mostly(values, reading.values) else None


def notes_on_numbers(values: Series, reading: Reading) -> list[str]:
    """Return how the texts of a column are read as numbers, and which of them are none."""
    row, notes = reading.example, list[str]()
    if row is not None:
        text = (
            f"Column {str(values.name)!r} holds numbers such as {str(values.iloc[row])!r}, read as "
            f"{reading.values[row]:.10g}"
        )
        if reading.unsure:
            other = "," if reading.decimal == "." else "."
            text += f"; if {other!r} is the decimal mark, write these numbers without thousands separators"
        notes.append(f"{text}.")
    _name_strange(values, reading.values, "numbers", notes)
    return notes


def _name_strange(values: Series, read: FloatArray, what: str, notes: list[str]) -> None:
    bad = strange(values, read)
    if len(bad):
        row = int(bad[0])
        texts = values.iloc[bad].astype(str).str.strip().unique().tolist()
        others = f" (also {listing(texts[1:], most=3)})" if len(texts) > 1 else ""
        notes.append(
            f"Column {str(values.name)!r} holds {what} except in {counted(len(bad), 'row')}, such as "
            f"{str(values.iloc[row])!r} on {where(values.index, row)}{others}; these count as "
            "missing: correct them."
        )


def common_texts(counts: Mapping[str, int]) -> list[str]:
    """Return the texts that get a category of their own, the most common first."""
    least = 1 if len(counts) <= MOST_CATEGORIES else COMMON
    order = sorted(counts, key=lambda text: (-counts[text], text))[:MOST_CATEGORIES]
    return [text for text in order if counts[text] >= least]


def are_names(counts: Mapping[str, int]) -> bool:
    """Tell whether texts are too different to be categories, as names, IDs and free text are."""
    common = sum(counts[text] for text in common_texts(counts))
    return common < sum(counts.values()) / 2


def _categories(
    values: Sequence[str], name: str, rows: int, named: bool, notes: list[str]
) -> Column | None:
    """Return a column of the common categories, or None if there is nothing to learn from."""
    counts = Counter(values)
    if len(counts) == 1 and len(values) == rows and not named:
        notes.append(f"Column {name!r} is left out: it is {values[0]!r} in every row.")
        return None
    if not named and are_names(counts):
        notes.append(
            f"Column {name!r} is left out: it holds {len(counts)} different texts in {len(values)} rows, "
            f"such as {min(values)!r}, like names, IDs or free text."
        )
        return None
    common = common_texts(counts)
    if len(common) < len(counts):
        notes.append(
            f"Column {name!r} holds {len(counts)} different texts; the {len(common)} most common are "
            "categories of their own, and the others share one."
        )
    return Column(name, "category", categories=tuple(sorted(common)))
