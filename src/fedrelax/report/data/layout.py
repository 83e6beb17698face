"""The edges that are shown, and where nodes are drawn: on a map, or so that nodes that agree are close.

The same input gives the same places, bit for bit, on one machine: no sum is taken whose order could
change from run to run (as in threaded matrix products).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from fedrelax.graph import Graph
from fedrelax.report.data.rounding import numbers
from fedrelax.typing import FloatArray, IntArray

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
    def strongest(cls, ends: IntArray, *columns: FloatArray, nodes: int, most: int) -> EdgeTable:
        """Return all edges or, of too many, those among the strongest of either end."""
        weight, used, there, back = columns
        total, kept = len(ends), int((used > 0).sum())
        if total > most:
            agreement = np.nan_to_num(-(there + back), nan=-np.inf)
            node = ends.T.ravel()
            order = np.lexsort((-np.tile(agreement, 2), -np.tile(used, 2), node))
            starts = np.searchsorted(node[order], np.arange(nodes))
            rank = np.arange(len(order)) - starts[node[order]]
            near = np.unique(order[rank < max(1, most // nodes)] % total)
            ends, (weight, used, there, back) = ends[near], (one[near] for one in columns)
        return cls(ends, weight, used, there, back, total, kept)

    def for_layout(self) -> tuple[IntArray, FloatArray]:
        """Return the edges in use and how strongly they pull: by weight, and more if both ends agree."""
        inside = self.used > 0
        gap = np.nan_to_num((self.there + self.back) / 2, nan=np.inf)[inside]
        usual = float(np.median(gap[np.isfinite(gap)])) if np.isfinite(gap).any() else 0.0
        near = usual / (gap + usual) if usual > 0 else np.full(len(gap), 0.5)
        return self.ends[inside], self.used[inside] * (0.05 + near)

    def to_dict(self) -> dict[str, Any]:
        """Return the columns for the page's script."""
        return {
            "source": self.ends[:, 0].tolist(),
            "target": self.ends[:, 1].tolist(),
            **{name: numbers(getattr(self, name)) for name in ("weight", "used", "there", "back")},
            "total": self.total,
            "kept": self.kept,
        }


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


def places_of(graph: Graph, edges: EdgeTable) -> Places:
    """Return where the nodes of a graph are drawn: at their positions, or near those they agree with."""
    return places(graph.positions, graph.geographic, *edges.for_layout(), len(graph))


def places(
    positions: FloatArray | None, geographic: bool, ends: IntArray, strength: FloatArray, nodes: int
) -> Places:
    """Return the places of ``nodes`` nodes whose edges have the ``ends`` (edges, 2).

    Nodes without a position are drawn at the mean of their neighbours, or of all nodes.
    """
    drawn = positions is not None and positions.shape[1] >= 2 and np.isfinite(positions).any()
    if positions is None or not drawn:
        points, kind = spread(nodes, ends, strength), "layout"
    else:
        has_place = np.asarray(np.isfinite(positions).all(axis=1))
        flat, kind = positions[has_place][:, :2], "coordinates"
        if geographic:
            flat, kind = project(positions[has_place]), "map"
        points = np.full((nodes, 2), flat.mean(axis=0))
        points[has_place] = flat
        for node in np.flatnonzero(~has_place):
            near = np.concatenate([ends[ends[:, 0] == node, 1], ends[ends[:, 1] == node, 0]])
            if has_place[near].any():
                points[node] = points[near[has_place[near]]].mean(axis=0)
    low, high = points.min(axis=0), points.max(axis=0)
    half = float((high - low).max()) / 2 or 1.0  # one scale for both axes
    return Places((points - (low + high) / 2) / half, kind, half if drawn else None)


def project(degrees: FloatArray) -> FloatArray:
    """Return (latitude, longitude) as km east and north of the centre.

    Sinusoidal: distances along parallels and along the middle meridian are true.

    >>> east, north = project(np.array([[0.0, 179.0], [0.0, -179.0]]))[1]
    >>> round(east), round(north)
    (111, 0)
    """
    latitude, longitude = np.radians(degrees).T
    middle = np.angle(np.exp(1j * longitude).mean())  # also where longitudes jump from 180 to -180
    east = np.cos(latitude) * ((longitude - middle + np.pi) % (2 * np.pi) - np.pi)
    return np.asarray(EARTH * np.stack([east, latitude - latitude.mean()], axis=1))


def spread(nodes: int, ends: IntArray, strength: FloatArray, seed: int = 0) -> FloatArray:
    """Return a force-directed layout: edges pull by their strength, all nodes push each other away."""
    rng = np.random.default_rng(seed)
    points = _smooth_start(nodes, ends, strength, rng)
    gap, sample, share = 1.0 / np.sqrt(nodes), min(nodes, SAMPLE), max(1.0, nodes / SAMPLE)
    # relative to the edges at both ends, so that hubs do not collapse
    total = np.bincount(ends.ravel(), np.repeat(strength, 2), minlength=nodes)
    pull = strength / np.maximum(np.sqrt(total[ends[:, 0]] * total[ends[:, 1]]), 1e-12)
    rows, signs = np.repeat(np.arange(len(ends)), 2), np.tile([-1.0, 1.0], len(ends))
    along = sparse.csr_array((signs, (rows, ends.ravel())), shape=(len(ends), nodes))
    for step in range(STEPS):
        others = points if nodes <= SAMPLE else points[rng.choice(nodes, sample, replace=False)]
        dx, dy = points[:, :1] - others[:, 0], points[:, 1:] - others[:, 1]
        near = gap * gap / (dx * dx + dy * dy + 1e-6)
        push = share * np.stack([(near * dx).sum(axis=1), (near * dy).sum(axis=1)], axis=1)
        edges = along @ points
        edges *= (9.0 * pull * (0.15 + np.hypot(*edges.T)))[:, None]
        force = push - along.T @ edges - 4.0 * gap * points
        length = np.maximum(np.hypot(*force.T), 1e-12)
        most = 0.12 * (1.0 - step / STEPS) ** 1.5 + 0.002
        points = points + force * (np.minimum(length, most) / length)[:, None]
    return points


def _smooth_start(
    nodes: int, ends: IntArray, strength: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Return random points, each moved repeatedly towards the mean of its neighbours."""
    points = rng.normal(size=(nodes, 2))
    one, other = ends.T
    matrix = sparse.csr_array((strength, (one, other)), shape=(nodes, nodes))
    matrix = matrix + matrix.T
    total = np.maximum(matrix.sum(axis=1), 1e-12)[:, None]
    for _ in range(SMOOTHINGS):
        points = 0.5 * points + 0.5 * (matrix @ points) / total
        points = points - points.mean(axis=0)
        x, y = points.T
        y -= x * float((x * y).sum()) / max(float((x * x).sum()), 1e-12)
        points /= np.maximum(points.std(axis=0), 1e-12)
    return np.asarray(0.3 * points + 0.02 * rng.normal(size=(nodes, 2)))
