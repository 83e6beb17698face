"""FedAvg: one model for all nodes, the average of their local steps.

McMahan, Moore, Ramage, Hampson and Aguera y Arcas, "Communication-efficient learning of deep
networks from decentralized data", AISTATS 2017.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fedrelax.baselines.descent import Descent
from fedrelax.baselines.objectives import LocalObjectives
from fedrelax.typing import FloatArray


@dataclass(frozen=True)
class FedAvg(Descent):
    """w_i <- w; ``local_steps`` times: w_i <- w_i - rate grad L_i(w_i); w <- sum_i m_i/m w_i.

    With one local step this is gradient descent on the loss over all rows, as in the paper's
    benchmark.
    """

    name = "FedAvg"

    local_steps: int = 1

    def iterate(
        self, objectives: LocalObjectives, rng: np.random.Generator
    ) -> Iterator[FloatArray]:
        """Yield the common model at every node."""
        F, rate = objectives.shared(), self.step_size(objectives)
        w = F.random_models(rng, 1)
        while True:
            W = np.repeat(w, F.n, axis=0)
            yield W
            for _ in range(self.local_steps):
                W = F.step(W, rate)
            w = np.average(W, axis=0, weights=F.counts)[None]
