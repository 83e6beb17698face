"""Who listens to whom: as trained, and as changed since."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from scipy import sparse

from fedrelax.graph import Graph
from fedrelax.living.overlay import GONE, Overlay
from fedrelax.typing import FloatArray, IntArray, Label

Near = dict[Label, float]


class FirstNeighbours(Mapping[Label, Near]):
    """The neighbours of every node in a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def __getitem__(self, label: Label) -> Near:
        if label not in self.graph:
            raise KeyError(label)
        return self.graph.neighbours(label)

    def __iter__(self) -> Iterator[Label]:
        return iter(self.graph.labels)

    def __len__(self) -> int:
        return len(self.graph)


def join(links: Overlay[Near], label: Label, near: Mapping[Label, float]) -> None:
    """Connect a node to these neighbours instead of those it had."""
    part(links, label)
    links[label] = dict(near)
    for other, weight in near.items():
        links[other] = {**links[other], label: weight}


def part(links: Overlay[Near], label: Label) -> None:
    """Cut all edges of a node, if it has any."""
    for other in links.get(label, {}):
        links[other] = {j: a for j, a in links[other].items() if j != label}
    if label in links:
        links[label] = {}


def mean_of_neighbours(links: Overlay[Near], labels: list[Label], values: FloatArray) -> FloatArray:
    """Return the weighted mean of the neighbours' values (nodes, ...), the node's own if it has none.

    ``labels`` begin with those of the first graph, in its order; the values of nodes that left are NaN.
    """
    first = links.base
    assert isinstance(first, FirstNeighbours)
    matrix = first.graph.adjacency
    n, flat = matrix.shape[0], np.nan_to_num(values.reshape(len(values), -1))
    sums, degree = np.zeros_like(flat), np.zeros(len(flat))
    sums[:n], degree[:n] = matrix @ flat[:n], first.graph.degrees
    changed = {label: near for label, near in links.changed.items() if near is not GONE}
    if changed:
        place = {label: k for k, label in enumerate(labels)}
        for label, near in changed.items():
            at = place[label]
            others = [place[j] for j in near if j in place]
            weights = np.array([a for j, a in near.items() if j in place])
            sums[at], degree[at] = weights @ flat[others], weights.sum()
    apart = degree == 0
    sums[apart], degree[apart] = flat[apart], 1.0
    return np.asarray((sums / degree[:, None]).reshape(values.shape))


def assembled(
    first: Graph,
    changed: Mapping[Label, Near],
    labels: tuple[Label, ...],
    positions: Mapping[Label, FloatArray],
) -> Graph:
    """Return a graph on ``labels``: the edges of the first one that did not change, and those that did.

    ``changed`` holds all neighbours of the nodes in it.
    """
    place = {label: k for k, label in enumerate(labels)}
    to: IntArray = np.array([place.get(label, -1) for label in first.labels], dtype=np.int64)
    fresh = np.array([label in changed for label in first.labels], dtype=bool)
    old = first.adjacency.tocoo()
    still = (to[old.row] >= 0) & (to[old.col] >= 0) & ~fresh[old.row] & ~fresh[old.col]
    pairs = {}
    for label, near in changed.items():
        for other, weight in near.items():
            if label in place and other in place:
                pairs[place[label], place[other]] = pairs[place[other], place[label]] = weight
    rows = np.array([i for i, _ in pairs], dtype=np.int64)
    columns = np.array([j for _, j in pairs], dtype=np.int64)
    matrix = sparse.csr_array(
        (
            np.concatenate([old.data[still], np.array(list(pairs.values()), dtype=float)]),
            (
                np.concatenate([to[old.row[still]], rows]),
                np.concatenate([to[old.col[still]], columns]),
            ),
        ),
        shape=(len(labels), len(labels)),
    )
    return Graph(matrix, labels, _places(first, positions, labels), first.geographic)


def _places(
    first: Graph, positions: Mapping[Label, FloatArray], labels: tuple[Label, ...]
) -> FloatArray | None:
    """Return the nodes' positions; NaN for newcomers without a known one."""
    if first.positions is None:
        return None
    unknown = np.full(first.positions.shape[1], np.nan)
    known = dict(zip(first.labels, first.positions, strict=True)) | dict(positions)
    return np.array([known.get(label, unknown) for label in labels])
