"""Problems of any size for the linear engine, and the memory of this process."""

from __future__ import annotations

import os
import resource
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
    """Rows, targets, public rows and graph of a network of linear models."""

    X: AnyArray
    y: AnyArray
    public: AnyArray
    adjacency: Any

    @property
    def degree(self) -> float:
        """The mean number of neighbours."""
        return float(self.adjacency.nnz / self.adjacency.shape[0])


def nearest_graph(n: int, degree: float, seed: int = 0) -> Any:
    """Return the adjacency of random points in the plane, joined to their nearest neighbours."""
    points = np.random.default_rng(seed).random((n, 2))
    k = max(1, round(degree / UNION_FACTOR))
    return Graph.from_coordinates(points, k=k, metric="euclidean").adjacency


def block_graph(n: int, clusters: int = 3, seed: int = 0) -> Any:
    """Return the paper's graph: equal clusters, p_in 0.8, p_out 0.2."""
    sizes = [n // clusters] * clusters
    sizes[0] += n - sum(sizes)
    graph, _ = Graph.stochastic_block(sizes, 0.8, 0.2, random_state=seed)
    return graph.adjacency


def make_problem(
    adjacency: Any,
    rows: int,
    features: int,
    public: str,
    public_rows: int,
    dtype: Any,
    seed: int = 0,
) -> BenchProblem:
    """Return linear data with one true weight vector and a little noise at every node."""
    n = adjacency.shape[0]
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, rows, features), dtype=dtype)
    truth = rng.standard_normal(features, dtype=dtype)
    y = X @ truth
    y += 0.5 * rng.standard_normal((n, rows), dtype=dtype)
    shape = (public_rows, features) if public == "common" else (n, public_rows, features)
    return BenchProblem(X, y, rng.standard_normal(shape, dtype=dtype), adjacency)


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
