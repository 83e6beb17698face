"""Edges from lists, tables, CSV files and networkx."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from fedrelax.errors import FedRelaxError
from fedrelax.graph.matrices import check_weights, from_pairs
from fedrelax.graph.tables import clean_label, clean_labels, unknown_node
from fedrelax.schema.kinds import as_frame, is_frame, where
from fedrelax.schema.reading import read_table
from fedrelax.typing import Index, Label

if TYPE_CHECKING:
    import networkx as nx

Read = tuple[sparse.csr_array, tuple[Label, ...]]
"""A symmetric adjacency matrix and the labels of its rows."""


def read_edges(edges: object, labels: Iterable[object] | None) -> Read:
    """Return the adjacency of (u, v) and (u, v, weight) rows; the default weight is 1."""
    if is_frame(edges):
        frame = as_frame(edges)
        columns = edge_columns([str(name) for name in frame.columns], "the DataFrame")
        ones = [1.0] * len(frame)
        values = [ones if k is None else frame.iloc[:, k].tolist() for k in columns]
        return join(list(zip(*values, strict=True)), labels, frame.index)
    pairs: Any = edges.tolist() if isinstance(edges, np.ndarray) else edges
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise FedRelaxError(f"edges is {pairs!r}; give a list of (u, v) or (u, v, weight)")
    rows = []
    for number, row in enumerate(pairs):
        ends = () if isinstance(row, str) or not isinstance(row, Iterable) else tuple(row)
        if len(ends) not in (2, 3):
            raise FedRelaxError(
                f"edge number {number} is {row!r}; give (u, v) or (u, v, weight) for every edge"
            )
        rows.append((*ends, 1.0)[:3])
    return join(rows, labels)


def edge_columns(names: Sequence[str], what: str) -> tuple[int, int, int | None]:
    """Return the positions of the source, target and weight columns (weight ``None``: all are 1).

    Columns named source, target and weight, in upper or lower case, come first; then the order decides.

    >>> edge_columns(["weight", "Source", "Target"], "the table")
    (1, 2, 0)
    >>> edge_columns(["from", "to"], "the table")
    (0, 1, None)
    """
    lower = [name.strip().lower() for name in names]
    rest = [column for column, name in enumerate(lower) if name != "weight"]
    if len(rest) < 2:
        raise FedRelaxError(
            f"{what} has the columns {list(names)}; give source,target or source,target,weight"
        )
    if {"source", "target"} <= set(lower):
        source, target = lower.index("source"), lower.index("target")
    else:
        source, target = rest[:2]
    rest = [column for column in rest if column not in (source, target)]
    if "weight" in lower:
        return source, target, lower.index("weight")
    return source, target, rest[0] if rest else None


def join(
    edges: Sequence[tuple[Any, ...]], labels: Iterable[object] | None, rows: Index | None = None
) -> Read:
    """Check edges (u, v, weight) and return their matrix and labels; ``rows`` names them in messages."""
    index = {} if labels is None else {name: k for k, name in enumerate(clean_labels(labels))}
    ends, first = np.empty((len(edges), 2), dtype=np.int64), set[frozenset[int]]()
    weights = np.empty(len(edges))
    for edge, (*pair, weight) in enumerate(edges):
        try:
            for side, end in enumerate(map(clean_label, pair)):
                if labels is None:
                    index.setdefault(end, len(index))
                elif end not in index:
                    raise unknown_node(end, list(index))
                ends[edge, side] = index[end]
            both = frozenset(ends[edge].tolist())
            if both in first:
                raise FedRelaxError(f"edge {tuple(pair)} is given twice; keep one of them")
            first.add(both)
            weights[edge] = _number(tuple(pair), weight)
        except FedRelaxError as error:
            place = "" if rows is None else f"{where(rows, edge)}: "
            raise FedRelaxError(f"{place}{error}") from None
    names = tuple(index)
    if not names:
        raise FedRelaxError("there are no edges and no labels; give at least one of them")
    i, j = ends.T
    check_weights(i, j, weights, names)
    return from_pairs(len(names), i, j, weights), names


def _number(pair: tuple[Any, ...], weight: Any) -> float:
    try:
        return float(weight)
    except (TypeError, ValueError):
        raise FedRelaxError(f"edge {pair} has the weight {weight!r}; give a number") from None


def read_csv(path: str | PathLike[str], labels: Iterable[object] | None) -> Read:
    """Return the adjacency of a table file with a header line and one edge per line.

    Labels are text; if all of them are plain whole numbers, they become integers. If ``labels`` is
    given, the file's labels are matched to it as text.
    """
    import pandas as pd

    frame = read_table(Path(path), as_text=True)
    header = [str(name) for name in frame.columns]
    if pd.to_numeric(pd.Series(header), errors="coerce").notna().any():
        raise FedRelaxError(
            f"{path}: {','.join(header)} looks like an edge; start the file with a header such as "
            "source,target,weight"
        )
    source, target, weight = edge_columns(header, str(path))
    ends = [frame.iloc[:, k].str.strip() for k in (source, target)]
    texts = set(pd.concat(ends).dropna())
    by_text: dict[object, Label] = {}
    if labels is not None:
        labels = clean_labels(labels)
        by_text = {str(label): label for label in labels}
    elif all(re.fullmatch("0|-?[1-9][0-9]*", text) for text in texts):
        by_text = {text: int(text) for text in texts}
    columns = [[by_text.get(text, text) for text in column] for column in ends]
    values = [1.0] * len(frame) if weight is None else frame.iloc[:, weight].tolist()
    try:
        return join(list(zip(*columns, values, strict=True)), labels, frame.index)
    except FedRelaxError as error:
        raise FedRelaxError(f"{path}, {error}") from None


def read_networkx(g: nx.Graph, weight: str) -> Read:
    """Return the adjacency and labels of an undirected networkx graph."""
    import networkx as nx

    if not isinstance(g, nx.Graph):
        raise FedRelaxError(f"expected a networkx graph, found {type(g).__name__}")
    if g.is_directed():
        raise FedRelaxError(
            "the networkx graph is directed, but learning over an edge goes both ways; "
            "make it undirected first, for instance with g.to_undirected()"
        )
    return read_edges(g.edges(data=weight, default=1.0), list(g.nodes))
