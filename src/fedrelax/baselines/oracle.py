"""Oracle: told which nodes belong together. No method that has to find out can expect to beat it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from fedrelax.baselines.descent import group_means
from fedrelax.baselines.grouped import Grouped
from fedrelax.baselines.objectives import LocalObjectives
from fedrelax.engines.linear.gradient import RMSprop
from fedrelax.errors import FedRelaxError, named
from fedrelax.network import Network
from fedrelax.typing import FloatArray, Label


@dataclass(frozen=True)
class Oracle(Grouped):
    """h_i = argmin over the rows of all nodes in i's true cluster; ``clusters`` maps node to cluster.

    ``iterate`` is the same for linear models as the paper's benchmark trains them: RMSprop steps
    along the mean over the cluster's rows of grad L(w_c).
    """

    name = "oracle"

    clusters: Mapping[Label, Hashable] = field(default_factory=dict)
    rate: float = 0.01

    @classmethod
    def usual(cls, rounds: int) -> None:
        """Leave it out: it needs to know the clusters."""
        return None

    def refusal(self, network: Network) -> str | None:
        """Return which nodes have no known cluster."""
        missing = [label for label in network.nodes if label not in self.clusters]
        return f"the cluster of {named('node', missing)} is not known" if missing else None

    def groups(self, network: Network) -> Mapping[Label, Hashable]:
        """Return the true clusters."""
        reason = self.refusal(network)
        if reason is not None:
            raise FedRelaxError(f"oracle: {reason}; name it in clusters=")
        return self.clusters

    def iterate(
        self, objectives: LocalObjectives, rng: np.random.Generator
    ) -> Iterator[FloatArray]:
        """Yield all nodes' models before every step; here ``clusters`` is keyed by position."""
        names = [self.clusters[place] for place in range(objectives.n)]
        member = np.unique(np.array(names), return_inverse=True)[1]
        F = objectives.shared()
        w = F.random_models(rng, int(member.max()) + 1)
        step = RMSprop(w, self.rate)
        while True:
            yield w[member]
            step(w, 0.5 * group_means(F.gradient(w[member]), member, F.counts, len(w)))
