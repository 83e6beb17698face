"""Ditto: a personal model per node, held near the common model of FedAvg.

Li, Hu, Beirami and Smith, "Ditto: fair and robust federated learning through personalization",
ICML 2021.
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
class Ditto(Descent):
    """w <- FedAvg step;  v_i <- v_i - rate [grad L_i(v_i) + pull (v_i - w)]. Node i uses v_i."""

    name = "Ditto"

    pull: float = 0.1

    def candidates(self, network: Network) -> Sequence[Ditto]:
        """Return several strengths of the pull."""
        return [replace(self, pull=pull) for pull in (0.01, 0.1, 1.0, 10.0)]

    def iterate(
        self, objectives: LocalObjectives, rng: np.random.Generator
    ) -> Iterator[FloatArray]:
        """Yield the personal models."""
        F, common, rate = objectives, objectives.shared(), self.step_size(objectives)
        own_rate = rate / (1 + rate * self.pull)
        w = F.random_models(rng, 1)
        V = np.repeat(w, F.n, axis=0)
        while True:
            yield V
            W = common.step(np.repeat(w, F.n, axis=0), rate)
            w = np.average(W, axis=0, weights=F.counts)[None]
            V = F.step(V, own_rate, self.pull * (V - w))
