"""The columns of the tables of nodes, on the page and in the terminal. A new one takes one line here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedrelax.evaluation import ALONE, TOGETHER, WAYS
from fedrelax.report.data.report_data import ReportData
from fedrelax.report.data.rounding import numbers
from fedrelax.report.data.sharing import BYTES


@dataclass(frozen=True)
class Column:
    """``values`` returns one value per node of the graph (None: unknown), or None to leave the column out.

    ``kind`` says how they are written: "name", "text", "count", "error", "gain" or "size" (bytes).
    """

    key: str
    title: str
    kind: str
    values: Callable[[ReportData], Sequence[Any] | None]
    in_terminal: str | None = None
    """Its heading in the terminal; None shows the column on the page only."""

    def to_list(self, data: ReportData) -> list[Any] | None:
        """Return the values as the page's script reads them."""
        found = self.values(data)
        if found is None or self.kind in ("name", "text"):
            return None if found is None else list(found)
        return numbers([float("nan") if value is None else value for value in found])


def _saved(key: str) -> Callable[[ReportData], list[Any] | None]:
    return lambda data: data.column(key)


def _gains(data: ReportData) -> list[Any] | None:
    """Return the gains; an error that grew from 0 has no percentage and counts as the largest loss."""
    found, alone, ours = (data.column(key) for key in ("gain", ALONE, TOGETHER))
    if found is None or alone is None or ours is None:
        return found
    grown = [one is not None and other is not None and one == 0 < other
             for one, other in zip(alone, ours, strict=True)]  # fmt: skip
    return [-np.inf if worse else gain for gain, worse in zip(found, grown, strict=True)]


def _groups(data: ReportData) -> list[Any] | None:
    return [data.groups.get(label) for label in data.graph.labels] if data.groups else None


def _sent(count: Callable[[Any, Any], Any]) -> Callable[[ReportData], list[Any] | None]:
    """Return a column of what left a node; nodes without a model sent nothing."""

    def values(data: ReportData) -> list[Any] | None:
        if data.sharing is None:
            return None
        shared, own = data.sharing, data.models
        return [count(shared, label) if label in own else None for label in data.graph.labels]

    return values


def _aucs(data: ReportData) -> list[str | None]:
    assert data.sharing is not None
    found = (data.sharing.leaked.get(label) for label in data.graph.labels)
    return [None if auc is None else f"{auc:.2f}" for auc in found]


def _names(data: ReportData) -> list[str]:
    return [str(label) for label in data.graph.labels]


NODES = (
    Column("name", "node", "name", _names, "node"),
    Column("model", "model", "text", lambda data: [data.models.get(k) for k in data.graph.labels],
           "model"),
    Column("cluster", "group", "count", _groups),
    Column("rows", "rows", "count", _saved("rows"), "rows"),
    Column("test", "test rows", "count", _saved("test_rows"), "test"),
    *(Column(way, way, "error", _saved(way), way) for way in WAYS),
    Column("gain", "gain", "gain", _gains, "gain"),
    Column("missed", "rounds missed", "text", _saved("missed")),
)  # fmt: skip
"""What each node has, and what it gained."""
SENT = (
    NODES[0],
    Column("private", "rows and labels sent", "count", _sent(lambda shared, label: 0)),
    Column("neighbours", "neighbours", "count",
           _sent(lambda shared, label: shared.neighbours[label])),
    Column("predictions", "predictions sent", "count",
           _sent(lambda shared, label: shared.numbers(label))),
    Column("sent", "size", "size", _sent(lambda shared, label: BYTES * shared.numbers(label))),
    Column("noise", "noise", "text", _sent(lambda shared, label: shared.noise)),
    Column("leaked", "attack's AUC", "text",
           lambda data: _aucs(data) if data.sharing and data.sharing.leaked else None),
)  # fmt: skip
"""What left each node."""
