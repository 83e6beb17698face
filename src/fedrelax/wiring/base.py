"""Wiring: which neighbours a node keeps listening to, decided again between rounds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, Self

import numpy as np
from scipy import sparse

from fedrelax.errors import FedRelaxError
from fedrelax.typing import FloatArray, IntArray, SparseMatrix

REST = 0.4
"""Share of the rounds that is left for the final graph when ``every`` is not given."""
USUAL = 2
"""Rounds between two stages: with more, models settle on a wrong graph and agree with wrong neighbours."""


class View(Protocol):
    """What a wiring may see: the graph as given, and how far apart predictions are."""

    given: SparseMatrix
    """The graph that the user gave, a symmetric CSR matrix."""
    edges: SparseMatrix
    """The graph of the last rounds, the same kind of matrix."""

    def discrepancies(self, edges: SparseMatrix) -> FloatArray:
        """Return d(i, j) for every stored entry of a CSR matrix: node i's own view of neighbour j."""

    def own_losses(self, edges: SparseMatrix) -> FloatArray:
        """Return, per stored entry, node i's loss on its own rows if it took neighbour j's answers.

        Neighbours answer on public rows only: what they would predict on i's rows is i's own guess.
        """

    def embedding(self) -> FloatArray:
        """Return one row per node; rows are close if predictions on the common public set are close."""


@dataclass(frozen=True)
class Wiring(ABC):
    """A rule that changes the graph: ``wire`` is called ``stages`` times, every ``every`` rounds.

    Every node decides by its own discrepancies, from predictions that it has received anyway.
    ``every=None`` means two rounds, or one if the stages would otherwise not fit into 60 % of the rounds.
    """

    name: ClassVar[str]
    needs_common: ClassVar[bool] = False
    """Whether all nodes must have one common public set."""
    every: int | None = None

    @property
    @abstractmethod
    def stages(self) -> int:
        """How often the graph changes."""

    @abstractmethod
    def wire(self, stage: int, view: View) -> SparseMatrix:
        """Return the graph for the next rounds: symmetric CSR with the weights of the edges kept."""

    def paced(self, rounds: int) -> Self:
        """Return this wiring with ``every`` set for a run of this many rounds."""
        if self.every is not None:
            return self
        room = int((1 - REST) * rounds / max(self.stages, 1))
        return replace(self, every=min(max(1, room), USUAL))

    def due(self, round: int) -> int | None:
        """Return the number of the stage that begins after this round, or None."""
        every = self.every or USUAL
        stage = round // every - 1
        return stage if round % every == 0 and 0 <= stage < self.stages else None

    def settled(self, round: int) -> bool:
        """Tell whether this round is on the final graph."""
        return round > self.stages * (self.every or USUAL)

    def check(self) -> None:
        """Refuse settings that make no sense."""
        if self.every is not None and not (isinstance(self.every, int) and self.every >= 1):
            raise FedRelaxError(f"{self.name}: every={self.every!r} must be a whole number above 0")


class Ranked:
    """The entries of a CSR matrix, sorted within each row from the smallest to the largest value."""

    def __init__(self, edges: SparseMatrix, values: FloatArray) -> None:
        self.n = edges.shape[0]
        self.starts: IntArray = np.asarray(edges.indptr, dtype=np.int64)
        self.degree: IntArray = np.diff(self.starts)
        self.row: IntArray = edges.tocoo(copy=False).row
        self.order: IntArray = np.lexsort((values, self.row))
        self.sorted: FloatArray = values[self.order]
        self.rank: IntArray = np.arange(len(values)) - np.repeat(self.starts[:-1], self.degree)

    def first(self, counts: IntArray) -> FloatArray:
        """Mark the ``counts[i]`` smallest entries of every row i, in the matrix's own order."""
        mark = np.zeros(len(self.order))
        mark[self.order] = self.rank < counts[self.row]
        return mark


def marked(edges: SparseMatrix, mark: FloatArray, mutual: bool = False) -> SparseMatrix:
    """Return the edges that at least one end has marked, or if ``mutual`` both ends, with their weights."""
    one = sparse.csr_array((mark, edges.indices, edges.indptr), shape=edges.shape)
    other = one.T.tocsr()
    both = one.minimum(other) if mutual else one.maximum(other)
    chosen = sparse.csr_array(edges.multiply(both))
    chosen.eliminate_zeros()
    chosen.sort_indices()
    return chosen
