"""Edges from lists, tables, CSV files and networkx."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from fedrelax.errors import FedRelaxError, did_you_mean
from fedrelax.files import TABLE, read_text, why_unread
from fedrelax.graph.matrices import Where, check_weights, from_pairs, nowhere
from fedrelax.graph.tables import clean_label, clean_labels, is_number, unknown_node
from fedrelax.schema.kinds import as_frame, is_frame
from fedrelax.typing import FloatArray, Label

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
        rows = list(zip(*values, strict=True))
        return join(rows, labels, lambda edge: f"row {frame.index[edge]}: ")
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
    edges: Sequence[tuple[Any, ...]], labels: Iterable[object] | None, where: Where = nowhere
) -> Read:
    """Check edges (u, v, weight) and return their matrix and labels."""
    index = {} if labels is None else {name: k for k, name in enumerate(clean_labels(labels))}
    ends = np.empty((len(edges), 2), dtype=np.int64)
    for edge, (*pair, weight) in enumerate(edges):
        try:
            for side, end in enumerate(map(clean_label, pair)):
                if labels is None:
                    index.setdefault(end, len(index))
                elif end not in index:
                    raise unknown_node(end, list(index))
                ends[edge, side] = index[end]
            if not is_number(weight):
                raise FedRelaxError(f"edge {tuple(pair)} has the weight {weight!r}; give a number")
        except FedRelaxError as error:
            raise FedRelaxError(f"{where(edge)}{error}") from None
    names = tuple(index)
    if not names:
        raise FedRelaxError("there are no edges and no labels; give at least one of them")
    weights = np.array([weight for *_, weight in edges], dtype=np.float64)
    i, j = ends.T
    check_weights(i, j, weights, names, where)
    _check_repeats([(names[a], names[b]) for a, b in ends.tolist()], weights, where)
    return from_pairs(len(names), i, j, weights), names


def _check_repeats(pairs: Sequence[tuple[Label, Label]], weights: FloatArray, where: Where) -> None:
    first: dict[frozenset[Label], int] = {}
    for two, pair in enumerate(pairs):
        one = first.setdefault(frozenset(pair), two)
        if one == two:
            continue
        turned = "" if pairs[one] == pair else f", the second time as {pair}"
        location = where(one).removesuffix(": ")
        before = f" (first in {location})" if location else ""
        values = f"weights {weights[one]} and {weights[two]}"
        if weights[one] == weights[two]:
            values = f"the same weight {weights[one]}"
        raise FedRelaxError(
            f"{where(two)}edge {pairs[one]} is given twice{before}{turned}, with {values}; "
            "keep one of them"
        )


def read_csv(path: str | PathLike[str], labels: Iterable[object] | None) -> Read:
    """Return the adjacency of a CSV file with a header line and one edge per line.

    Labels are text; if all of them are plain whole numbers, they become integers. If ``labels`` is
    given, the file's labels are matched to it as text.
    """
    try:
        reader = csv.reader(io.StringIO(read_text(path, TABLE, "utf-8-sig"), newline=""))
        lines = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except FileNotFoundError:
        raise FedRelaxError(f"there is no file {path}; check the path") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FedRelaxError(f"{path} cannot be read as a CSV file: {why_unread(error)}") from error
    lines = [(number, row) for number, row in lines if any(row)]
    if not lines:
        raise FedRelaxError(f"{path} is empty; give a header source,target,weight and the edges")
    number, header = lines.pop(0)
    if all(map(_is_float, header)) or (len(header) == 3 and _is_float(header[2])):
        raise FedRelaxError(
            f"{path}, line {number}: {','.join(header)} looks like an edge; "
            "start the file with a header such as source,target,weight"
        )
    source, target, weight = edge_columns(header, f"{path}, line 1")

    def where(edge: int) -> str:
        return f"{path}, line {lines[edge][0]}: "

    edges: list[tuple[Label, Label, float]] = []
    for edge, (_, row) in enumerate(lines):
        if len(row) <= max(source, target, weight or 0) or not row[source] or not row[target]:
            raise FedRelaxError(f"{where(edge)}found {row}; give {','.join(header)}")
        value = "1" if weight is None else row[weight]
        if not _is_float(value):
            raise FedRelaxError(f"{where(edge)}the weight {value!r} is not a number")
        edges.append((row[source], row[target], float(value)))
    texts = {str(end) for *ends, _ in edges for end in ends}
    by_text: dict[object, Label] = {}
    if labels is not None:
        labels = clean_labels(labels)
        by_text = {str(label): label for label in labels}
        by_text |= {label: label for label in labels if isinstance(label, str)}
    elif all(re.fullmatch("0|-?[1-9][0-9]*", text) for text in texts):
        by_text = {text: int(text) for text in texts}
    matched = [(by_text.get(u, u), by_text.get(v, v), weight) for u, v, weight in edges]
    return join(matched, labels, where)


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


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
    attributes = {name for _, _, data in g.edges(data=True) for name in data}
    if weight != "weight" and g.number_of_edges() and weight not in attributes:
        hint = did_you_mean(weight, attributes)
        raise FedRelaxError(f"no edge of the networkx graph has the attribute {weight!r}{hint}")
    return read_edges(g.edges(data=weight, default=1.0), list(g.nodes))
