"""Guarded: rewiring when some of the neighbours may lie."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.linear.arrays import nonzero
from fedrelax.typing import FloatArray, SparseMatrix
from fedrelax.wiring.base import Ranked, View, marked
from fedrelax.wiring.rewire import Rewire

UNLIKELY = 4.0
"""A neighbour further away than this many times the median neighbour is ignored."""


@dataclass(frozen=True)
class Guarded(Rewire):
    """``rewire``, hardened against liars. Meant for ``combine=Nearest(times=4)``.

    - The first stage comes before the first round. A neighbour that has sent nothing usable, or is more
      than four times as far away as the median neighbour, is ignored: shares are taken of the others.
    - In every stage with a share, neighbours are ranked by two things: how far their answers are from the
      node's, and how badly they fit the node's own rows, of which a liar knows nothing. Both are taken
      relative to the node's median neighbour, so that neither outweighs the other.
    - An edge is kept if one end keeps it and the other consents, by having it among the nearest
      ``consent`` times the share. A liar that marks its victims is not heard by those who find it far off.

    The shares end at 20 %, not at 10 %: a node that loses a fifth of its neighbours needs the others.
    """

    name = "guarded"

    shares: tuple[float, ...] = (0.4, 0.35, 0.3, 0.25, 0.2)
    consent: float = 1.2

    def check(self) -> None:
        """Refuse a consent below 1, with which fewer edges are accepted than kept."""
        super().check()
        if not self.consent >= 1:
            raise FedRelaxError(f"guarded: consent={self.consent!r} must be at least 1")

    def due(self, round: int) -> int | None:
        """Return the stage that begins after this round, or None; the first one comes after round 0."""
        assert self.every is not None
        return super().due(round + self.every)

    def settled(self, round: int) -> bool:
        """Tell whether this round is on the final graph."""
        assert self.every is not None
        return super().settled(round + self.every)

    def keep(self, stage: int, edges: SparseMatrix, view: View) -> SparseMatrix:
        """Return the edges that one end keeps and to which the other consents."""
        likely = _relative(edges, view.discrepancies(edges)) <= UNLIKELY
        edges = marked(edges, likely.astype(float), mutual=True)
        if stage >= len(self.shares):
            return super().keep(stage, edges, view)
        far = _relative(edges, view.discrepancies(edges)) + _relative(edges, view.own_losses(edges))
        ranked = Ranked(edges, far)
        wanted, consented = (
            ranked.first(np.ceil(share * ranked.degree - 1e-9).astype(np.int64))
            for share in (self.shares[stage], min(1.0, self.consent * self.shares[stage]))
        )
        both = marked(edges, wanted).minimum(marked(edges, consented, mutual=True))
        both.sort_indices()
        return both


def _relative(edges: SparseMatrix, values: FloatArray) -> FloatArray:
    """Return the values of every row divided by the row's median."""
    parts = np.split(values, edges.indptr[1:-1])
    medians = np.array([np.median(part) if len(part) else 1.0 for part in parts])
    return np.asarray(values / np.repeat(nonzero(medians), np.diff(edges.indptr)))
