"""The flag ``--graph``: from its text to a graph over the nodes of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedrelax.cli.settings import parts_of
from fedrelax.datasets import Table
from fedrelax.errors import FedRelaxError, did_you_mean, listing
from fedrelax.graph import Graph
from fedrelax.schema.kinds import find_column, kind_of
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
    columns, count, wrong = "", rest or "5", ""
    if kind == "knn":
        columns, _, count = rest.rpartition(":") if ":" in rest else (rest, "", "5")
    if kind not in KINDS:
        wrong = f"is not known{did_you_mean(kind, KINDS)}"
    elif kind == "complete" and rest:
        wrong = "takes nothing after it"
    elif kind == "edges" and not rest:
        wrong = "names no file with source,target,weight"
    elif kind == "knn" and not parts_of(columns):
        wrong = "names no columns that hold the coordinates"
    elif kind == "knn" and (not count.strip().isdecimal() or int(count) < 1):
        wrong = f"{count!r} is not a number of neighbours"
    if wrong:
        raise FedRelaxError(f"--graph {text!r}: {wrong}; use {FORMS}")
    if kind in ("complete", "edges"):
        return GraphSpec(kind, file=Path(rest) if rest else None)
    return GraphSpec(kind, parts_of(columns), int(count))


def make_graph(
    spec: GraphSpec,
    frame: DataFrame,
    table: Table,
    note: Callable[[str], None],
) -> Graph | None:
    """Build the graph over the table's nodes.

    "complete" gives None: the estimator finds neighbours without listing all pairs.
    """
    labels = list(dict.fromkeys(table.nodes.tolist()))
    if spec.kind == "complete":
        return None
    if spec.kind == "edges":
        assert spec.file is not None
        return _from_file(spec.file, labels, note)
    return Graph.from_coordinates(_coordinates(spec, frame, table, labels), k=spec.k)


def _coordinates(
    spec: GraphSpec, frame: DataFrame, table: Table, labels: Sequence[Label]
) -> DataFrame:
    """Return a DataFrame with one place per node: the mean of its rows'."""
    columns = [find_column(frame, name) for name in spec.columns]
    for column in columns:
        if kind_of(frame[column]) != "numbers":
            raise FedRelaxError(
                f"--graph: column {column!r} holds {kind_of(frame[column])}, but coordinates are "
                "numbers; name other columns"
            )
    places = frame[columns].iloc[table.row_index]
    return places.groupby(table.nodes, sort=False).mean().loc[list(labels)]


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
