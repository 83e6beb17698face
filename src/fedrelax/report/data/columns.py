"""Values by node: the columns of the tables on the page and in the terminal, and the colours of a graph.

A new column takes one line in ``NODES``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.evaluation import ALONE, TOGETHER, WAYS, gains
from fedrelax.report.data.report_data import ReportData
from fedrelax.report.data.rounding import numbers
from fedrelax.typing import DataFrame
from fedrelax.validation import check_choice

COLOURS = ("gain", "error", "validation", "loss", "disagreement", "cluster", "model")
QUANTITIES = {"validation": "validation_loss", "loss": "local_loss", "disagreement": "gtv"}
SPREAD = 50.0
"""Values over more than this factor are shown on a logarithmic scale."""
EVALUATE = "what fedrelax.evaluation.evaluate returns"


@dataclass(frozen=True, eq=False)
class NodeValues:
    """``kind`` is "gain" (around 0), "number" or "category"; nodes without a value have NaN or None."""

    label: str
    values: Any
    kind: str = "number"

    def span(self) -> tuple[float, float, bool]:
        """Return the usual range of the numbers, and whether it needs a logarithmic scale."""
        values = np.asarray(self.values, dtype=float)
        finite = values[np.isfinite(values)]
        if self.kind == "gain":
            most = float(np.clip(np.quantile(np.abs(finite), 0.95), 1, 100)) if len(finite) else 1.0
            return -most, most, False
        low, high = np.quantile(finite, [0.02, 0.98]).tolist()
        return low, high, spreads(np.array([low, high]))


def spreads(values: Any) -> bool:
    """Tell whether positive values span so wide a range that a logarithmic scale shows them better."""
    finite = np.asarray(values)[np.isfinite(values)]
    return bool(len(finite)) and float(finite.min()) > 0 and finite.max() / finite.min() > SPREAD


def lines_by_node(data: ReportData) -> tuple[DataFrame, str, float] | None:
    """Return a DataFrame with alone, together and gain by node, the label of its errors and a scale.

    The errors are those on test rows, or without an evaluation the validation losses; None if no
    rows were held out either.
    """
    import pandas as pd

    if data.evaluation is not None:
        return data.evaluation.tested, data.labels["error"], data.measure.scale
    first, last = data.alone("validation_loss"), data.kept("validation_loss")
    if not np.isfinite(first).any():
        return None
    columns = {"node": list(data.graph.labels), ALONE: first, TOGETHER: last}
    lines = pd.DataFrame({**columns, "gain": gains(first, last)})
    return lines[np.isfinite(last)], data.labels["validation"], 1.0


HELD = "fit with validation_share=0.2"
NEEDS = {
    "error": f"errors on test rows; pass evaluation=, {EVALUATE}",
    "gain": f"errors, but no rows were held out in the rounds; pass evaluation=, {EVALUATE}, or {HELD}",
    "cluster": "a graph that was rewired; fit with wiring='rewire' or 'auto'",
}


def node_values(data: ReportData, colour: str | None = None) -> NodeValues:
    """Return the values for a colour, or raise an error that says what they need.

    Without a colour: the gain where it is known, else the clusters of a rewired graph, else the loss.
    """
    values: Any = None
    found, labels = lines_by_node(data), data.graph.labels
    if colour is None:
        colour = "gain" if found is not None else "cluster" if data.rewired else "loss"
    check_choice("colour", colour, COLOURS)
    if colour in QUANTITIES:
        name, kind, values = data.labels[colour], "number", data.kept(QUANTITIES[colour])
        values = values if np.isfinite(values).any() else None
    elif colour == "model":
        name, kind, values = "kind of model", "category", [data.models.get(k) for k in labels]
    elif colour == "cluster":
        name, kind = "group found by the wiring", "category"
        values = [data.groups.get(k) for k in labels] if data.groups else None
    elif found is not None and (colour == "gain" or data.evaluation is not None):
        lines, label, scale = found
        of = "validation loss" if data.evaluation is None else "error"
        name, kind = f"gain against alone (% of the {of} alone)", "gain"
        if colour == "error":
            name, kind = f"together: {label}", "number"
        column, factor = ("gain", 1.0) if colour == "gain" else (TOGETHER, scale)
        by_label = dict(zip(lines["node"], factor * lines[column].to_numpy(float), strict=True))
        values = np.array([by_label.get(label, np.nan) for label in labels])
    if values is None:
        needs = NEEDS.get(colour, f"rows that were held out; {HELD}")
        raise FedRelaxError(f"colour={colour!r} needs {needs}")
    return NodeValues(name, values, kind)


@dataclass(frozen=True)
class Column:
    """``values`` returns one value per node of the graph (None: unknown), or None to leave the column out.

    ``kind`` says how they are written: "name", "text", "count", "error" or "gain".
    """

    key: str
    title: str
    kind: str
    values: Callable[[ReportData], Sequence[Any] | None]
    in_terminal: str | None = None
    """Its heading in the terminal; None shows the column on the page only."""

    def to_list(self, data: ReportData) -> list[Any] | None:
        """Return the values as the page's script reads them."""
        values = self.values(data)
        if values is None or self.kind in ("name", "text"):
            return None if values is None else list(values)
        return numbers([float("nan") if value is None else value for value in values])


def _gains(data: ReportData) -> list[Any] | None:
    """Return the gains; an error that grew from 0 has no percentage and counts as the largest loss."""
    found, alone, ours = (data.column(key) for key in ("gain", ALONE, TOGETHER))
    if found is None or alone is None or ours is None:
        return found
    return [
        -np.inf if first == 0 and last is not None and last > 0 else gain
        for gain, first, last in zip(found, alone, ours, strict=True)
    ]


NODES = (
    Column("name", "node", "name", lambda data: list(map(str, data.graph.labels)), "node"),
    Column("model", "model", "text", lambda data: [data.models.get(k) for k in data.graph.labels],
           "model"),
    Column("cluster", "group", "count",
           lambda data: [data.groups.get(k) for k in data.graph.labels] if data.groups else None),
    Column("rows", "rows", "count", lambda data: data.column("rows"), "rows"),
    Column("test", "test rows", "count", lambda data: data.column("test_rows"), "test"),
    *(Column(way, way, "error", partial(ReportData.column, name=way), way) for way in WAYS),
    Column("gain", "gain", "gain", _gains, "gain"),
    Column("missed", "rounds missed", "text", lambda data: data.column("missed")),
)  # fmt: skip
"""What each node has, and what it gained."""
