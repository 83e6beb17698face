"""FedAvg: one model for all nodes, the average of their local steps.

McMahan, Moore, Ramage, Hampson and Aguera y Arcas, "Communication-efficient learning of deep
networks from decentralized data", AISTATS 2017.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedrelax.baselines.base import Run
from fedrelax.baselines.descent import Descent
from fedrelax.baselines.net_average import average_nets, has_nets, net_of, reason_not_one_net
from fedrelax.baselines.objectives import LocalObjectives
from fedrelax.network import Network
from fedrelax.typing import FloatArray

PATIENCE = 10


@dataclass(frozen=True)
class FedAvg(Descent):
    """w_i <- w; ``local_steps`` times: w_i <- w_i - rate grad L_i(w_i); w <- sum_i m_i/m w_i.

    With one local step this is gradient descent on the loss over all rows, as in the paper's
    benchmark.

    It averages linear models, and nets of PyTorch if all nodes have the same one. A net trains with
    its own optimiser, which every node restarts in each round.

    rate : None also takes a net's own ``lr``; then some others are candidates, too.
    local_steps : None is one step for linear models, and what the net says otherwise.
    patience : for nets: a run with validation rows ends after this many rounds without a better one.
    """

    name = "FedAvg"

    local_steps: int | None = None
    patience: int | None = None

    @classmethod
    def usual(cls, rounds: int) -> FedAvg:
        """Stop nets early: no number of rounds is safe for them, and each round takes long."""
        return cls(patience=PATIENCE)

    def refusal(self, network: Network) -> str | None:
        """Return why the nodes' models are neither one linear model nor one net."""
        return reason_not_one_net(network) if has_nets(network) else super().refusal(network)

    def candidates(self, network: Network) -> Sequence[FedAvg]:
        """Return several rates for nets; linear models have a safe one."""
        if self.rate is not None or not has_nets(network):
            return [self]
        lr = net_of(network).lr
        return [replace(self, rate=factor * lr) for factor in (1.0, 0.3, 3.0)]

    def run(self, network: Network, *, seed: int = 0, n_jobs: int | None = None) -> Run:
        """Run the rounds."""
        if not has_nets(network):
            return super().run(network, seed=seed, n_jobs=n_jobs)
        self.check(network)
        return average_nets(network, self.rounds, self.rate, self.local_steps, self.patience, seed)

    def iterate(
        self, objectives: LocalObjectives, rng: np.random.Generator
    ) -> Iterator[FloatArray]:
        """Yield the common model at every node."""
        F, rate = objectives.shared(), self.step_size(objectives)
        w = F.random_models(rng, 1)
        while True:
            W = np.repeat(w, F.n, axis=0)
            yield W
            for _ in range(self.local_steps or 1):
                W = F.step(W, rate)
            w = np.average(W, axis=0, weights=F.counts)[None]
