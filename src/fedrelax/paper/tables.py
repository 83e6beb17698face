"""From finished runs to tables: means, standard errors, ratios, bounds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedrelax.paper.catalog import Figure, Line
from fedrelax.paper.cells import Cell
from fedrelax.paper.store import Store
from fedrelax.typing import FloatArray

COLUMNS = (
    "figure",
    "method",
    "d",
    "alpha",
    "sigma",
    "p_in",
    "metric",
    "iteration",
    "mean",
    "sem",
    "runs",
    "normalised_by_local",
    "bound",
    "normalised_by_oracle",
    "first_exchange",
)


@dataclass(frozen=True)
class Curve:
    """Mean and standard error over the runs, at every iteration."""

    mean: FloatArray
    sem: FloatArray


@dataclass(frozen=True)
class Measured:
    """A line with its ``values`` (runs, iterations); ``drawn`` is the curve that the figure shows."""

    line: Line
    values: FloatArray
    drawn: Curve
    by_local: Curve | None
    by_oracle: Curve | None
    bounds: FloatArray | None

    @property
    def plain(self) -> Curve:
        """The metric itself."""
        return mean_curve(self.values)


def mean_curve(values: FloatArray) -> Curve:
    """Return the mean over runs and its standard error (NaN for a single run)."""
    runs = len(values)
    spread = values.std(axis=0, ddof=1) if runs > 1 else np.full(values.shape[1], np.nan)
    return Curve(values.mean(axis=0), spread / np.sqrt(runs))


def ratio_curve(values: FloatArray, base: FloatArray) -> Curve:
    """Return mean(values) / mean(base), both over the same runs, and its standard error.

    To first order, the error of r = a/b is that of the mean of (a_i - r b_i) / b.
    """
    below = base.mean(axis=0)
    ratio = values.mean(axis=0) / below
    rest = (values - ratio * base) / below
    return Curve(ratio, mean_curve(rest).sem)


def measure(line: Line, store: Store, runs: int) -> Measured:
    """Collect the runs of a line; all must be finished."""

    def curves(cell: Cell) -> FloatArray:
        found = [store.load(cell, seed) for seed in range(runs)]
        return np.array([run.curve for run in found if run is not None])

    values = curves(line.cell)
    by_local = None if line.by_local is None else ratio_curve(values, curves(line.by_local))
    by_oracle = None if line.by_oracle is None else ratio_curve(values, curves(line.by_oracle))
    bounds = None if line.bound is None else curves(line.bound)[:, 0]
    # The paper divides trees on clusters by the oracle, and mixtures by training alone.
    drawn = by_oracle or by_local or mean_curve(values)
    return Measured(line, values, drawn, by_local, by_oracle, bounds)


def measure_all(figure: Figure, store: Store, runs: int) -> dict[Line, Measured]:
    """Return every line of a figure with its runs."""
    return {line: measure(line, store, runs) for line in dict.fromkeys(figure.lines)}


def to_frame(lines: Iterable[Measured]) -> Any:
    """Return a DataFrame with one row per line and iteration; a line drawn twice is in it once."""
    import pandas as pd

    known: dict[tuple[str, Cell], Any] = {}
    for one in lines:
        known.setdefault((one.line.sheet, one.line.cell), _rows(one))
    frame = pd.concat(list(known.values()), ignore_index=True)
    return frame[list(COLUMNS)]


def _rows(one: Measured) -> Any:
    import pandas as pd

    cell, curve = one.line.cell, one.plain
    named = one.line.method != "fedrelax"
    return pd.DataFrame(
        {
            "figure": one.line.sheet,
            "method": one.line.method,
            "d": cell.d,
            "alpha": np.nan if named or cell.alpha is None else cell.alpha,
            "sigma": cell.sigma,
            "p_in": cell.p_in,
            "metric": cell.metric,
            "iteration": np.arange(len(curve.mean)),
            "mean": curve.mean,
            "sem": curve.sem,
            "runs": len(one.values),
            "normalised_by_local": np.nan if one.by_local is None else one.by_local.mean,
            "bound": np.nan if one.bounds is None else one.bounds.mean(),
            "normalised_by_oracle": np.nan if one.by_oracle is None else one.by_oracle.mean,
            "first_exchange": cell.first_exchange,
        }
    )
