"""Answers of all nodes on one common public set, (nodes, rows, outputs), and how far apart they are."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fedrelax.losses import Loss
from fedrelax.public import PublicRows, Smoother
from fedrelax.runtime.site import Site, distances
from fedrelax.typing import AnyArray, FloatArray, Label, SparseMatrix

AT_ONCE = 1 << 20
"""Numbers compared at a time, so that they stay in cache."""


def learners_of(edges: SparseMatrix) -> AnyArray:
    """Return the row of every stored entry of a CSR matrix."""
    return np.repeat(np.arange(edges.shape[0]), np.diff(edges.indptr))


def discrepancies(
    edges: SparseMatrix, own: FloatArray, told: FloatArray, loss: Loss, level: float, classes: bool
) -> FloatArray:
    """Return d(i, j) for every stored entry: node i's own answers against what j has sent."""
    learners = learners_of(edges)
    values = np.empty(len(learners))
    most = max(1, AT_ONCE // max(own[0].size, 1))
    for low in range(0, len(values), most):
        part = slice(low, low + most)
        mine, theirs = own[learners[part]], told[edges.indices[part]]
        values[part] = distances(mine, theirs, loss, level, classes)
    return values


class AnswerExtrapolator:
    """Estimates what neighbours would predict on a site's rows from their answers on public rows."""

    def __init__(self, public: PublicRows) -> None:
        self._public = public
        self._smoothers: dict[Label | None, Smoother] = {}

    def losses(self, site: Site, others: Iterable[Label]) -> dict[Label, float]:
        """Return the site's loss on its own rows if it predicted them with each neighbour's answers."""
        X, common = self._public.as_numbers(site.node.X), self._public.common is not None
        carrying = self._smoother(site.label).carrying(X) if common else None
        found: dict[Label, float] = {}
        for j in others:
            answer = site.received.get((j, j))
            if answer is None:
                found[j] = np.inf
                continue
            W = self._smoother(j).carrying(X) if carrying is None else carrying
            found[j] = site.coupling.loss.mean(site.target, site.task.plausible(W @ answer))
        return found

    def _smoother(self, owner: Label) -> Smoother:
        key = None if self._public.common is not None else owner
        if key not in self._smoothers:
            self._smoothers[key] = Smoother(self._public.as_numbers(self._public.of(owner)))
        return self._smoothers[key]
