"""A schema agreed on by sites that do not pool rows: each describes its columns, and these are merged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.schema.column import MIXED, Column, Kind
from fedrelax.schema.dates import Cycle, Order
from fedrelax.schema.inferring import COMMON, MOST_CATEGORIES, are_names, column_of
from fedrelax.schema.numbers import Mark, read_texts, texts_of
from fedrelax.schema.schema import Schema, is_extreme, rounded
from fedrelax.typing import DataFrame, Series

NOTHING: Literal["nothing"] = "nothing"
"""The kind of a column that is empty at a site."""


@dataclass(frozen=True)
class ColumnSummary:
    """What a site tells about one of its columns: sums over rows, and categories that several rows have.

    known : rows with a value; gaps : whether some rows have none.
    mean, spread : of numbers and dates, to six digits; not told of fewer than ``COMMON`` rows.
    low, high : limits that suit the site's numbers, rounded outwards; told as mean and spread are.
    categories, counts : those with at least ``COMMON`` rows here; ``others`` rows have another one.
    names : whether texts are too different to be categories, as names, IDs and free text are.
    decimal : the decimal mark of numbers written as text; ``unsure`` if the other one would do as well.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "allow_inf_nan": False}

    name: str
    kind: Kind | Literal["nothing"]
    known: int = 0
    gaps: bool = False
    mean: float = 0.0
    spread: float = 0.0
    low: float | None = None
    high: float | None = None
    categories: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    others: int = 0
    names: bool = False
    cycles: tuple[Cycle, ...] = ()
    order: Order = "iso"
    decimal: Mark = ""
    unsure: bool = False

    def __post_init__(self) -> None:
        counts = (self.known, self.others, *self.counts)
        if min(counts) < 0 or self.spread < 0 or len(self.counts) != len(self.categories):
            raise FedRelaxError(
                f"column {self.name!r} has negative numbers of rows, or not one for each category"
            )


def tell(frame: DataFrame) -> tuple[list[ColumnSummary], list[str]]:
    """Return what a site tells about a table's columns, and notes on doubts, one sentence each."""
    notes: list[str] = []
    return [_summary(frame[name], notes) for name in frame.columns], notes


def _summary(values: Series, notes: list[str]) -> ColumnSummary:
    column = column_of(values, named=True, notes=notes) if values.notna().any() else None
    if column is None:
        return ColumnSummary(str(values.name), NOTHING)
    codes = column.code(values)
    known = int(np.isfinite(codes).sum())
    told = ColumnSummary(column.name, column.kind, known, gaps=known < len(codes))
    if column.decimal:
        told = replace(told, decimal=column.decimal, unsure=read_texts(values).unsure)
    if column.kind in MIXED:
        own = Schema((column,)).measured(codes[:, None], units=False).columns[0]
        told = replace(told, cycles=own.cycles, order=own.order)
        if known < COMMON:
            return replace(told, known=0)
        return replace(told, mean=own.centre, spread=own.scale, low=own.low, high=own.high)
    if column.kind == "category":
        counts = Counter(text for text in texts_of(values) if text is not None)
        common = {text: rows for text, rows in sorted(counts.items()) if rows >= COMMON}
        told = replace(told, categories=tuple(common), counts=tuple(common.values()))
        others = counts.total() - sum(told.counts)
        return replace(told, others=others, names=are_names(counts))
    return told


def agreed(told: Mapping[str, Sequence[ColumnSummary]], named: bool) -> tuple[Schema, list[str]]:
    """Return the schema that fits what all sites tell, and notes on what was decided, one sentence each.

    All describe the same columns, in any order. Unless columns were ``named``, those with nothing to
    learn from are left out.
    """
    notes: list[str] = []
    columns: list[Column] = []
    for name in [column.name for column in next(iter(told.values()))]:
        by_site = {
            site: line
            for site, lines in told.items()
            for line in lines
            if line.name == name and line.kind != NOTHING
        }
        gaps = len(by_site) < len(told) or any(line.gaps for line in by_site.values())
        kind, lines = _kind(name, by_site), list(by_site.values())
        reason = None if named else _useless(kind, lines, gaps)
        if reason is not None:
            notes.append(f"Column {name!r} is left out: {reason}.")
        elif kind == NOTHING:
            raise FedRelaxError(f"feature column {name!r} is empty at all sites; leave it out")
        else:
            more = {"gaps": gaps, "decimal": _decimal(name, by_site)}
            columns.append(_column(name, kind, lines, more))
    if not columns:
        raise FedRelaxError(f"no column is left to learn from ({' '.join(notes)})")
    keep = all(column.kind in ("number", "flag") and not column.gaps for column in columns)
    return Schema(
        tuple(
            replace(one, centre=0.0, scale=1.0)
            if keep and not is_extreme(one.centre, one.scale)
            else one
            for one in columns
        )
    ), notes


def _kind(name: str, by_site: Mapping[str, ColumnSummary]) -> Kind | Literal["nothing"]:
    """Return the kind as which all sites can read a column; refuse kinds that do not go together."""
    kinds = {line.kind for line in by_site.values()}
    if not kinds:
        return NOTHING
    if kinds == {"number", "flag"}:
        return "number"
    _same(name, {site: KINDS_IN_WORDS[line.kind] for site, line in by_site.items()})
    if kinds == {"date"}:
        _same(name, {site: ORDERS_IN_WORDS[line.order] for site, line in by_site.items()})
    return kinds.pop()


KINDS_IN_WORDS = {
    **{"number": "numbers", "flag": "true or false", "category": "categories", "date": "dates"},
    NOTHING: "nothing",
}
ORDERS_IN_WORDS: dict[Order, str] = {
    "iso": "dates as year-month-day",
    "month first": "dates with the month first",
    "day first": "dates with the day first",
}


def _same(name: str, held: Mapping[str, str]) -> None:
    """Refuse a column unless all sites hold the same in it; name one that differs from most."""
    usual = Counter(held.values()).most_common(1)[0][0]
    other = next(site for site, words in held.items() if words == usual)
    for site, words in held.items():
        if words != usual:
            raise FedRelaxError(
                f"site {site!r}: column {name!r} holds {words}, but at site {other!r} {usual}; "
                "write it the same way, or give the hub a schema"
            )


def _useless(kind: str, lines: Sequence[ColumnSummary], gaps: bool) -> str | None:
    """Return why there is nothing to learn from a column, or None."""
    if kind == NOTHING:
        return "it is empty"
    if kind != "category":
        return None
    if all(line.names for line in lines):
        return "its texts are too different, like names, IDs or free text"
    categories = {text for line in lines for text in line.categories}
    if not categories:
        return f"no text in it occurs in {COMMON} rows of any site"
    if len(categories) == 1 and not gaps and not any(line.others for line in lines):
        return f"it is {categories.pop()!r} in every row"
    return None


def _column(name: str, kind: Kind, lines: Sequence[ColumnSummary], more: dict[str, Any]) -> Column:
    """Return a column that suits all sites; its limits are the widest of any of them."""
    if kind in MIXED:
        alike = [line for line in lines if line.decimal in ("", more["decimal"])]
        more["centre"], more["scale"] = _spread(alike)
    if kind == "date":
        more["cycles"] = tuple(dict.fromkeys(c for line in lines for c in line.cycles))
        more["order"] = lines[0].order
    if kind == "number":
        ends = [(0.0, 1.0) for line in lines if line.kind == "flag"]
        ends += [(x.low, x.high) for x in lines if x.low is not None and x.high is not None]
        if ends:
            ends += [(line.mean, line.mean) for line in lines if line.low is None and line.known]
            more["low"], more["high"] = min(low for low, _ in ends), max(high for _, high in ends)
    if kind == "category":
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(dict(zip(line.categories, line.counts, strict=True)))
        common = sorted(sorted(counts, key=lambda text: (-counts[text], text))[:MOST_CATEGORIES])
        total = sum(line.known for line in lines)
        more["categories"] = tuple(common)
        more["shares"] = tuple(round(counts[text] / max(total, 1), 3) for text in common)
        more["others"] = sum(counts[text] for text in common) < total
    return Column(name, kind, **more)


def _decimal(name: str, by_site: Mapping[str, ColumnSummary]) -> Mark:
    """Return the decimal mark that sites have in common; one that is unsure follows the others."""
    lines = {site: line for site, line in by_site.items() if line.decimal}
    told = {site: line for site, line in lines.items() if not line.unsure} or lines
    if not told:
        return ""
    words = {".": "decimal points", ",": "decimal commas"}
    _same(name, {site: words[line.decimal] for site, line in told.items()})
    return next(iter(told.values())).decimal


def _spread(lines: Sequence[ColumnSummary]) -> tuple[float, float]:
    """Return centre and scale of all sites' values together."""
    rows = np.array([line.known for line in lines if line.known], dtype=float)
    if not len(rows):
        return 0.0, 1.0
    means = np.array([line.mean for line in lines if line.known])
    spreads = np.array([line.spread for line in lines if line.known])
    middle = float(np.average(means, weights=rows))
    square = np.average(np.square(spreads) + np.square(means - middle), weights=rows)
    return rounded(middle, float(np.sqrt(square)))
