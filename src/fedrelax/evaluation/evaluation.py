"""Did it help? Each node's error alone, pooled and together: the numbers and what they say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedrelax.evaluation.intervals import Interval, difference, student_interval
from fedrelax.evaluation.measures import Measure, measure_named
from fedrelax.typing import FloatArray

WAYS = ALONE, POOLED, TOGETHER = "alone", "pooled", "together"
"""Each node's model on its own rows; the same kind of model on everybody's rows; over the graph."""
NAMES = {ALONE: "each node alone", POOLED: "one pooled model", TOGETHER: "learning together"}
LITTLE = 1.0
"""A change of less than this many percent is called little."""
HELPED, HURT = "Learning together helped", "Learning together hurt"


@dataclass(frozen=True)
class Gap:
    """By how much the error together is lower than another way's: the mean over ``nodes`` nodes."""

    nodes: int
    interval: Interval | None
    """None for fewer than two nodes."""
    better: int
    worse: int
    equal: int

    @property
    def counts(self) -> dict[str, int]:
        """How many nodes are better together, worse, and equal."""
        return {"better": self.better, "worse": self.worse, "equal": self.equal}


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Errors on test rows: ``nodes`` has a line per node, ``errors`` the error over all rows by way.

    ``nodes`` is a DataFrame: node, model, rows, test_rows, alone, pooled, together, and gain: by how
    many percent the error together is lower than alone. Nodes without test rows have NaN.
    """

    measure: Measure
    nodes: Any
    errors: Mapping[str, float]

    @classmethod
    def of(cls, measure: Measure, nodes: Any, errors: Mapping[str, float]) -> Evaluation:
        """Return an evaluation of lines that lack the column of gains."""
        gain = gains(nodes[ALONE].to_numpy(), nodes[TOGETHER].to_numpy())
        return cls(measure, nodes.assign(gain=gain), errors)

    @classmethod
    def saved(cls, metrics: Mapping[str, Any], nodes: Any) -> Evaluation | None:
        """Return the evaluation whose ``to_dict`` and ``nodes`` were saved, or None if there was none."""
        if "errors" not in metrics:
            return None
        return cls(measure_named(metrics["measure"]), nodes, metrics["errors"])

    def with_untested(self, lines: Any) -> Evaluation:
        """Return this evaluation with further lines (node, model), of nodes that were not measured."""
        import pandas as pd

        if not len(lines):
            return self
        nodes = pd.concat([self.nodes, lines.assign(rows=0, test_rows=0)], ignore_index=True)
        return replace(self, nodes=nodes)

    @property
    def tested(self) -> Any:
        """The lines of the nodes with test rows."""
        return self.nodes[self.nodes["test_rows"] > 0]

    @property
    def gain(self) -> float:
        """By how many percent the error over all test rows is lower than alone."""
        return float(gains(self.errors[ALONE], self.errors[TOGETHER]))

    def against(self, way: str) -> Gap:
        """Compare together with another way, node by node."""
        tested = self.tested
        gap = difference(tested[way].to_numpy(float), tested[TOGETHER].to_numpy(float))
        interval = None
        if len(gap) > 1:
            rows = int(tested["test_rows"].sum())
            least = len(gap) * self.measure.least_variance(float(gap.mean()), rows)
            interval = student_interval(gap, least_variance=least)
        counts = (int((gap > 0).sum()), int((gap < 0).sum()), int((gap == 0).sum()))
        return Gap(len(gap), interval, *counts)

    def by_kind(self) -> list[tuple[str, int, float, float, float]]:
        """Return (kind of model, nodes, mean error alone, together, gain), the largest gain first."""
        found = []
        for kind, lines in self.tested.groupby("model", sort=True):
            alone, ours = float(lines[ALONE].mean()), float(lines[TOGETHER].mean())
            found.append((str(kind), len(lines), alone, ours, float(gains(alone, ours))))
        return sorted(found, key=lambda line: -np.nan_to_num(line[4], nan=-np.inf))

    def ranked(self) -> Any:
        """Return the lines, the largest gain first; those without a gain come last."""
        return self.nodes.sort_values("gain", ascending=False, na_position="last", kind="stable")

    @property
    def headline(self) -> str:
        """The verdict in a few words."""
        interval = self.against(ALONE).interval
        if interval is None:
            return HELPED if self.gain > 0 else "It did not help"
        if interval.above_zero:
            return HELPED
        return HURT if interval.below_zero else "No clear difference"

    @property
    def verdict(self) -> str:
        """One sentence about the errors over all test rows."""
        name, gain = self.measure.name, self.gain
        alone, pooled, ours = (self.measure.show(self.errors[way]) for way in WAYS)
        if self.errors[ALONE] == self.errors[TOGETHER]:
            return (
                f"It made no difference: the {name} is {ours} alone and together; pooled: {pooled}."
            )
        if not gain >= LITTLE:
            what = "made little difference" if gain > 0 else "did not help here"
            return f"It {what}: the {name} is {ours} together and {alone} alone; pooled: {pooled}."
        ends = f"one pooled model has {pooled}."
        if self.errors[POOLED] < self.errors[TOGETHER] and pooled != ours:
            ends = f"one pooled model, with all rows in one place, does better still: {pooled}."
        lowered = f"lowered the {name} from {alone} (alone) to {ours}, by {gain:.0f} %"
        return f"Learning together {lowered}; {ends}"

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain values, for JSON."""
        return {
            "measure": self.measure.name,
            "test_rows": int(self.nodes["test_rows"].sum()),
            "errors": dict(self.errors),
            "gain": self.gain,
            "nodes_against_alone": self.against(ALONE).counts,
            "nodes_against_pooled": self.against(POOLED).counts,
            "verdict": self.verdict,
        }


def gains(before: FloatArray | float, after: FloatArray | float) -> FloatArray:
    """Return by how many percent errors went down; NaN where an error grew from 0.

    >>> gains(np.array([4.0, 0.0, 0.0]), np.array([3.0, 0.0, 1.0]))
    array([25.,  0., nan])
    """
    before, after = np.asarray(before, dtype=float), np.asarray(after, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = 100.0 * (before - after) / before
    return np.where(np.isfinite(gain), gain, np.where(before == after, 0.0, np.nan))


def percent(gain: float) -> str:
    """Return a gain with its sign.

    >>> percent(12.34), percent(-3.0), percent(float("nan"))
    ('+12 %', '-3 %', '-')
    """
    return f"{gain:+.0f} %" if np.isfinite(gain) else "-"
