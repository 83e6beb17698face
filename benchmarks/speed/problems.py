"""Problems of any size, the memory of this process, and growth rates."""

from __future__ import annotations

import os
import resource
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedrelax.graph import Graph
from fedrelax.typing import AnyArray

UNION_FACTOR = 1.16
"""The union of k nearest neighbours in the plane has a mean degree of about this times k."""


@dataclass(frozen=True)
class BenchProblem:
    """Rows (n, m, d), targets (n, m), public rows (common or per node) and graph."""

    X: AnyArray
    y: AnyArray
    public: AnyArray
    graph: Graph

    @property
    def degree(self) -> float:
        """The mean number of neighbours."""
        return float(self.graph.adjacency.nnz / len(self.graph))


def nearest_graph(n: int, degree: float, seed: int = 0) -> Graph:
    """Return random points in the plane, joined to their nearest neighbours."""
    points = np.random.default_rng(seed).random((n, 2))
    k = max(1, round(degree / UNION_FACTOR))
    return Graph.from_coordinates(points, k=k, metric="euclidean")


def make_problem(
    graph: Graph, rows: int, features: int, public: str, public_rows: int, seed: int = 0
) -> BenchProblem:
    """Return linear data with one true weight vector and a little noise at every node."""
    n = len(graph)
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, rows, features))
    y = X @ rng.standard_normal(features)
    y += 0.5 * rng.standard_normal((n, rows))
    shape = (public_rows, features) if public == "common" else (n, public_rows, features)
    return BenchProblem(X, y, rng.standard_normal(shape), graph)


def resident_bytes() -> int:
    """Return the memory that this process holds now."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return peak_bytes()


def peak_bytes() -> int:
    """Return the most memory that this process ever held."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak) if os.uname().sysname == "Darwin" else int(peak) * 1024


def exponent(lines: Sequence[dict[str, Any]], name: str) -> float:
    """Return b of value ~ nodes^b by least squares on logarithms.

    >>> round(exponent([{"nodes": n, "s": 3 * n**2} for n in (10, 20, 50)], "s"), 6)
    2.0
    """
    logs = np.log([[line["nodes"], line[name]] for line in lines])
    return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])
