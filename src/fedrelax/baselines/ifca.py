"""IFCA: a given number of models; every node follows the one that fits its rows best.

Ghosh, Chung, Yin and Ramchandran, "An efficient framework for clustered federated learning",
NeurIPS 2020.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedrelax.baselines.descent import Descent, group_means
from fedrelax.baselines.objectives import LocalObjectives
from fedrelax.network import Network
from fedrelax.typing import FloatArray


@dataclass(frozen=True)
class IFCA(Descent):
    """k_i <- argmin_k L_i(w_k);  w_k <- w_k - rate * mean over the rows of k's nodes of grad L."""

    name = "IFCA"

    clusters: int = 2

    def candidates(self, network: Network) -> Sequence[IFCA]:
        """Return several numbers of clusters, fewer than there are nodes."""
        return [replace(self, clusters=k) for k in (2, 3, 5, 8) if k < len(network) or k == 2]

    def iterate(
        self, objectives: LocalObjectives, rng: np.random.Generator
    ) -> Iterator[FloatArray]:
        """Yield the model that every node has chosen."""
        F, rate = objectives.shared(), self.step_size(objectives)
        w = F.random_models(rng, self.clusters)
        while True:
            losses = [F.value(np.repeat(one[None], F.n, axis=0)) for one in w]
            choice = np.argmin(losses, axis=0)
            yield w[choice]
            moved = group_means(F.step(w[choice], rate), choice, F.counts, self.clusters)
            w = np.where(np.isin(np.arange(self.clusters), choice)[:, None, None], moved, w)
