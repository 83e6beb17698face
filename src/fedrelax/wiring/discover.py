"""Discover: no graph is given; likely neighbours are found from predictions, and then rewired."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from fedrelax.typing import FloatArray, IntArray, SparseMatrix
from fedrelax.wiring.base import View, Wiring
from fedrelax.wiring.rewire import Rewire

SMALL = 2000
"""Up to this many nodes, every node is a candidate for every other."""
DIRECTIONS = 12
"""Number of random projections of the predictions in which candidates are searched for."""


@dataclass(frozen=True)
class Discover(Wiring):
    """Find candidates, then ``rewire`` among them; the search is repeated as models improve.

    With at most 2,000 nodes everybody is a candidate. With more, a node's candidates are the
    ``candidates`` nearest nodes by predictions on the common public rows (a search tree over
    random projections: n log n, never all pairs) and a tenth as many random strangers, so that a bad
    start can be corrected. All edges have weight 1. Friends of friends are taken in more cautiously
    than on a given graph, since here anybody may be one.
    """

    name, needs_common = "discover", True  # any two nodes may become neighbours

    rewire: Rewire = field(default_factory=lambda: Rewire(friends=0.5))
    candidates: int = 60
    seed: int = 0

    @property
    def stages(self) -> int:
        """The stages of the rewiring."""
        return self.rewire.stages

    def check(self) -> None:
        """Check the rewiring's settings too."""
        super().check()
        self.rewire.check()

    def wire(self, stage: int, view: View) -> SparseMatrix:
        """Return the edges kept among the current candidates."""
        edges = view.given
        if edges.shape[0] > SMALL:
            edges = self.nearest(view.embedding(), stage)
        return self.rewire.keep(stage, edges, view)

    def nearest(self, points: FloatArray, stage: int = 0) -> SparseMatrix:
        """Return a symmetric CSR matrix that joins every point to its nearest and to some random others."""
        from scipy.spatial import cKDTree

        rng = np.random.default_rng([self.seed, stage])
        n = len(points)
        k = min(self.candidates, n - 1)
        low = points
        if points.shape[1] > DIRECTIONS:
            low = points @ rng.standard_normal((points.shape[1], DIRECTIONS))
        near: IntArray = cKDTree(low).query(low, k=k + 1)[1]
        strangers = rng.integers(n, size=(n, max(1, k // 10)))
        others = np.hstack([near, strangers])
        rows, columns = np.repeat(np.arange(n), others.shape[1]), others.ravel()
        other = rows != columns
        ends = rows[other], columns[other]
        matrix = sparse.csr_array((np.ones(len(ends[0])), ends), shape=(n, n))
        both = sparse.csr_array(matrix + matrix.T)
        both.data[:] = 1.0
        both.sort_indices()
        return both
