"""Rewire: every node keeps the neighbours whose predictions agree with its own; guarded against liars."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.linear.arrays import nonzero
from fedrelax.typing import FloatArray, IntArray, SparseMatrix
from fedrelax.wiring.base import USUAL, Ranked, View, Wiring, marked

FLOOR = 1e-3
"""Discrepancies below this share of the mean are raised to it: ratios of smaller ones mean nothing."""
FAR = 1.5
"""A fit better by less than this factor may be chance: the best of many neighbours fits a few rows well."""
UNLIKELY = 4.0
"""A neighbour further away than this many times the median neighbour is ignored."""


@dataclass(frozen=True)
class Rewire(Wiring):
    """Keep the share of the given neighbours with the smallest discrepancy; shrink it step by step.

    shares : at stage s every node marks the ``shares[s]`` of its given neighbours with the smallest
        d(i, j); an edge is kept if either end marks it. Early models are poor, so early shares are
        large; an edge that was dropped comes back when its ends agree again.
    after : then come ``after[0]`` stages before and ``after[1]`` stages after a second look, in which a
        node keeps every neighbour at most ``times`` as far away as its nearest ones (the last share)
        on average. So nodes of large clusters keep many neighbours and nodes of small clusters few.

    The second look is for nodes that followed the wrong crowd and by now agree with it. It tests what no
    crowd can change: how well neighbours' answers, carried over from public rows to the node's own, fit
    the node's own labels. A node whose best-fitting neighbours fit ``FAR`` times better than those it
    agrees with switches to them.

    friends : the last stage takes back the given neighbours with whom a node has at least this share of
        kept neighbours in common (relative to the end that keeps fewer). Small groups that agree among
        themselves are one cluster if they overlap, and more teachers teach better. 1.0 skips this stage.
    """

    name = "rewire"

    shares: tuple[float, ...] = (0.6, 0.4, 0.25, 0.15, 0.1)
    after: tuple[int, int] = (1, 2)
    times: float = 2.0
    friends: float = 0.2

    @property
    def stages(self) -> int:
        """One for every share, those in ``after``, the second look, and friends of friends."""
        return len(self.shares) + sum(self.after) + 1 + (self.friends < 1)

    def check(self) -> None:
        """Refuse shares, times and friends that are out of range."""
        super().check()
        if not self.shares or not all(0 < share <= 1 for share in self.shares):
            raise FedRelaxError(
                f"rewire: shares={self.shares!r} must be numbers above 0 and at most 1"
            )
        if not self.times >= 1:
            raise FedRelaxError(f"rewire: times={self.times!r} must be at least 1")
        if not 0 < self.friends <= 1:
            raise FedRelaxError(f"rewire: friends={self.friends!r} must be above 0 and at most 1")

    def wire(self, stage: int, view: View) -> SparseMatrix:
        """Return the given edges that at least one end keeps."""
        return self.keep(stage, view.given, view)

    def keep(self, stage: int, edges: SparseMatrix, view: View) -> SparseMatrix:
        """Return the kept part of ``edges``."""
        if stage == len(self.shares) + sum(self.after) + 1:
            return _with_friends(edges, view.edges, self.friends)
        ranked = Ranked(edges, view.discrepancies(edges))
        share = self.shares[min(stage, len(self.shares) - 1)]
        counts = np.ceil(share * ranked.degree - 1e-9).astype(np.int64)
        if stage < len(self.shares):
            return marked(edges, ranked.first(counts))
        if stage == len(self.shares) + self.after[0]:
            return marked(edges, _second_look(edges, ranked, counts, view))
        return marked(edges, ranked.first(_as_near(ranked, counts, self.times)))


def _as_near(ranked: Ranked, least: IntArray, times: float) -> IntArray:
    """Return how many neighbours are at most ``times`` as far away as the ``least`` nearest on average."""
    if not len(ranked.sorted):
        return least
    values = np.maximum(ranked.sorted, FLOOR * float(ranked.sorted.mean()))
    nearest = ranked.rank < least[ranked.row]
    mean = np.bincount(ranked.row, np.where(nearest, values, 0.0), ranked.n) / np.maximum(least, 1)
    near = values <= times * mean[ranked.row]
    return np.maximum(least, np.bincount(ranked.row, near, ranked.n).astype(np.int64))


def _second_look(edges: SparseMatrix, ranked: Ranked, counts: IntArray, view: View) -> FloatArray:
    """Mark each node's agreeing neighbours, or those that best fit its own rows if they fit far better."""
    losses = view.own_losses(edges)
    agreeing = ranked.first(counts)
    fitting = Ranked(edges, losses).first(counts)
    sizes = np.maximum(counts, 1)
    with_crowd, alone = (
        np.bincount(ranked.row, np.where(mark > 0, losses, 0.0), ranked.n) / sizes
        for mark in (agreeing, fitting)
    )
    changes = FAR * alone < with_crowd
    return np.asarray(np.where(changes[ranked.row], fitting, agreeing))


def _with_friends(edges: SparseMatrix, kept: SparseMatrix, share: float) -> SparseMatrix:
    """Return the kept edges, and those whose ends have at least this share of kept neighbours in common."""
    edges = edges.maximum(kept).tocsr()
    if not edges.nnz:
        return edges
    friends = kept.copy()
    friends.data = np.ones_like(friends.data)
    row = edges.tocoo(copy=False).row
    degree = np.diff(kept.indptr)
    fewer = np.minimum(degree[row], degree[edges.indices])
    common = np.asarray((friends @ friends)[row, edges.indices]).ravel()
    already = np.asarray(friends[row, edges.indices]).ravel() > 0
    mark = already | ((fewer > 0) & (common >= share * fewer))
    return marked(edges, mark.astype(float))


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
        return super().due(round + (self.every or USUAL))

    def settled(self, round: int) -> bool:
        """Tell whether this round is on the final graph."""
        return super().settled(round + (self.every or USUAL))

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
