"""Did it help? The comparison of alone, pooled and together in a few numbers and one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedrelax.evaluation import show
from fedrelax.typing import FloatArray

LITTLE = 1.0
"""A change of less than this many percent is called little."""


@dataclass(frozen=True, eq=False)
class Summary:
    """Errors on the test rows: per node in ``nodes``, over all rows in ``totals``.

    Both speak of ``alone`` (each node's model on its own rows), ``pooled`` (the same kind of model
    on everybody's rows) and ``fedrelax``. ``nodes`` also has node, model, rows, test_rows and gain:
    by how many percent the error is lower than alone.
    """

    measure: str
    nodes: Any
    totals: dict[str, float]

    def counts(self, against: str) -> dict[str, int]:
        """Return how many nodes are better, worse and equal compared with ``against``."""
        tested = self.nodes[self.nodes["test_rows"] > 0]
        ours, theirs = tested["fedrelax"].to_numpy(), tested[against].to_numpy()
        same = np.isclose(ours, theirs, rtol=1e-9, atol=0.0)
        return {
            "better": int((~same & (ours < theirs)).sum()),
            "worse": int((~same & (ours > theirs)).sum()),
            "equal": int(same.sum()),
        }

    @property
    def gain(self) -> float:
        """By how many percent the error over all test rows is lower than alone."""
        return float(
            gains(np.array([self.totals["alone"]]), np.array([self.totals["fedrelax"]]))[0]
        )

    @property
    def verdict(self) -> str:
        """One sentence in plain words."""
        return verdict(self.measure, self.totals)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers for a machine."""
        return {
            "measure": self.measure,
            "test_rows": int(self.nodes["test_rows"].sum()),
            "errors": dict(self.totals),
            "gain_percent": self.gain,
            "nodes_against_alone": self.counts("alone"),
            "nodes_against_pooled": self.counts("pooled"),
            "verdict": self.verdict,
        }


def summarise(measure: str, nodes: Any, totals: dict[str, float]) -> Summary:
    """Make a summary of what ``evaluation.compare`` returns (there, ``alone`` is ``local``)."""
    names = {"local": "alone"}
    lines = nodes.rename(columns=names)
    lines["gain"] = gains(lines["alone"].to_numpy(), lines["fedrelax"].to_numpy())
    return Summary(measure, lines, {names.get(way, way): value for way, value in totals.items()})


def gains(before: FloatArray, after: FloatArray) -> FloatArray:
    """Return by how many percent errors went down; NaN where an error grew from nothing.

    >>> gains(np.array([4.0, 0.0, 0.0]), np.array([3.0, 0.0, 1.0]))
    array([25.,  0., nan])
    """
    before, after = np.asarray(before, dtype=float), np.asarray(after, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = 100.0 * (before - after) / before
    return np.where(np.isfinite(gain), gain, np.where(before == after, 0.0, np.nan))


def verdict(measure: str, totals: dict[str, float]) -> str:
    """Say in one sentence whether learning together was worth it on the test rows.

    >>> verdict("RMSE", {"alone": 4.0, "pooled": 5.0, "fedrelax": 3.0})
    'Learning together lowered the RMSE from 4 (alone) to 3, by 25 %; one pooled model has 5.'
    >>> verdict("error rate", {"alone": 0.2, "pooled": 0.1, "fedrelax": 0.25})
    'It did not help here: the error rate is 25.0 % together and 20.0 % alone; pooled: 10.0 %.'
    """
    alone, pooled, ours = (show(measure, totals[way]) for way in ("alone", "pooled", "fedrelax"))
    gain = float(gains(np.array([totals["alone"]]), np.array([totals["fedrelax"]]))[0])
    if totals["alone"] == totals["fedrelax"]:
        return (
            f"It made no difference: the {measure} is {ours} alone and together; pooled: {pooled}."
        )
    if not gain > 0:
        return (
            f"It did not help here: the {measure} is {ours} together and {alone} alone; "
            f"pooled: {pooled}."
        )
    if gain < LITTLE:
        return (
            f"It made little difference: the {measure} is {ours} together and {alone} alone; "
            f"pooled: {pooled}."
        )
    ends = f"one pooled model has {pooled}."
    if totals["pooled"] < totals["fedrelax"]:
        ends = f"one pooled model, with all rows in one place, does better still: {pooled}."
    return (
        f"Learning together lowered the {measure} from {alone} (alone) to {ours}, "
        f"by {gain:.0f} %; {ends}"
    )
