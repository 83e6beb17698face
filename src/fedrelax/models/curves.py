"""Curves and single values of the columns, beside the columns themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from fedrelax.typing import FloatArray, IntArray

KNOTS = 3
"""Knots of each column, at its quantiles."""
DISTINCT = 6
"""Distinct values that a column must have to be bent."""
FEW, MANY = 3, 40
"""Values of a column, such as years, that may have effects of their own: so many, over all columns too."""
RECURS = 3
"""Nodes at which a value must be found to have one; most rows must have such a value."""


@dataclass(frozen=True)
class Curves:
    """A basis shared by all nodes: ``x^2`` and ``max(x - knot, 0)^2`` of columns that have the values.

    Every function is made orthogonal to the constant and the columns over the rows that the basis was
    made of, and scaled to variance one there, so it adds a bend and no slope. Outside these rows'
    range a curve is held at its end, and what goes on is the straight line. With ``power`` 1 the basis
    is ``max(x - knot, 0)``, as it stands: many of these with one penalty make a smooth line.
    """

    terms: tuple[tuple[int, float | None], ...]
    low: FloatArray
    high: FloatArray
    line: FloatArray
    scale: FloatArray
    power: int = 2

    @classmethod
    def of(cls, X: FloatArray, knots: int = KNOTS, power: int = 2) -> Curves:
        """Make the basis for rows X (N, p)."""
        terms: list[tuple[int, float | None]] = []
        for k, x in enumerate(X.T):
            values = np.unique(x)
            if len(values) >= DISTINCT:
                among = x if power == 2 else values
                places = np.unique(np.quantile(among, np.arange(1, knots + 1) / (knots + 1)))
                terms += [(k, None)] * (power == 2) + [(k, float(place)) for place in places]
        low, high = X.min(axis=0), X.max(axis=0)
        raw = _powers(X, tuple(terms), low, high, power)
        line: FloatArray = np.linalg.lstsq(_affine(X), raw, rcond=None)[0].astype(np.float64)
        scale = (raw - _affine(X) @ line).std(axis=0)
        bends = scale > 1e-6 * (raw.std(axis=0) + 1e-300)
        kept = tuple(term for term, bend in zip(terms, bends, strict=True) if bend)
        size = scale[bends] if power == 2 else np.ones(int(bends.sum()))
        return cls(kept, low, high, line[:, bends], size, power)

    def __len__(self) -> int:
        return len(self.terms)

    def __call__(self, X: FloatArray) -> FloatArray:
        """Return the curves' columns (N, len) of rows X."""
        inside = np.clip(X, self.low, self.high)
        raw = _powers(inside, self.terms, self.low, self.high, self.power)
        return np.asarray((raw - _affine(inside) @ self.line) / self.scale)


def _affine(X: FloatArray) -> FloatArray:
    return np.column_stack([np.ones(len(X)), X])


def _powers(
    X: FloatArray,
    terms: tuple[tuple[int, float | None], ...],
    low: FloatArray,
    high: FloatArray,
    power: int,
) -> FloatArray:
    out = np.empty((len(X), len(terms)))
    for column, (k, knot) in enumerate(terms):
        x = np.clip(X[:, k], low[k], high[k])
        out[:, column] = (x if knot is None else np.maximum(x - knot, 0.0)) ** power
    return out


@dataclass(frozen=True)
class Values:
    """Single values of columns that nodes have in common, such as years: a 0/1 column for each.

    A value that was not there when the basis was made has zeros, so no effect of its own.
    """

    columns: IntArray
    values: FloatArray

    @classmethod
    def of(cls, X: FloatArray, node: IntArray) -> Values:
        """Find the values in rows X (N, p) and the node of each row."""
        columns: list[int] = []
        values: list[float] = []
        for k, x in enumerate(X.T):
            found, codes = np.unique(x, return_inverse=True)
            if not FEW <= len(found) <= MANY - len(values):
                continue
            pairs = np.unique(np.column_stack([codes, node]), axis=0)
            holders = np.bincount(pairs[:, 0], minlength=len(found))
            if (holders[codes] >= RECURS).mean() < 0.8:
                continue
            common = found[holders >= RECURS]
            columns += [k] * len(common)
            values += common.tolist()
        return cls(np.array(columns, dtype=np.int64), np.array(values, dtype=float))

    def __len__(self) -> int:
        return len(self.values)

    def __call__(self, X: FloatArray) -> FloatArray:
        """Return the 0/1 columns (N, len) of rows X."""
        return np.asarray(X[:, self.columns] == self.values, dtype=float)


class CurveColumns(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Standardised columns, and beside them curves, smooth lines and single values of them.

    The first step of a pipeline; ``fit`` makes curves only.

    >>> rows = np.linspace(0.0, 1.0, 20)[:, None]
    >>> CurveColumns().fit(rows).transform(rows).shape
    (20, 5)
    """

    def __init__(self, knots: int = KNOTS) -> None:
        self.knots = knots

    def fit(self, X: Any, y: Any = None) -> Self:
        """Make the basis from rows."""
        X = validate_data(self, X, dtype=float)
        centre, spread = X.mean(axis=0), X.std(axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        return self.adopt(Curves.of((X - centre) / spread, self.knots), centre, spread)

    @classmethod
    def made(
        cls,
        curves: Curves | None,
        centre: FloatArray,
        spread: FloatArray,
        lines: Curves | None = None,
        values: Values | None = None,
    ) -> CurveColumns:
        """Return a fitted transformer for a basis that is there already."""
        made: CurveColumns = cls().adopt(curves, centre, spread, lines, values)
        made.n_features_in_ = len(centre)
        return made

    def adopt(
        self,
        curves: Curves | None,
        centre: FloatArray,
        spread: FloatArray,
        lines: Curves | None = None,
        values: Values | None = None,
    ) -> Self:
        """Take over curves and smooth lines of standardised columns, and values of those as they are."""
        ends = curves or lines
        p = len(centre)
        low, high = (ends.low, ends.high) if ends else (np.zeros(p), np.zeros(p))
        none = Curves((), low, high, np.zeros((p + 1, 0)), np.zeros(0))
        curves, lines = curves or none, lines or none
        self.centre_, self.spread_ = centre, spread
        self.columns_ = np.array([k for k, _ in curves.terms], dtype=np.int64)
        knots = [np.nan if knot is None else knot for _, knot in curves.terms]
        self.knots_ = np.array(knots, dtype=float)
        self.low_, self.high_ = curves.low, curves.high
        self.line_, self.scale_ = curves.line, curves.scale
        self.line_columns_ = np.array([k for k, _ in lines.terms], dtype=np.int64)
        self.line_knots_ = np.array([knot for _, knot in lines.terms], dtype=float)
        self.line_line_ = lines.line
        self.value_columns_ = np.zeros(0, dtype=np.int64) if values is None else values.columns
        self.values_ = np.zeros(0) if values is None else values.values
        return self

    def transform(self, X: Any) -> FloatArray:
        """Return standardised columns and their curves."""
        check_is_fitted(self, "columns_")
        X = validate_data(self, X, dtype=float, reset=False)
        knots = [None if np.isnan(knot) else float(knot) for knot in self.knots_]
        terms = tuple(zip(self.columns_.tolist(), knots, strict=True))
        curves = Curves(terms, self.low_, self.high_, self.line_, self.scale_)
        Z = (X - self.centre_) / self.spread_
        places = tuple(zip(self.line_columns_.tolist(), self.line_knots_.tolist(), strict=True))
        ones = np.ones(len(places))
        lines = Curves(places, self.low_, self.high_, self.line_line_, ones, power=1)
        values = Values(self.value_columns_, self.values_)
        return np.column_stack([Z, curves(Z), lines(Z), values(X)])
