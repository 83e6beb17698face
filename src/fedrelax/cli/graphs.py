"""The flag ``--graph``: from its text to a graph over the nodes of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedrelax.cli.settings import parts_of
from fedrelax.datasets import Table
from fedrelax.errors import FedRelaxError, did_you_mean, listing
from fedrelax.graph import Graph
from fedrelax.schema.kinds import find_column, kind_of, to_numbers, where
from fedrelax.storage.labels import by_text, find_label
from fedrelax.typing import DataFrame, Label

FORMS = "complete, knn:lat,lon:5 or edges:FILE"
KINDS = ("complete", "knn", "edges")


@dataclass(frozen=True)
class GraphSpec:
    """What ``--graph`` says. ``columns`` and ``k`` belong to knn, ``file`` to edges."""

    kind: str
    columns: tuple[str, ...] = ()
    k: int = 5
    file: Path | None = None

    def __str__(self) -> str:
        if self.kind == "knn":
            return f"knn:{','.join(self.columns)}:{self.k}"
        return self.kind if self.file is None else f"edges:{self.file.absolute()}"


def parse_graph(text: str) -> GraphSpec:
    """Read the text of ``--graph``.

    >>> parse_graph("knn:lat,lon:3")
    GraphSpec(kind='knn', columns=('lat', 'lon'), k=3, file=None)
    """
    kind, _, rest = text.strip().partition(":")
    if kind == "complete" and not rest:
        return GraphSpec(kind)
    if kind == "edges" and rest:
        return GraphSpec(kind, file=Path(rest))
    columns, colon, count = rest.rpartition(":")
    if not colon:
        columns, count = rest, ""
    k = int(count) if count.strip().isdecimal() else 0 if count else 5
    if kind == "knn" and parts_of(columns) and k:
        return GraphSpec(kind, parts_of(columns), k)
    hint = "" if kind in KINDS else did_you_mean(kind, KINDS)
    raise FedRelaxError(f"--graph {text!r} is none of {FORMS}{hint}")


def make_graph(
    spec: GraphSpec, frame: DataFrame, table: Table, note: Callable[[str], None]
) -> Graph | None:
    """Build the graph over the table's nodes.

    "complete" gives None: the estimator finds neighbours without listing all pairs.
    """
    if spec.file is not None:
        return _from_file(spec.file, list(dict.fromkeys(table.nodes.tolist())), note)
    return None if spec.kind == "complete" else _nearest(spec, frame, table)


def _nearest(spec: GraphSpec, frame: DataFrame, table: Table) -> Graph:
    """Join nodes near each other; in all its rows, a node has one place."""
    import pandas as pd

    number, labels = pd.factorize(table.nodes)
    start, coordinates = np.unique(number, return_index=True)[1], {}
    for column in (find_column(frame, name) for name in spec.columns):
        if kind_of(frame[column]) != "numbers":
            raise FedRelaxError(
                f"--graph: column {column!r} holds {kind_of(frame[column])}, but coordinates are "
                "numbers; name other columns"
            )
        values = to_numbers(frame[column])[table.row_index]
        places = coordinates[str(column)] = values[start]
        wrong = ~np.isfinite(values) | (values != places[number])
        if wrong.any():
            row = int(wrong.argmax())
            line = where(frame.index, int(table.row_index[row]))
            raise FedRelaxError(
                f"node {table.nodes[row]!r} has no single place: {column!r} is {values[row]:g} on {line}, "
                f"and {places[number[row]]:g} on its first; correct that row, leave it out, or use "
                "another --graph"
            )
    return Graph.from_coordinates(
        pd.DataFrame(coordinates, pd.Index(labels, dtype=object)), k=spec.k
    )


def _from_file(file: Path, labels: Sequence[Label], note: Callable[[str], None]) -> Graph:
    """Read the edges; nodes of the table that no edge names learn alone."""
    try:
        graph = Graph.from_csv(file)
    except FedRelaxError as error:
        raise FedRelaxError(f"--graph: {error}") from error
    by_name = by_text(labels)
    found = [find_label(label, by_name) for label in graph.labels]
    graph = Graph(
        graph.adjacency,
        [own if own is not None else label for own, label in zip(found, graph.labels, strict=True)],
    )
    strange = [label for label in graph.labels if label not in by_name.values()]
    alone = [label for label in labels if label not in graph]
    them = listing(strange, most=3)
    if len(alone) == len(labels):
        raise FedRelaxError(
            f"--graph: no node of the table is in {file}; the table has {listing(labels, most=3)} "
            f"and the file has {them}"
        )
    if strange:
        note(f"{file} names nodes without rows, predicted by the mean of their neighbours: {them}.")
    if alone:
        hint = did_you_mean(alone[0], strange).removeprefix("; ")
        note(f"{file} has no edge for {listing(alone, most=3)}: learning alone. {hint}".strip())
    return graph.with_labels([*graph.labels, *alone])
