"""The edges that are shown, and where nodes are drawn: on a map, or so that nodes that agree are close.

The same input gives the same places, bit for bit, on one machine: no sum is taken whose order could
change from run to run (as in threaded matrix products).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from fedrelax.report.data.rounding import numbers
from fedrelax.typing import DataFrame, FloatArray, IntArray, Label

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

    @classmethod
    def strongest(
        cls,
        ends: IntArray,
        weight: FloatArray,
        used: FloatArray,
        there: FloatArray,
        back: FloatArray,
        nodes: int,
        most: int,
    ) -> EdgeTable:
        """Return all edges or, of too many, those among the strongest of either end."""
        keep: IntArray = np.arange(len(ends))
        if len(ends) > most:
            agreement = np.nan_to_num(-(there + back), nan=-np.inf)
            node = np.concatenate([ends[:, 0], ends[:, 1]])
            order = np.lexsort((-np.tile(agreement, 2), -np.tile(used, 2), node))
            starts = np.searchsorted(node[order], np.arange(nodes))
            rank = np.arange(len(order)) - starts[node[order]]
            keep = np.unique(order[rank < max(1, most // nodes)] % len(ends))
        weight, there, back = weight[keep], there[keep], back[keep]
        kept = int((used > 0).sum())
        return cls(ends[keep], weight, used[keep], there, back, len(ends), kept)

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


def edges_of(frame: DataFrame, labels: Sequence[Label], most: int) -> EdgeTable:
    """Return at most about ``most`` edges of a frame such as ``Result.edges_to_frame`` returns."""
    number = {label: k for k, label in enumerate(labels)}
    ends = np.empty((len(frame), 2), dtype=np.int64)
    for side, name in enumerate(("source", "target")):
        ends[:, side] = [number[label] for label in frame[name]]
    names = ("weight", "used", "discrepancy", "discrepancy_back")
    weight, used, there, back = (frame[name].to_numpy(float) for name in names)
    return EdgeTable.strongest(ends, weight, used, there, back, len(number), most)


EARTH = 6371.0
"""The mean radius in km."""
STEPS, SMOOTHINGS = 90, 30
SAMPLE = 500
"""With more nodes than this, only a random sample of them pushes in every step."""


@dataclass(frozen=True, eq=False)
class Places:
    """One point per node in the square from -1 to 1, and what the distances between them mean."""

    points: FloatArray
    kind: str
    """"map", "coordinates" (both true to scale) or "layout" (near means: agrees)."""
    unit: float | None = None
    """How many km, or units of the coordinates, one unit of ``points`` is; None for a layout."""


def places(
    positions: FloatArray | None, geographic: bool, ends: IntArray, strength: FloatArray, nodes: int
) -> Places:
    """Return the places of ``nodes`` nodes whose edges have the ``ends`` (edges, 2)."""
    if positions is None or positions.shape[1] < 2 or not np.isfinite(positions).any():
        points, _ = _in_the_square(spread(nodes, ends, strength))
        return Places(points, "layout")
    known = np.isfinite(positions).all(axis=1)
    flat = np.full((nodes, 2), np.nan)
    flat[known] = project(positions[known]) if geographic else positions[known][:, :2]
    points, unit = _in_the_square(_fill_in(flat, ends))
    return Places(points, "map" if geographic else "coordinates", unit)


def project(degrees: FloatArray) -> FloatArray:
    """Return (latitude, longitude) as km east and north of the centre.

    Azimuthal equidistant: distances and directions from the centre are true.

    >>> east, north = project(np.array([[0.0, 179.0], [0.0, -179.0]]))[1]
    >>> round(east), round(north)
    (111, 0)
    """
    latitude, longitude = np.radians(degrees).T
    cos = np.cos(latitude)
    points = np.stack([cos * np.cos(longitude), cos * np.sin(longitude), np.sin(latitude)], axis=1)
    middle = points.mean(axis=0)
    length = float(np.sqrt(np.square(middle).sum()))
    middle = middle / length if length > 1e-9 else points[0]
    flat = float(np.hypot(middle[0], middle[1])) or 1.0
    east = np.array([-middle[1], middle[0], 0.0]) / flat if flat > 1e-9 else np.array([0, 1.0, 0])
    north = np.cross(middle, east)
    x, y = (points * east).sum(axis=1), (points * north).sum(axis=1)
    across = np.hypot(x, y)
    angle = np.arctan2(across, (points * middle).sum(axis=1))
    stretch = np.where(across > 1e-12, angle / np.maximum(across, 1e-12), 1.0)
    return np.asarray(EARTH * np.stack([x * stretch, y * stretch], axis=1))


def _fill_in(points: FloatArray, ends: IntArray) -> FloatArray:
    """Put nodes without a position at the mean of their neighbours, or of all nodes."""
    filled = points.copy()
    for node in np.flatnonzero(np.isnan(points).any(axis=1)):
        near = np.concatenate([ends[ends[:, 0] == node, 1], ends[ends[:, 1] == node, 0]])
        near = near[np.isfinite(points[near]).all(axis=1)]
        filled[node] = np.nanmean(points[near] if len(near) else points, axis=0)
    return filled


def _in_the_square(points: FloatArray) -> tuple[FloatArray, float]:
    """Return the points between -1 and 1 with one scale for both axes, and that scale."""
    low, high = points.min(axis=0), points.max(axis=0)
    half = float((high - low).max()) / 2 or 1.0
    return (points - (low + high) / 2) / half, half


def spread(nodes: int, ends: IntArray, strength: FloatArray, seed: int = 0) -> FloatArray:
    """Return a force-directed layout: edges pull by their strength, all nodes push each other away."""
    rng = np.random.default_rng(seed)
    points = _smooth_start(nodes, ends, strength, rng)
    gap = 1.0 / np.sqrt(nodes)
    # relative to the edges at both ends, so that hubs do not collapse
    total = np.bincount(ends.ravel(), np.repeat(strength, 2), minlength=nodes)
    pull = strength / np.maximum(np.sqrt(total[ends[:, 0]] * total[ends[:, 1]]), 1e-12)
    for step in range(STEPS):
        force = _push(points, gap, rng) + _pull(points, ends, pull) - 4.0 * gap * points
        length = np.maximum(np.hypot(force[:, 0], force[:, 1]), 1e-12)
        most = 0.12 * (1.0 - step / STEPS) ** 1.5 + 0.002
        points = points + force * (np.minimum(length, most) / length)[:, None]
    return points


def _smooth_start(
    nodes: int, ends: IntArray, strength: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Return random points, each moved repeatedly towards the mean of its neighbours."""
    points = rng.normal(size=(nodes, 2))
    both = np.concatenate([ends, ends[:, ::-1]])
    shape = (nodes, nodes)
    matrix = sparse.csr_array((np.tile(strength, 2), (both[:, 0], both[:, 1])), shape=shape)
    total = np.maximum(matrix.sum(axis=1), 1e-12)[:, None]
    for _ in range(SMOOTHINGS):
        points = 0.5 * points + 0.5 * (matrix @ points) / total
        points = points - points.mean(axis=0)
        x, y = points.T
        y = y - x * float((x * y).sum()) / max(float((x * x).sum()), 1e-12)
        points = np.stack([x / max(x.std(), 1e-12), y / max(y.std(), 1e-12)], axis=1)
    return np.asarray(0.3 * points + 0.02 * rng.normal(size=(nodes, 2)))


def _push(points: FloatArray, gap: float, rng: np.random.Generator) -> FloatArray:
    others, share = points, 1.0
    if len(points) > SAMPLE:
        others = points[rng.choice(len(points), SAMPLE, replace=False)]
        share = len(points) / SAMPLE
    dx = points[:, :1] - others[:, 0]
    dy = points[:, 1:] - others[:, 1]
    weight = gap * gap / (dx * dx + dy * dy + 1e-6)
    return share * np.stack([(weight * dx).sum(axis=1), (weight * dy).sum(axis=1)], axis=1)


def _pull(points: FloatArray, ends: IntArray, pull: FloatArray) -> FloatArray:
    delta = points[ends[:, 1]] - points[ends[:, 0]]
    force = 9.0 * pull[:, None] * delta * (0.15 + np.hypot(delta[:, 0], delta[:, 1]))[:, None]
    found = np.empty_like(points)
    for axis in (0, 1):
        here = np.bincount(ends[:, 0], force[:, axis], minlength=len(points))
        there = np.bincount(ends[:, 1], force[:, axis], minlength=len(points))
        found[:, axis] = here - there
    return found
