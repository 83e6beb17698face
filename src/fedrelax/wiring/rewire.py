"""Rewire: every node keeps the neighbours whose predictions agree with its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.typing import FloatArray, IntArray
from fedrelax.wiring.base import Ranked, View, Wiring, by_either_end

FLOOR = 1e-3
"""Discrepancies below this share of the mean are as good as none: ratios of them mean nothing."""


@dataclass(frozen=True)
class Rewire(Wiring):
    """Keep the share of the given neighbours with the smallest discrepancy; shrink it step by step.

    At stage s every node marks the ``shares[s]`` of its given neighbours with the smallest d(i, j); an
    edge lives if either end marks it. Early models are poor, so early shares are large; an edge that
    was dropped comes back when its ends agree again. After the last share follow ``gaps`` stages in
    which a node keeps more than that if its sorted discrepancies make a jump of at least ``jump``
    times: it then keeps all neighbours below the largest one. So nodes of large groups keep many
    neighbours and nodes of small groups few.
    """

    name = "rewire"

    shares: tuple[float, ...] = (0.6, 0.4, 0.25, 0.15, 0.1)
    gaps: int = 6
    jump: float = 2.0

    @property
    def stages(self) -> int:
        """One for every share and every look at the gaps."""
        return len(self.shares) + self.gaps

    def check(self) -> None:
        """Refuse shares that are not shares."""
        super().check()
        if not self.shares or not all(0 < share <= 1 for share in self.shares):
            raise FedRelaxError(
                f"rewire: shares={self.shares!r} must be numbers above 0 and at most 1"
            )
        if not self.jump > 1:
            raise FedRelaxError(f"rewire: jump={self.jump!r} must be above 1")

    def wire(self, stage: int, view: View) -> Any:
        """Return the edges that one of their ends keeps."""
        return self.keep(stage, view.given, view.discrepancies(view.given))

    def keep(self, stage: int, edges: Any, values: FloatArray) -> Any:
        """Return the kept part of ``edges`` with discrepancies ``values``."""
        ranked = Ranked(edges, values)
        share = self.shares[min(stage, len(self.shares) - 1)]
        counts = np.ceil(share * ranked.degree - 1e-9).astype(np.int64)
        if stage >= len(self.shares):
            counts = _up_to_the_gap(ranked, counts, self.jump)
        return by_either_end(edges, ranked.first(counts))


def _up_to_the_gap(ranked: Ranked, counts: IntArray, jump: float) -> IntArray:
    """Return larger counts for nodes with a clear jump in their sorted discrepancies."""
    values = np.maximum(ranked.sorted, FLOOR * ranked.sorted.mean()) if len(ranked.sorted) else None
    if values is None or len(values) < 2:
        return counts
    rise = np.full(len(values), -np.inf)
    inside = ranked.row[1:] == ranked.row[:-1]
    safe = np.maximum(values, np.finfo(float).tiny)
    rise[:-1][inside] = np.log(safe[1:] / safe[:-1])[inside]
    rise[ranked.rank < counts[ranked.row] - 1] = -np.inf
    has = np.flatnonzero(ranked.degree > 0)
    starts = np.concatenate([[0], np.cumsum(ranked.degree)])[has]
    best = np.maximum.reduceat(rise, starts)
    peak = np.zeros(ranked.n)
    peak[has] = best
    first = np.flatnonzero(rise == peak[ranked.row])
    place = np.full(ranked.n, -1)
    place[ranked.row[first[::-1]]] = ranked.rank[first[::-1]]
    clear = (peak > np.log(jump)) & (place >= 0)
    return np.where(clear, place + 1, counts)
