"""Edges from lists, tables, CSV files and networkx."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from itertools import chain
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from fedrelax.errors import FedRelaxError, did_you_mean
from fedrelax.files import TABLE, read_text, why_unread
from fedrelax.graph.matrices import Where, check_weights, from_pairs, nowhere
from fedrelax.graph.tables import (
    clean_all,
    clean_label,
    clean_labels,
    is_frame,
    is_number,
    unknown_node,
)
from fedrelax.typing import AnyArray, FloatArray, IntArray, Label

if TYPE_CHECKING:
    import networkx as nx

Read = tuple[sparse.csr_array, tuple[Label, ...]]
"""A symmetric adjacency matrix and the labels of its rows."""


def read_edges(edges: object, labels: Iterable[object] | None) -> Read:
    """Return the adjacency of (u, v) and (u, v, weight) rows; the default weight is 1."""
    if is_frame(edges):
        frame: Any = edges
        source, target, weight = edge_columns(
            [str(name) for name in frame.columns], "the DataFrame"
        )
        weights = [1.0] * len(frame) if weight is None else frame.iloc[:, weight].tolist()
        sources, targets = frame.iloc[:, source].tolist(), frame.iloc[:, target].tolist()
        return join(sources, targets, weights, labels, lambda e: f"row {frame.index[e]}: ")
    given: Any = edges.tolist() if isinstance(edges, np.ndarray) else edges
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise FedRelaxError(f"edges is {given!r}; give a list of (u, v) or (u, v, weight)")
    rows: list[tuple[Any, ...]] = []
    for number, row in enumerate(given):
        ends = () if isinstance(row, str) or not isinstance(row, Iterable) else tuple(row)
        if len(ends) not in (2, 3):
            raise FedRelaxError(
                f"edge number {number} is {row!r}; give (u, v) or (u, v, weight) for every edge"
            )
        rows.append(ends)
    weights = [row[2] if len(row) == 3 else 1.0 for row in rows]
    return join([row[0] for row in rows], [row[1] for row in rows], weights, labels)


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
    sources: Sequence[object],
    targets: Sequence[object],
    weights: Sequence[object],
    labels: Iterable[object] | None,
    where: Where = nowhere,
) -> Read:
    """Check edges given as three columns and return their matrix and labels."""
    sources, targets = _clean_ends(sources, where), _clean_ends(targets, where)
    if labels is None:
        names = tuple(dict.fromkeys(chain.from_iterable(zip(sources, targets, strict=True))))
        if not names:
            raise FedRelaxError("there are no edges and no labels; give at least one of them")
    else:
        names = clean_labels(labels)
    index = {name: number for number, name in enumerate(names)}
    i, j = _positions(sources, index, where), _positions(targets, index, where)
    values = _weights(weights, sources, targets, where)
    check_weights(i, j, values, names, where)
    _check_repeats(i, j, values, names, where)
    return from_pairs(len(names), i, j, values), names


def read_csv(path: str | PathLike[str], labels: Iterable[object] | None) -> Read:
    """Return the adjacency of a CSV file with a header line and one edge per line.

    Labels are text; if all of them are plain whole numbers, they become integers. If ``labels`` is
    given, the file's labels are matched to it as text.
    """
    header, rows, lines = _read_lines(path)
    source, target, weight = edge_columns(header, f"{path}, line 1")
    needed = max(source, target, weight or 0)

    def where(edge: int) -> str:
        return f"{path}, line {lines[edge]}: "

    weights: list[float] = []
    for edge, row in enumerate(rows):
        if len(row) <= needed or not row[source] or not row[target]:
            raise FedRelaxError(f"{where(edge)}found {row}; give {','.join(header)}")
        try:
            weights.append(1.0 if weight is None else float(row[weight]))
        except ValueError:
            raise FedRelaxError(
                f"{where(edge)}the weight {row[weight or 0]!r} is not a number"
            ) from None
    ends: list[list[Label]] = [[row[source] for row in rows], [row[target] for row in rows]]
    known: dict[str, Label]
    if labels is not None:
        labels = clean_labels(labels)
        known = {str(label): label for label in labels}
        known |= {label: label for label in labels if isinstance(label, str)}
        ends = [[known.get(str(name), name) for name in end] for end in ends]
    elif all(_is_plain_integer(str(name)) for name in chain(*ends)):
        ends = [[int(str(name)) for name in end] for end in ends]
    return join(ends[0], ends[1], weights, labels, where)


def _read_lines(path: str | PathLike[str]) -> tuple[list[str], list[list[str]], list[int]]:
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        text = read_text(path, TABLE, "utf-8-sig")
        reader = csv.reader(io.StringIO(text, newline=""))
        for row in reader:
            if any(map(str.strip, row)):
                rows.append([cell.strip() for cell in row])
                lines.append(reader.line_num)
    except FileNotFoundError:
        raise FedRelaxError(f"there is no file {path}; check the path") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FedRelaxError(f"{path} cannot be read as a CSV file: {why_unread(error)}") from error
    if not rows:
        raise FedRelaxError(f"{path} is empty; give a header source,target,weight and the edges")
    header = rows[0]
    if all(map(_is_float, header)) or (len(header) == 3 and _is_float(header[2])):
        raise FedRelaxError(
            f"{path}, line {lines[0]}: {','.join(header)} looks like an edge; "
            "start the file with a header such as source,target,weight"
        )
    return header, rows[1:], lines[1:]


def _clean_ends(ends: Sequence[object], where: Where) -> list[Label]:
    try:
        return clean_all(ends)
    except FedRelaxError:  # again, to name the edge
        return [clean_label(label, where(edge)) for edge, label in enumerate(ends)]


def _positions(ends: Sequence[Label], index: dict[Label, int], where: Where) -> IntArray:
    try:
        return np.fromiter((index[name] for name in ends), dtype=np.int64, count=len(ends))
    except KeyError:
        edge = next(edge for edge, name in enumerate(ends) if name not in index)
        raise unknown_node(ends[edge], list(index), where(edge)) from None


def _weights(
    weights: Sequence[object], sources: Sequence[Label], targets: Sequence[Label], where: Where
) -> FloatArray:
    plain = set(map(type, weights)) <= {int, float}
    for edge, weight in enumerate(weights if not plain else ()):
        if not is_number(weight):
            raise FedRelaxError(
                f"{where(edge)}edge ({sources[edge]!r}, {targets[edge]!r}) has the weight "
                f"{weight!r}; give a number"
            )
    return np.array(weights, dtype=np.float64)


def _check_repeats(
    i: AnyArray, j: AnyArray, weights: FloatArray, names: Sequence[Label], where: Where
) -> None:
    key = np.minimum(i, j) * len(names) + np.maximum(i, j)
    order = np.argsort(key, kind="stable")
    again = np.flatnonzero(key[order][1:] == key[order][:-1])
    if not len(again):
        return
    one, two = min((int(order[a]), int(order[a + 1])) for a in again)
    pairs = [f"({names[i[e]]!r}, {names[j[e]]!r})" for e in (one, two)]
    turned = "" if pairs[0] == pairs[1] else f", the second time as {pairs[1]}"
    place = where(one).removesuffix(": ")
    first = f" (first in {place})" if place else ""
    values = f"weights {weights[one]} and {weights[two]}"
    if weights[one] == weights[two]:
        values = f"the same weight {weights[one]}"
    raise FedRelaxError(
        f"{where(two)}edge {pairs[0]} is given twice{first}{turned}, with {values}; "
        "keep one of them"
    )


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_plain_integer(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isdecimal() and digits.isascii() and str(int(text)) == text


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
