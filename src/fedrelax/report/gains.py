"""How much was gained over the nodes, with an interval, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from fedrelax.comparison.intervals import LEVEL, Interval, difference, share_variance
from fedrelax.report.summary import Summary
from fedrelax.storage import SavedResult
from fedrelax.typing import FloatArray

UNSURE = (
    "The intervals are Student's, over nodes, from one split of the rows. They say how far the mean "
    "would move with other nodes like these. Nodes that learn from each other are not independent, "
    "so the intervals may be too narrow; fedrelax compare repeats the split."
)


def summary_of(saved: SavedResult) -> Summary | None:
    """Return the saved comparison, or None if nothing was measured."""
    if "errors" not in saved.metrics:
        return None
    lines = saved.nodes.rename(columns={"gain_percent": "gain"})
    return Summary(saved.metrics["measure"], lines, saved.metrics["errors"])


@dataclass(frozen=True)
class Saving:
    """By how much the error together is lower than another way's: the mean over ``nodes`` nodes."""

    against: str
    nodes: int
    interval: Interval | None
    """None for fewer than two nodes."""
    better: int
    worse: int
    equal: int


def saving(summary: Summary, against: str) -> Saving:
    """Compare together with ``against`` ("alone" or "pooled"), node by node."""
    tested = summary.nodes[summary.nodes["test_rows"] > 0]
    theirs, ours = tested[against].to_numpy(float), tested["fedrelax"].to_numpy(float)
    least = 0.0
    if summary.measure == "error rate" and len(tested):
        gap = float(np.mean(theirs - ours))
        least = share_variance(gap, int(tested["test_rows"].sum()))
    interval = over_nodes(difference(theirs, ours), least) if len(tested) > 1 else None
    return Saving(against, len(tested), interval, **summary.counts(against))


def over_nodes(values: FloatArray, least_variance: float = 0.0) -> Interval:
    """Return the mean of one value per node and its 95 % interval m +- t s / sqrt(n).

    t is the 97.5 % quantile of Student's distribution with n - 1 degrees of freedom. Where it is
    known that the variance of the mean cannot be below ``least_variance``, it counts as that.

    >>> found = over_nodes(np.array([1.0, 2.0, 3.0]))
    >>> round(found.low, 3), round(found.high, 3)
    (-0.484, 4.484)
    """
    nodes = len(values)
    mean, variance = float(np.mean(values)), float(np.var(values, ddof=1)) / nodes
    quantile = float(stdtrit(nodes - 1, (1 + LEVEL) / 2))
    half = quantile * float(np.sqrt(max(variance, least_variance)))
    return Interval(mean, mean - half, mean + half)


def most_and_least(summary: Summary, count: int = 3) -> tuple[Any, Any]:
    """Return the lines of the nodes with the largest gains, and of those that lost most."""
    ranked = summary.nodes[summary.nodes["gain"].notna()].sort_values(
        "gain", ascending=False, kind="stable"
    )
    best, worst = ranked.head(count), ranked.tail(count)[::-1]
    return best[best["gain"] > 0], worst[worst["gain"] < 0]
