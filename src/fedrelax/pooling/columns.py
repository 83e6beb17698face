"""The columns of pooled models: those of a table, standardised, and what is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline

from fedrelax.models.curves import CurveColumns, Curves, Values
from fedrelax.schema.inferring import COMMON
from fedrelax.schema.schema import rounded
from fedrelax.typing import AnyArray, FloatArray, IntArray

BASES = {
    "curves": "curves of them",
    "lines": "smooth lines",
    "values": "effects of single values",
}
"""What may be added to the columns, with its words."""


@dataclass(frozen=True)
class Columns:
    """How columns and targets are standardised, and which curves are added."""

    centre: FloatArray
    spread: FloatArray
    level: float = 0.0
    size: float = 1.0
    curves: Curves | None = None
    lines: Curves | None = None
    values: Values | None = None

    def __call__(self, X: FloatArray) -> FloatArray:
        """Return standardised columns, what is made of them, and the constant column."""
        Z = (X - self.centre) / self.spread
        parts = [Z, *(basis(Z) for basis in (self.curves, self.lines) if basis is not None)]
        if self.values is not None:
            parts.append(self.values(X))
        return np.column_stack([*parts, np.ones(len(Z))])

    @property
    def plain(self) -> Columns:
        """The columns of the table only."""
        return Columns(self.centre, self.spread, self.level, self.size)

    @property
    def is_plain(self) -> bool:
        """Whether there are only the columns of the table."""
        return all(getattr(self, basis) is None for basis in BASES)

    def places(self, name: str) -> IntArray:
        """Return which columns belong to a basis."""
        start = len(self.centre)
        for basis in BASES:
            many = len(getattr(self, basis) or ())
            if basis == name:
                return np.arange(start, start + many)
            start += many
        raise ValueError(name)

    def unscaled(self, w: FloatArray) -> FloatArray:
        """Return models (..., d) of the standardised target as models of the target itself."""
        models = self.size * w
        models[..., -1] += self.level
        return np.asarray(models)

    def estimators(self, models: FloatArray, classes: AnyArray | None = None) -> list[Any]:
        """Return models (n, c, d) as plain fitted estimators; with classes, models of their log-odds."""
        if self.is_plain:
            coef = models[..., :-1] / self.spread
            levels = models[..., -1] - coef @ self.centre
            return [_fitted(*one, classes) for one in zip(coef, levels, strict=True)]
        made = CurveColumns.made(self.curves, self.centre, self.spread, self.lines, self.values)
        name = "ridge" if classes is None else "logistic"
        return [
            Pipeline([("curves", made), (name, _fitted(w[:, :-1], w[:, -1], classes))])
            for w in models
        ]


def _fitted(coef: FloatArray, level: FloatArray, classes: AnyArray | None) -> Any:
    """Return a fitted estimator of scikit-learn with these coefficients (c, p) and levels (c,)."""
    if classes is None:
        model: Any = Ridge()
        model.coef_, model.intercept_ = coef[0].copy(), float(level[0])
        model.n_iter_, model.solver_ = None, "cholesky"
    else:
        model = LogisticRegression()
        model.coef_, model.intercept_, model.classes_ = coef.copy(), level.copy(), classes
        model.n_iter_ = np.ones(1, dtype=np.int32)
    model.n_features_in_ = coef.shape[1]
    return model


def told_of(target: FloatArray) -> tuple[float, float] | None:
    """Return what a node tells of its numbers: mean and spread, to six digits, unless it has few rows."""
    if len(target) < COMMON:
        return None
    return rounded(float(target.mean()), float(target.std()))


def level_and_size(
    told: Sequence[tuple[float, float] | None], rows: IntArray
) -> tuple[float, float]:
    """Return the mean and spread of the target over all nodes, from what they tell.

    >>> level_and_size([(1.0, 1.0), None, (3.0, 1.0)], np.array([4, 1, 4]))
    (2.0, 1.4142135623730951)
    """
    known = [one is not None for one in told]
    if not any(known):
        return 0.0, 1.0
    means, spreads = np.array([one for one in told if one is not None]).T
    shares = rows[known] / rows[known].sum()
    level = float(shares @ means)
    return level, float(np.sqrt(shares @ (np.square(spreads) + np.square(means - level)))) or 1.0
