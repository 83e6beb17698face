"""FedProx: FedAvg whose local steps are held near the common model.

Li, Sahu, Zaheer, Sanjabi, Talwalkar and Smith, "Federated optimization in heterogeneous networks",
MLSys 2020.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedrelax.baselines.descent import Descent
from fedrelax.baselines.objectives import LocalObjectives
from fedrelax.network import Network
from fedrelax.typing import FloatArray


@dataclass(frozen=True)
class FedProx(Descent):
    """``local_steps`` gradient steps on L_i(w_i) + mu/2 |w_i - w|^2, then w <- sum_i m_i/m w_i."""

    name = "FedProx"

    mu: float = 0.1
    local_steps: int = 10

    def candidates(self, network: Network) -> Sequence[FedProx]:
        """Return several strengths of the pull."""
        return [replace(self, mu=mu) for mu in (0.01, 0.1, 1.0)]

    def iterate(
        self, objectives: LocalObjectives, rng: np.random.Generator
    ) -> Iterator[FloatArray]:
        """Yield the common model at every node."""
        F = objectives.shared()
        rate = self.step_size(objectives)
        rate = rate / (1 + rate * self.mu)  # The pull adds mu to the curvature.
        w = F.random_models(rng, 1)
        while True:
            W = np.repeat(w, F.n, axis=0)
            yield W
            for _ in range(self.local_steps):
                W = F.step(W, rate, self.mu * (W - w))
            w = np.average(W, axis=0, weights=F.counts)[None]
