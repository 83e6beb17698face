"""Place neighbours near each other in memory, where the graph allows it."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from fedrelax.typing import IntArray

CACHE_BYTES = 4 << 20
"""Below this size the neighbours' values stay in cache in any order."""
LEVELS = 8


def spread(adjacency: Any) -> float:
    """Return the mean distance in places between two neighbours."""
    if adjacency.nnz == 0:
        return 0.0
    place = np.repeat(np.arange(adjacency.shape[0]), np.diff(adjacency.indptr))
    return float(np.abs(place - adjacency.indices).mean())


def is_local(adjacency: Any) -> bool:
    """Say whether the graph is like a map: few steps from a node reach few nodes.

    Breadth-first search from three nodes, eight steps each. The level widths bound the bandwidth
    that reverse Cuthill-McKee can reach; in a random graph one level soon holds most nodes.
    """
    n = adjacency.shape[0]
    for start in (0, n // 3, (2 * n) // 3):
        seen = np.zeros(n, dtype=bool)
        seen[start] = True
        front = np.array([start])
        for _ in range(LEVELS):
            reached = np.unique(adjacency[front].indices)
            front = reached[~seen[reached]]
            seen[front] = True
            if len(front) > n // 8:
                return False
            if not len(front):
                break
    return True


def cache_order(adjacency: Any, row_bytes: int, reorder: bool | None) -> IntArray | None:
    """Return the order in which to store nodes (place -> node), or None to keep the given one.

    Reverse Cuthill-McKee when asked (True), never (False), or (None) when the values of all nodes
    exceed the cache, neighbours lie far apart in it, the graph is local, and the order found at
    least halves the mean distance between neighbours.
    """
    n = adjacency.shape[0]
    if reorder is False or n < 3:
        return None
    before = spread(adjacency)
    if reorder is None and (
        n * row_bytes < CACHE_BYTES
        or before * row_bytes < CACHE_BYTES / 8
        or not is_local(adjacency)
    ):
        return None
    graph = sparse.csr_matrix(adjacency)
    order = np.asarray(reverse_cuthill_mckee(graph, symmetric_mode=True), dtype=np.int64)
    if reorder is None:
        place = np.empty(n, dtype=np.int64)
        place[order] = np.arange(n)
        rows = np.repeat(place, np.diff(adjacency.indptr))
        if np.abs(rows - place[adjacency.indices]).mean() > before / 2:
            return None
    return order
