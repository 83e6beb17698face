"""Reweight: no edge is cut; those whose ends disagree count for less."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from fedrelax.errors import FedRelaxError
from fedrelax.wiring.base import View, Wiring

KINDS = ("inverse", "heat", "root")
LEAST = 1e-6
"""Discrepancies below this share of the median are raised to it."""


@dataclass(frozen=True)
class Reweight(Wiring):
    """A_ij <- A_ij f(d_ij / median of d), d_ij the mean of both ends' discrepancies.

    kind : "inverse" f(d) = 1/d; "heat" f(d) = exp(-d); "root" f(d) = 1/sqrt(d), which makes the
        squared coupling behave like the unsquared one of the network Lasso. Weights are scaled so that
        the mean degree stays that of the given graph.
    times : how often weights are set.
    """

    name = "reweight"

    kind: str = "inverse"
    times: int = 8

    @property
    def stages(self) -> int:
        """How often weights are set."""
        return self.times

    def check(self) -> None:
        """Refuse an unknown kind."""
        super().check()
        if self.kind not in KINDS:
            raise FedRelaxError(f"reweight: kind={self.kind!r} must be one of {', '.join(KINDS)}")

    def wire(self, stage: int, view: View) -> Any:
        """Return the given edges with new weights."""
        given = view.given
        one = sparse.csr_array(
            (view.discrepancies(given), given.indices, given.indptr), shape=given.shape
        )
        # Sorted indices and a symmetric pattern: the transpose has its entries in the same places.
        both = (one.data + one.T.tocsr().data) / 2
        size = np.median(both) if len(both) else 1.0
        d = np.maximum(both / (size or 1.0), LEAST)
        factor = {"inverse": 1 / d, "heat": np.exp(-d), "root": d**-0.5}[self.kind]
        weights = given.data * factor
        total = weights.sum()
        if total > 0:
            weights *= given.data.sum() / total
        return sparse.csr_array((weights, given.indices, given.indptr), shape=given.shape)
