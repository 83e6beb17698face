"""Curves and single values of columns, added to the columns themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from fedrelax.linear.arrays import centre_and_spread
from fedrelax.typing import FloatArray, IntArray

KNOTS = 3
"""Knots per column, at its quantiles."""
DISTINCT = 6
"""Distinct values that a column needs for a curve."""
FEW, MANY = 3, 40
"""Values with effects of their own, such as years: at least FEW in a column, at most MANY in all."""
RECURS = 3
"""Nodes at which a value must occur to have an effect; 80 % of a column's rows must have such values."""


@dataclass(frozen=True)
class Curves:
    """A basis shared by all nodes: ``x^2`` and ``max(x - knot, 0)^2`` of columns with enough values.

    Over the rows it was made from, every function is orthogonal to the constant and the columns and has
    variance 1, so it adds a bend and no slope. Outside the range of these rows a curve keeps its last
    value, and only the straight line goes on. With ``power`` 1 the basis is ``max(x - knot, 0)``, made
    orthogonal but not scaled: many of these under one penalty make a smooth line.
    """

    columns: IntArray
    knots: FloatArray
    """NaN for x^2 itself."""
    low: FloatArray
    high: FloatArray
    line: FloatArray
    scale: FloatArray
    power: int = 2

    @classmethod
    def of(cls, X: FloatArray, knots: int = KNOTS, power: int = 2, beyond: float = 0.0) -> Curves:
        """Make the basis for rows X (N, p); curves go on ``beyond`` their range by this share of it."""
        terms: list[tuple[int, float]] = []
        for k, x in enumerate(X.T):
            values = np.unique(x)
            if len(values) >= DISTINCT:
                among = x if power == 2 else values
                places = np.unique(np.quantile(among, np.arange(1, knots + 1) / (knots + 1)))
                terms += [(k, np.nan)] * (power == 2) + [(k, place) for place in places.tolist()]
        columns = np.array([k for k, _ in terms], dtype=np.int64)
        at = np.array([knot for _, knot in terms], dtype=float)
        low, high = X.min(axis=0), X.max(axis=0)
        low, high = low - beyond * (high - low), high + beyond * (high - low)
        raw = _powers(X, columns, at, power)
        line: FloatArray = np.linalg.lstsq(_affine(X), raw, rcond=None)[0].astype(np.float64)
        scale = (raw - _affine(X) @ line).std(axis=0)
        bends = scale > 1e-6 * (raw.std(axis=0) + 1e-300)
        size = scale[bends] if power == 2 else np.ones(int(bends.sum()))
        return cls(columns[bends], at[bends], low, high, line[:, bends], size, power)

    def __len__(self) -> int:
        return len(self.columns)

    def __call__(self, X: FloatArray) -> FloatArray:
        """Return the curves' columns (N, len) of rows X."""
        inside = np.clip(X, self.low, self.high)
        raw = _powers(inside, self.columns, self.knots, self.power)
        return np.asarray((raw - _affine(inside) @ self.line) / self.scale)


def _affine(X: FloatArray) -> FloatArray:
    return np.column_stack([np.ones(len(X)), X])


def _powers(X: FloatArray, columns: IntArray, knots: FloatArray, power: int) -> FloatArray:
    x = X[:, columns]
    return np.asarray(np.where(np.isnan(knots), x, np.maximum(x - knots, 0.0)) ** power)


@dataclass(frozen=True)
class Values:
    """Single values of columns that nodes have in common, such as years: a 0/1 column for each.

    A value unknown when the basis was made gets zeros, so it has no effect of its own.
    """

    columns: IntArray
    values: FloatArray

    @classmethod
    def of(cls, X: FloatArray, node: IntArray) -> Values:
        """Find the values in rows X (N, p), given the node (N,) of each row."""
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
    """Standardised columns, followed by curves, smooth lines and single values of them.

    The first step of a pipeline. ``fit`` makes curves only; ``made`` takes a basis of all three.

    >>> rows = np.linspace(0.0, 1.0, 20)[:, None]
    >>> CurveColumns().fit(rows).transform(rows).shape
    (20, 5)
    """

    def __init__(self, knots: int = KNOTS) -> None:
        self.knots = knots

    def fit(self, X: Any, y: Any = None) -> Self:
        """Make the basis from rows."""
        X = validate_data(self, X, dtype=float)
        centre, spread = centre_and_spread(X)
        made = self.made(Curves.of((X - centre) / spread, self.knots), centre, spread)
        self.__dict__ |= vars(made) | {"knots": self.knots}
        return self

    @classmethod
    def made(
        cls,
        curves: Curves | None,
        centre: FloatArray,
        spread: FloatArray,
        lines: Curves | None = None,
        values: Values | None = None,
    ) -> Self:
        """Return it fitted: curves and lines are of standardised columns, values of the raw ones."""
        p, none, ends = len(centre), np.zeros(0, dtype=np.int64), curves or lines
        low, high = (ends.low, ends.high) if ends else (np.zeros(p), np.zeros(p))
        empty = Curves(none, np.zeros(0), low, high, np.zeros((p + 1, 0)), np.zeros(0))
        curves, lines, values = curves or empty, lines or empty, values or Values(none, np.zeros(0))
        made = cls()
        made.n_features_in_, made.centre_, made.spread_ = p, centre, spread
        made.low_, made.high_ = low, high
        made.columns_, made.knots_ = curves.columns, curves.knots
        made.line_, made.scale_ = curves.line, curves.scale
        made.line_columns_, made.line_knots_, made.line_line_ = (
            lines.columns,
            lines.knots,
            lines.line,
        )
        made.value_columns_, made.values_ = values.columns, values.values
        return made

    def transform(self, X: Any) -> FloatArray:
        """Return standardised columns, curves, smooth lines and 0/1 columns, side by side."""
        check_is_fitted(self, "columns_")
        X = validate_data(self, X, dtype=float, reset=False)
        ends, ones = (self.low_, self.high_), np.ones(len(self.line_columns_))
        curves = Curves(self.columns_, self.knots_, *ends, self.line_, self.scale_)
        lines = Curves(self.line_columns_, self.line_knots_, *ends, self.line_line_, ones, power=1)
        Z = (X - self.centre_) / self.spread_
        values = Values(self.value_columns_, self.values_)
        return np.column_stack([Z, curves(Z), lines(Z), values(X)])
