"""Guarded: rewiring among neighbours of whom some may lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.typing import FloatArray
from fedrelax.wiring.base import Ranked, View, marked
from fedrelax.wiring.rewire import Rewire

UNLIKELY = 4.0
"""Who is further away than so many times the median neighbour is no neighbour at all."""


@dataclass(frozen=True)
class Guarded(Rewire):
    """``rewire``, made so that liars find it hard to be heard. Meant for ``combine=Nearest(times=4)``.

    - The first look comes before the first round. Who has sent nothing usable, or is four times as far as
      the median neighbour, counts for nothing: not even as one of those of whom a share is kept.
    - Neighbours are ranked by two things in every stage with a share: how far they are from the node's
      answers, and how badly theirs fit the node's own rows, of which a liar knows nothing. Both are
      taken relative to the node's median neighbour, so neither outweighs the other.
    - An edge lives if one end keeps it and the other consents: it has it among the nearest ``consent``
      times the share. A liar that marks its victims is not heard by those who find it far off.

    The shares end at 20 %, not at 10 %: who loses a fifth of its neighbours needs the others.
    """

    name = "guarded"

    shares: tuple[float, ...] = (0.4, 0.35, 0.3, 0.25, 0.2)
    consent: float = 1.2

    def check(self) -> None:
        """Refuse a consent that would take less than what is kept."""
        super().check()
        if not self.consent >= 1:
            raise FedRelaxError(f"guarded: consent={self.consent!r} must be at least 1")

    def due(self, round: int) -> int | None:
        """Return the stage after this round; the first one comes before anything is learned."""
        assert self.every is not None
        return super().due(round + self.every)

    def settled(self, round: int) -> bool:
        """Tell whether the graph changes no more after this round."""
        assert self.every is not None
        return super().settled(round + self.every)

    def keep(self, stage: int, edges: Any, view: View) -> Any:
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


def _relative(edges: Any, values: FloatArray) -> FloatArray:
    """Return the values of every row divided by the row's median."""
    parts = np.split(values, edges.indptr[1:-1])
    medians = np.array([np.median(part) if len(part) else 1.0 for part in parts])
    sizes = np.where(medians > 0, medians, 1.0)
    return np.asarray(values / np.repeat(sizes, np.diff(edges.indptr)))
