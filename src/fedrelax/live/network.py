"""The network as a live page draws it: names, places, and the edges in use and dropped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from fedrelax.graph import Graph
from fedrelax.report.data.edges import MOST_EDGES, strongest
from fedrelax.report.data.layout import Places, places
from fedrelax.report.data.rounding import numbers
from fedrelax.report.page.script_data import place_columns
from fedrelax.typing import FloatArray, IntArray, Label


@dataclass(frozen=True, eq=False)
class Edges:
    """The edges that were given or are in use: their ends, and their current weights (0: dropped)."""

    ends: IntArray
    used: FloatArray

    @classmethod
    def of(cls, given: Any, now: Any) -> Edges:
        """Return each edge once, from two symmetric CSR matrices."""
        n = now.shape[0]
        before, after = (sparse.triu(matrix, k=1).tocoo() for matrix in (given, now))
        old, new = (part.row.astype(np.int64) * n + part.col for part in (before, after))
        keys = np.union1d(old, new)
        used = np.zeros(len(keys))
        used[np.searchsorted(keys, new)] = after.data
        ends = np.stack([keys // n, keys % n], axis=1)
        return cls(ends, used)

    def drawn(self, nodes: int, most: int = MOST_EDGES) -> Edges:
        """Return all edges or, of too many, each node's strongest."""
        keep = strongest(self.ends, self.used, np.zeros(len(self.ends)), nodes, most)
        return Edges(self.ends[keep], self.used[keep])


def places_of(
    labels: tuple[Label, ...], graph: Graph | None, edges: Edges, before: FloatArray | None
) -> Places:
    """Return where the nodes are drawn: at the graph's positions, or near those they listen to.

    A new layout is turned to be as close as possible to the one ``before``.
    """
    positions, geographic = None, False
    if graph is not None and graph.positions is not None and all(k in graph for k in labels):
        positions = graph.positions[[graph.index(label) for label in labels]]
        geographic = graph.geographic
    inside = edges.used > 0
    found = places(positions, geographic, edges.ends[inside], edges.used[inside], len(labels))
    if before is None or found.kind != "layout":
        return found
    return Places(turned(found.points, before), found.kind)


def turned(points: FloatArray, before: FloatArray) -> FloatArray:
    """Return the points, rotated or mirrored to be as close as possible to those ``before``.

    >>> square = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    >>> np.allclose(turned(square[:, ::-1], square), square)
    True
    """
    left, _, right = np.linalg.svd(points.T @ before)
    return np.asarray(points @ (left @ right))


def network_part(
    labels: tuple[Label, ...], stand: Places, edges: Edges, total: int, kept: int
) -> dict[str, Any]:
    """Return nodes and edges for the page's script."""
    return {
        "nodes": {"name": [str(label) for label in labels], **place_columns(stand)},
        "edges": {
            "source": edges.ends[:, 0].tolist(),
            "target": edges.ends[:, 1].tolist(),
            "used": numbers(edges.used),
            "total": total,
            "kept": kept,
        },
    }
