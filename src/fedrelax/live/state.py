"""What a live page shows: written by the run, read by the server, always the newest and always complete.

The run only stores what it has anyway. Texts are made when a page asks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import orthogonal_procrustes

from fedrelax.evaluation import gains
from fedrelax.graph import Graph
from fedrelax.report.data.columns import QUANTITIES
from fedrelax.report.data.layout import MOST_EDGES, EdgeTable, places
from fedrelax.report.data.rounding import numbers, thinned
from fedrelax.report.page.assembly import safe_json
from fedrelax.report.page.script_data import MOST_ROUNDS, place_columns
from fedrelax.report.palette import CURVES
from fedrelax.runtime import Record
from fedrelax.typing import FloatArray, Label, SparseMatrix


def edges_in(given: Any, now: Any, most: int = MOST_EDGES) -> EdgeTable:
    """Return the edges that were given or are in use, each once, from two symmetric CSR matrices."""
    n = now.shape[0]
    before, after = (sparse.triu(matrix, k=1).tocoo() for matrix in (given, now))
    old, new = (part.row.astype(np.int64) * n + part.col for part in (before, after))
    keys = np.union1d(old, new)
    used, weight = np.zeros(len(keys)), np.zeros(len(keys))
    used[np.searchsorted(keys, new)] = after.data
    weight[np.searchsorted(keys, old)] = before.data
    ends, unknown = np.stack([keys // n, keys % n], axis=1), np.full(len(keys), np.nan)
    return EdgeTable.strongest(ends, weight, used, unknown, unknown, nodes=n, most=most)


MOST_NODES = 20_000
"""With more nodes than this, a page shows the curves only."""


class LiveState:
    """The newest state of a run. ``versions`` counts the changes of the network and of the numbers.

    A version is counted up after the change and read before the values, so a reader misses nothing.
    """

    def __init__(self, graph: Graph | None = None) -> None:
        self._graph = graph
        self._labels: tuple[Label, ...] = () if graph is None else graph.labels
        self._given: Any = None if graph is None else graph.adjacency
        self._now: Any = self._given
        self._records: list[Record] = []
        self._points: FloatArray | None = None
        self.progress: dict[str, Any] = {}
        self.versions = (0, 0)
        self.stop_asked = self.over = False
        self.tell("starting")

    # The run writes

    def tell(
        self,
        words: str,
        done: int = 0,
        total: int = 0,
        *,
        stoppable: bool = False,
        over: bool = False,
    ) -> None:
        """Say where the run is, in words and as a share."""
        now = {"words": words, "done": done, "total": total, "stoppable": stoppable, "over": over}
        self.progress = now
        self._count(0, 1)
        self.over = over  # who sees this has seen the count

    def begin(self) -> None:
        """Forget an earlier run."""
        self._records, self._given, self.stop_asked = [], None, False
        self._count(0, 1)

    def wired(self, labels: tuple[Label, ...], edges: SparseMatrix) -> None:
        """Take the graph in use."""
        given = edges if self._given is None or labels != self._labels else self._given
        self._labels, self._given, self._now = labels, given, edges
        self._count(1, 0)

    def record(self, record: Record) -> None:
        """Take the numbers of a round."""
        self._records.append(record)
        self._count(0, 1)

    def ask_to_stop(self) -> bool:
        """Note that someone wants to stop after this round; return False if no round can be kept."""
        self.stop_asked = self.stop_asked or self.progress["stoppable"]
        self._count(0, 1)
        return self.stop_asked

    def _count(self, network: int, numbers: int) -> None:
        self.versions = (self.versions[0] + network, self.versions[1] + numbers)

    # The server reads

    def numbers_text(self) -> tuple[int, str]:
        """Return the version and the JSON of progress, curves and the nodes' values."""
        version, progress, records = self.versions[1], self.progress, self._records[:]
        shown = [records[k] for k in thinned(len(records), MOST_ROUNDS)]
        curves = {
            name: numbers([getattr(one, name) for one in shown]) for name in ("round", *CURVES)
        }
        found = {
            **progress,
            "stopping": self.stop_asked and not progress["over"],
            "round": records[-1].round if records else None,
            "curves": curves,
            "values": _values(records[0], records[-1]) if records else None,
        }
        return version, safe_json(found)

    def network_text(self) -> tuple[int, str]:
        """Return the version and the JSON of nodes and edges; the text is empty before there are any."""
        version, labels, given, now = self.versions[0], self._labels, self._given, self._now
        if not labels or len(labels) > MOST_NODES:
            return version, safe_json({"many": len(labels)}) if labels else ""
        edges, graph = edges_in(given, now), self._graph
        positions, geographic = None, False
        if graph is not None and graph.positions is not None and all(k in graph for k in labels):
            positions = graph.positions[[graph.index(label) for label in labels]]
            geographic = graph.geographic
        stand = places(positions, geographic, *edges.for_layout(), len(labels))
        before = self._points
        if stand.kind == "layout" and before is not None and len(before) == len(labels):
            # turned or mirrored to be as close as possible to the layout before
            turned = stand.points @ orthogonal_procrustes(stand.points, before)[0]
            stand = replace(stand, points=turned)
        self._points = stand.points
        nodes = {"name": [str(label) for label in labels], **place_columns(stand)}
        columns = ("source", "target", "used", "total", "kept")
        drawn = {name: edges.to_dict()[name] for name in columns}
        return version, safe_json({"nodes": nodes, "edges": drawn})


def _values(first: Record, last: Record) -> dict[str, Any] | None:
    """Return every node's current values, their reduction against alone in percent, and the usual range."""
    found: dict[str, Any] = {}
    for name, quantity in QUANTITIES.items():
        before, now = (np.asarray(getattr(record, f"node_{quantity}")) for record in (first, last))
        known = np.concatenate([before, now])
        known = known[np.isfinite(known)]
        if not len(known) or len(now) > MOST_NODES:
            continue
        found[name] = {
            "now": numbers(now),
            "fall": numbers(gains(before, now)),
            "range": numbers(np.quantile(known, [0.02, 0.98])),
        }
    return found or None
