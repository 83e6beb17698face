"""What a comparison found: errors of every split, way and node, with intervals and the advice."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from fedrelax.comparison.advice import advise, best_pooling
from fedrelax.evaluation import ALONE, TOGETHER, Interval, Measure, student_interval
from fedrelax.evaluation.intervals import LEVEL, difference
from fedrelax.typing import AnyArray, FloatArray, Label


@dataclass(frozen=True, eq=False)
class Comparison:
    """The errors of all ways on the test rows of repeated random splits."""

    measure: Measure
    ways: tuple[str, ...]
    errors: FloatArray
    """Over all test rows of a split, (splits, ways)."""
    node_errors: FloatArray
    """Over each node's test rows, (splits, ways, nodes); NaN for a node without any."""
    settings: Sequence[Sequence[Mapping[str, Any]]]
    """What validation chose, by split and way."""
    nodes: tuple[Label, ...]
    rows: AnyArray
    """Each node's training rows and test rows in every split, (nodes, 2)."""
    refused: Mapping[str, str]
    """The ways that cannot be used on this network, and why."""
    planned: int
    """How many splits were asked for; fewer were measured if the run was interrupted."""

    @property
    def splits(self) -> int:
        """How many splits were measured."""
        return len(self.errors)

    @property
    def training_rows(self) -> int:
        """How many training rows every split has."""
        return int(self.rows[:, 0].sum())

    @property
    def test_rows(self) -> int:
        """How many test rows every split has."""
        return int(self.rows[:, 1].sum())

    def error(self, way: str) -> Interval:
        """Return the mean error of a way over the splits; its interval ends at 0 and, for shares, at 1."""
        found = self._interval(self._of(way))
        most = 1.0 if self.measure.share else np.inf
        return Interval(found.mean, max(found.low, 0.0), min(found.high, most))

    def difference(self, way: str, other: str = TOGETHER) -> Interval:
        """Return the mean of a way's error minus another's, split by split."""
        return self._interval(difference(self._of(way), self._of(other)))

    def _of(self, way: str) -> FloatArray:
        return np.asarray(self.errors[:, self.ways.index(way)])

    def _interval(self, values: FloatArray) -> Interval:
        least = self.measure.least_variance(float(np.mean(values)), self.test_rows)
        overlap = self.test_rows / self.training_rows
        return student_interval(values, overlap=overlap, least_variance=least)

    @property
    def advice(self) -> str:
        """Federate, pool or stay alone, in words, with the numbers behind it."""
        errors = {way: self.error(way).mean for way in self.ways}
        gaps = {way: self.difference(way) for way in self.ways if way != TOGETHER}
        pool = best_pooling(errors, gaps)
        pooled = None if pool is None else self.difference(ALONE, pool)
        return advise(self.measure, errors, gaps, pooled)

    @property
    def table(self) -> Any:
        """A DataFrame with a line per way, the smallest error first: means and intervals.

        ``difference`` is the way's error minus that of learning together, which is better where it
        is positive.
        """
        import pandas as pd

        lines = [
            (way, *astuple(self.error(way)), *astuple(self.difference(way))) for way in self.ways
        ]
        names = ("error", "difference")
        columns = [f"{name}{end}" for name in names for end in ("", "_low", "_high")]
        return pd.DataFrame(lines, columns=["way", *columns]).sort_values(
            "error", kind="stable", ignore_index=True
        )

    def to_frame(self) -> Any:
        """Return a DataFrame with a line per split and way: error and chosen settings."""
        import pandas as pd

        lines = [
            (split, way, self.errors[split, number], settings_text(self.settings[split][number]))
            for split in range(self.splits)
            for number, way in enumerate(self.ways)
        ]
        return pd.DataFrame(lines, columns=["split", "way", "error", "settings"])

    def nodes_to_frame(self) -> Any:
        """Return a DataFrame with a line per node: its rows, and its mean error by way."""
        import pandas as pd

        frame = pd.DataFrame({"node": list(self.nodes)})
        frame["rows"], frame["test_rows"] = self.rows.T
        with np.errstate(invalid="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # nodes without test rows
            means = np.nanmean(self.node_errors, axis=0)
        for number, way in enumerate(self.ways):
            frame[way] = means[number]
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain values, for JSON."""
        return {
            "measure": self.measure.name,
            "nodes": len(self.nodes),
            "splits": self.splits,
            "splits_asked_for": self.planned,
            "training_rows": self.training_rows,
            "test_rows": self.test_rows,
            "interval": LEVEL,
            "ways": self.table.to_dict("records"),
            "not_compared": dict(self.refused),
            "advice": self.advice,
        }


def settings_text(settings: Mapping[str, Any]) -> str:
    """Return settings as text; those without a value are left out.

    >>> settings_text({"alpha": 0.1 / 3, "rounds": 7, "rate": None})
    'alpha=0.0333333 rounds=7'
    """
    pairs = [(name, value) for name, value in settings.items() if value is not None]
    return " ".join(
        f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in pairs
    )
