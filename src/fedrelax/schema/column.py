"""One column of a table as all nodes have agreed on it, and the numbers that a model sees of it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.schema.dates import Cycle, Order, read_dates, wave_names, waves
from fedrelax.schema.kinds import where
from fedrelax.schema.numbers import FLAGS, Mark, read_numbers, strange, texts_of
from fedrelax.typing import FloatArray, Series

Kind = Literal["number", "flag", "category", "date"]
KINDS: tuple[str, ...] = get_args(Kind)
MIXED = ("number", "date")
"""Kinds for which a value between two others is also a possible value."""


@dataclass(frozen=True)
class Column:
    """A column's name and kind, and how its values are turned into numbers.

    Rows hold one number for it: the number itself, 0 or 1 for false or true, the position in
    ``categories`` (one past the end: any other), a date's seconds since 1970; NaN where the value is
    missing. ``encode`` turns it into what a numeric model sees:

    ========  ==========================================================================
    number    (x - centre) / scale
    flag      0 or 1
    category  one 0/1 column per category, and one for all others if ``others``
    date      z = (t - centre) / scale in seconds, z^2 - 1, sine and cosine of each of ``cycles``
    ========  ==========================================================================

    A missing value counts as average: 0 in all of these, and the ``shares`` for categories. So does an
    unknown category, unless there are ``others``. If training had ``gaps``, a last column marks missing
    values with 1. A number below ``low`` or above ``high`` counts as that limit: lines go on for ever,
    and one extreme value must not lead to an absurd prediction.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "allow_inf_nan": False}

    name: str
    kind: Kind
    centre: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] = ()
    shares: tuple[float, ...] = ()
    """How common each category is, to three digits."""
    others: bool = False
    cycles: tuple[Cycle, ...] = ()
    order: Order = "iso"
    """How dates are read from text."""
    decimal: Mark = ""
    """The decimal mark of numbers read from text, if it is known."""
    gaps: bool = False
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        reason = self._fault()
        if reason is not None:
            raise FedRelaxError(f"schema: column {self.name!r} {reason}")

    def _fault(self) -> str | None:
        if self.kind not in KINDS:
            return f"has the kind {self.kind!r}; it must be one of {', '.join(KINDS)}"
        most = sys.float_info.max
        if not (abs(self.centre) <= most and 0 < self.scale <= most):
            return "needs a finite centre and a finite scale above 0"
        if len(set(self.categories)) < len(self.categories):
            return "needs different texts as categories"
        if self.shares and len(self.shares) != len(self.categories):
            return "needs a share for each category"
        if not all(0 <= share <= 1 for share in self.shares):
            return "needs shares between 0 and 1"
        ends = [end for end in (self.low, self.high) if end is not None]
        if ends and (self.kind != "number" or sorted(ends) != ends):
            return "may have low and high only if it holds numbers, and low must not be above high"
        return None

    @property
    def is_plain(self) -> bool:
        """Whether a model sees the values as they are."""
        plain = self.kind in ("number", "flag") and not self.gaps
        return plain and self.centre == 0.0 and self.scale == 1.0

    @property
    def limits(self) -> tuple[float, float]:
        """The range within which numbers are held."""
        low = -np.inf if self.low is None else float(self.low)
        return low, np.inf if self.high is None else float(self.high)

    @property
    def names(self) -> list[str]:
        """The names of the columns that ``encode`` returns."""
        own = [self.name]
        if self.kind == "category":
            others = [f"{self.name} of another kind"] if self.others else []
            own = [f"{self.name} is {text}" for text in self.categories] + others
        elif self.kind == "date":
            cycles = [name for cycle in self.cycles for name in wave_names(self.name, cycle)]
            own = [self.name, f"{self.name} squared", *cycles]
        return own + [f"{self.name} is missing"] * self.gaps

    def code(self, values: Series, source: str = "the table") -> FloatArray:
        """Return the numbers that stand for a column's values in rows."""
        if self.kind == "category":
            position: dict[Any, float] = {text: float(k) for k, text in enumerate(self.categories)}
            others = float(len(position))
            position[None] = np.nan
            return np.array([position.get(text, others) for text in texts_of(values)])
        if self.kind == "date":
            codes = read_dates(values, self.order)
        elif self.kind == "number":
            codes = read_numbers(values, self.decimal)
        else:
            codes = np.array([FLAGS.get(str(text).lower(), np.nan) for text in texts_of(values)])
        bad = strange(values, codes)
        if len(bad) and len(bad) * 2 > int(values.notna().sum()):
            row = int(bad[0])
            raise FedRelaxError(
                f"{source}: column {self.name!r} must hold {self.kind}s, as in training, but has "
                f"{str(values.iloc[row])!r} on {where(values.index, row)}; correct it"
            )
        return codes

    def decode(self, codes: FloatArray) -> Any:
        """Return the values as a column of the matching pandas or numpy type."""
        import pandas as pd

        missing = np.isnan(codes)
        if self.kind == "number" or (self.kind == "flag" and missing.any()):
            return codes
        if self.kind == "flag":
            return codes.astype(bool)
        if self.kind == "date":
            moments = pd.to_datetime(np.where(missing, 0, codes) * 1e6, unit="us")
            return pd.Series(moments).mask(pd.Series(missing))
        unknown = missing | (codes >= len(self.categories))
        positions = np.where(unknown, -1, codes).astype(int).tolist()
        return pd.Categorical.from_codes(positions, categories=list(self.categories))

    def encode(self, codes: FloatArray) -> FloatArray:
        """Return the columns (rows, len(names)) that a numeric model sees."""
        missing = np.isnan(codes)
        values = np.where(missing, self.centre, codes) if missing.any() else codes
        if self.kind == "category":
            seen = (codes[:, None] == np.arange(len(self.categories) + self.others)).astype(float)
            nowhere = ~seen.any(axis=1)
            if self.shares and nowhere.any():
                seen[nowhere, : len(self.shares)] = self.shares
        else:
            seen = ((np.clip(values, *self.limits) - self.centre) / self.scale)[:, None]
            if self.kind == "date":
                seen = np.column_stack(
                    [seen, seen**2 - 1.0, *(waves(values, one) for one in self.cycles)]
                )
        if missing.any() and self.kind != "category":
            seen[missing] = 0.0
        return np.column_stack([seen, missing]) if self.gaps else seen
