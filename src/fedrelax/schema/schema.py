"""The columns that all nodes have openly agreed on before the first round."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError, did_you_mean, listing
from fedrelax.files import SETTINGS, read_file, why_unread
from fedrelax.schema.column import MIXED, Column
from fedrelax.schema.dates import cycles_of
from fedrelax.schema.kinds import named_column
from fedrelax.typing import AnyArray, DataFrame, FloatArray
from fedrelax.validation import check_sizes

EXTREME = 1e4
"""Numbers are centred and scaled if their spread, one over it, or their mean in spreads is beyond this."""
REACH, FENCE = 2.0, 3.0
"""Numbers are held within REACH times the distances of the smallest and the largest value from the median,
or within FENCE interquartile ranges of the quartiles if that is wider."""


@dataclass(frozen=True)
class Schema:
    """Names, kinds, categories and scales of a table's columns: what rows mean, at every node.

    Rows are *coded*: one number per column, as ``Column`` describes. ``encode`` turns them into what
    numeric models see, ``frame`` into a DataFrame of typed columns.

    >>> import pandas as pd
    >>> from fedrelax.schema import schema_of
    >>> table = pd.DataFrame({"price": [1.0, None, 3.0], "type": ["kiosk", "mall", "mall"]})
    >>> schema = schema_of(table)[0]
    >>> [column.kind for column in schema.columns], schema.names
    (['number', 'category'], ['price', 'price is missing', 'type is kiosk', 'type is mall'])
    >>> schema.encode(schema.code(table)).shape
    (3, 4)
    """

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if not names or len(set(names)) < len(names):
            raise FedRelaxError("schema: at least one column is needed, each with its own name")

    @property
    def is_plain(self) -> bool:
        """Whether numeric models see every column as it is."""
        return all(column.is_plain for column in self.columns)

    @property
    def column_names(self) -> list[str]:
        """The names of the table's columns."""
        return [column.name for column in self.columns]

    @property
    def names(self) -> list[str]:
        """The names of the columns that numeric models see."""
        return [name for column in self.columns for name in column.names]

    @cached_property
    def blocks(self) -> tuple[slice, ...]:
        """Each column's slice of an encoded row."""
        ends = np.cumsum([0, *(len(column.names) for column in self.columns)]).tolist()
        return tuple(slice(a, b) for a, b in zip(ends, ends[1:], strict=False))

    # Rows

    def code(
        self, frame: DataFrame, source: str = "the table", absent: Iterable[str] = ()
    ) -> FloatArray:
        """Return coded rows (rows, columns) of a table with these columns, in any order.

        Columns in ``absent`` may be missing.
        """
        may_miss = set(absent)
        coded = np.full((len(frame), len(self.columns)), np.nan)
        for k, column in enumerate(self.columns):
            label = named_column(frame, column.name)
            if label is not None:
                coded[:, k] = column.code(frame[label], source)
            elif column.name not in may_miss:
                raise FedRelaxError(
                    f"{source} has no column {column.name!r}, which is one of the features; it has "
                    f"{listing(frame.columns, most=12)}{did_you_mean(column.name, frame.columns)}"
                )
        check_sizes(coded, self._title)
        return coded

    def _title(self, k: int) -> str:
        return f"column {self.columns[k].name!r}"

    def encode(self, coded: FloatArray) -> FloatArray:
        """Return what numeric models see of coded rows; the rows themselves if that is the same."""
        if self.is_plain:
            return np.clip(coded, *self.limits)
        return np.column_stack(
            [column.encode(coded[:, k]) for k, column in enumerate(self.columns)]
        )

    @cached_property
    def limits(self) -> tuple[FloatArray, FloatArray]:
        """The lowest and the highest number (columns,) that a model sees of each column."""
        low, high = zip(*(column.limits for column in self.columns), strict=True)
        return np.array(low), np.array(high)

    def frame(self, coded: FloatArray, only: Sequence[int] | None = None) -> DataFrame:
        """Return coded rows as a table of typed columns: all, or ``only`` those at some positions."""
        import pandas as pd

        chosen = range(len(self.columns)) if only is None else only
        return pd.DataFrame(
            {self.columns[k].name: self.columns[k].decode(coded[:, k]) for k in chosen}
        )

    def pieces(self, encoded: bool) -> list[tuple[slice, bool]]:
        """Return each column's slice of a row, and whether its values may be mixed."""
        slices = self.blocks if encoded else [slice(k, k + 1) for k in range(len(self.columns))]
        return [
            (piece, column.kind == "number" or (column.kind in MIXED and not encoded))
            for piece, column in zip(slices, self.columns, strict=True)
        ]

    def measured(
        self, coded: FloatArray, lacked: AnyArray | None = None, units: bool = True
    ) -> Schema:
        """Return the schema with centres, scales, limits, cycles, shares and gaps measured on these rows.

        In a table of nothing but numbers without gaps, those that are not extreme keep their units; not
        so without ``units``.
        ``lacked`` marks missing values that are not gaps, as their node has no such column.
        """
        check_sizes(coded, self._title)
        missing = np.isnan(coded)
        gaps = np.any(missing if lacked is None else missing & ~lacked, axis=0)
        numbers = all(column.kind in ("number", "flag") for column in self.columns)
        keep = units and numbers and not missing.any()
        middle, spread, quartiles = _spreads(coded)
        columns = []
        for k, column in enumerate(self.columns):
            new: dict[str, Any] = {"gaps": bool(gaps[k])}
            if column.kind in MIXED:
                centre, scale = rounded(float(middle[k]), float(spread[k]))
                if not keep or is_extreme(centre, scale):
                    new["centre"], new["scale"] = centre, scale
            if column.kind == "number":
                new["low"], new["high"] = _limits(*quartiles[:, k].tolist())
            if column.kind == "date":
                new["cycles"] = cycles_of(coded[~missing[:, k], k])
            if column.kind == "category":
                values, many = coded[~missing[:, k], k], len(column.categories)
                counts = np.bincount(values.astype(np.int64), minlength=many + 1)
                new["others"] = bool(counts[many])
                new["shares"] = tuple((counts[:many] / max(len(values), 1)).round(3).tolist())
            columns.append(replace(column, **new))
        return Schema(tuple(columns))

    def __repr__(self) -> str:
        return f"Schema({', '.join(f'{column.name}: {column.kind}' for column in self.columns)})"

    # Files

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as plain values, without defaults."""
        from pydantic import TypeAdapter

        values: dict[str, Any] = TypeAdapter(Schema).dump_python(
            self, mode="json", exclude_defaults=True
        )
        return values

    @classmethod
    def from_dict(cls, values: object, what: str = "the schema") -> Schema:
        """Return the schema that ``to_dict`` described, checked; messages call it ``what``."""
        from fedrelax.jsonfiles import from_plain

        return from_plain(cls, values, what)

    @classmethod
    def read(cls, path: str | Path) -> Schema:
        """Read a schema from a JSON file."""
        from fedrelax.jsonfiles import from_json

        try:
            return from_json(cls, read_file(path, SETTINGS), str(path))
        except OSError as error:
            raise FedRelaxError(f"{path} cannot be read ({why_unread(error)})") from error


def _spreads(coded: AnyArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return mean, spread and quartiles (5, columns) of the finite values of every column.

    They are 0, 1 and 0 for a column without any.
    """
    present = np.isfinite(coded)
    middle, spread = np.zeros(coded.shape[1]), np.ones(coded.shape[1])
    quartiles = np.zeros((5, coded.shape[1]))
    for k in np.flatnonzero(present.any(axis=0)):
        values = coded[present[:, k], k]
        middle[k], spread[k] = values.mean(), values.std()
        quartiles[:, k] = np.quantile(values, np.linspace(0.0, 1.0, 5), method="lower")
    return middle, spread, quartiles


def _limits(
    least: float, first: float, middle: float, third: float, most: float
) -> tuple[float | None, float | None]:
    """Return the limits within which models see numbers of these quartiles; None if all are equal.

    No value is beyond the limits. They leave room for trends that go on and for tails that are heavier
    elsewhere, and are rounded outwards to a hundredth of their distance or less.

    >>> _limits(1.0, 2.0, 3.0, 4.0, 50.0), _limits(1.0, 1.0, 1.0, 1.0, 1.0)
    ((-4.0, 98.0), (None, None))
    """
    room = FENCE * (third - first)
    low = min(middle - REACH * (middle - least), first - room)
    high = max(middle + REACH * (most - middle), third + room)
    width = high - low
    if not 0.0 < width < np.inf:
        return None, None
    digits = 2 - int(np.floor(np.log10(width)))
    half = 0.5 * 10.0**-digits
    return min(low, round(low - half, digits)), max(high, round(high + half, digits))


def rounded(middle: float, spread: float) -> tuple[float, float]:
    """Return centre and scale to six digits; more would reveal too much about the rows.

    >>> rounded(12.3456789, 2.0), rounded(1e7, 0.0)
    ((12.34568, 2.0), (10000000.0, 1.0))
    """
    if not np.isfinite(spread) or spread <= 1e-12 * abs(middle):
        spread = 1.0
    # The centre has six digits relative to the spread, so that a large offset leaves no remainder.
    digits = 6 + max(0, int(np.ceil(np.log10(max(abs(middle) / spread, 1.0)))))
    return float(f"{middle:.{min(digits, 17)}g}"), float(f"{spread:.6g}")


def is_extreme(centre: float, scale: float) -> bool:
    """Tell whether a column's numbers are too large, too small or too far from 0 to be used as they are."""
    return not 1 / EXTREME <= scale <= EXTREME or abs(centre) > EXTREME * scale
