"""The edges that a page shows: their ends as indices and, of very many, those that matter most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedrelax.report.data.rounding import numbers
from fedrelax.typing import FloatArray, IntArray, Label

MOST_EDGES = 40_000


@dataclass(frozen=True, eq=False)
class EdgeTable:
    """Edges by column. ``weight`` is 0 for edges that a wiring found, ``used`` for those it dropped."""

    ends: IntArray
    weight: FloatArray
    used: FloatArray
    there: FloatArray
    """The discrepancy d(i, j) from the first end to the second; NaN where an end has no model."""
    back: FloatArray
    total: int
    kept: int

    def for_layout(self) -> tuple[IntArray, FloatArray]:
        """Return the edges in use and how strongly they pull: by weight, and more if both ends agree."""
        inside = self.used > 0
        gap = np.nan_to_num((self.there + self.back) / 2, nan=np.inf)[inside]
        usual = float(np.median(gap[np.isfinite(gap)])) if np.isfinite(gap).any() else 0.0
        near = usual / (gap + usual) if usual > 0 else np.full(len(gap), 0.5)
        return self.ends[inside], self.used[inside] * (0.05 + near)

    def to_dict(self) -> dict[str, Any]:
        """Return the columns for the page's script."""
        columns = {"weight": self.weight, "used": self.used, "there": self.there, "back": self.back}
        return {
            "source": self.ends[:, 0].tolist(),
            "target": self.ends[:, 1].tolist(),
            **{name: numbers(values) for name, values in columns.items()},
            "total": self.total,
            "kept": self.kept,
        }


def edges_of(frame: Any, labels: Sequence[Label], most: int) -> EdgeTable:
    """Return at most about ``most`` edges of a frame such as ``Result.edges_to_frame`` returns."""
    number = {label: k for k, label in enumerate(labels)}
    ends = np.empty((len(frame), 2), dtype=np.int64)
    for side, name in enumerate(("source", "target")):
        ends[:, side] = [number[label] for label in frame[name]]
    used = frame["used"].to_numpy(float)
    keep = strongest(ends, used, _agreement(frame), len(number), most)
    return EdgeTable(
        ends=ends[keep],
        weight=frame["weight"].to_numpy(float)[keep],
        used=used[keep],
        there=frame["discrepancy"].to_numpy(float)[keep],
        back=frame["discrepancy_back"].to_numpy(float)[keep],
        total=len(frame),
        kept=int((used > 0).sum()),
    )


def _agreement(frame: Any) -> FloatArray:
    both = frame["discrepancy"].to_numpy(float) + frame["discrepancy_back"].to_numpy(float)
    return np.asarray(np.nan_to_num(-both, nan=-np.inf))


def strongest(
    ends: IntArray, used: FloatArray, agreement: FloatArray, nodes: int, most: int
) -> IntArray:
    """Return the indices of all edges or, of too many, of those among the strongest of either end."""
    if len(ends) <= most:
        return np.arange(len(ends))
    each = max(1, most // nodes)
    node = np.concatenate([ends[:, 0], ends[:, 1]])
    order = np.lexsort((-np.tile(agreement, 2), -np.tile(used, 2), node))
    starts = np.searchsorted(node[order], np.arange(nodes))
    rank = np.arange(len(order)) - starts[node[order]]
    return np.unique(order[rank < each] % len(ends))
