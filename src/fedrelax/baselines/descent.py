"""Methods that exchange parameters: gradient steps on all nodes' linear models."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from threadpoolctl import threadpool_limits

from fedrelax.baselines.base import Baseline, Run
from fedrelax.baselines.objectives import (
    LocalObjectives,
    group_means,
    objectives_of,
    unsupported_reason,
)
from fedrelax.errors import FedRelaxError
from fedrelax.network import Network
from fedrelax.typing import FloatArray


@dataclass(frozen=True)
class Descent(Baseline):
    """A method that exchanges parameters: all nodes have the same linear model.

    A subclass writes its algorithm as the generator ``iterate``, which yields the models of all nodes
    (n, d, q) before every round; the loop and the measuring are here.

    rate : the step size; None takes 1 / (largest curvature of any node), with which a step never
        increases a node's own loss.
    """

    rounds: int = 300
    rate: float | None = None

    @abstractmethod
    def iterate(self, F: LocalObjectives, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Yield the models of round 0, 1, 2, ..., without end."""

    def unsupported_reason(self, network: Network) -> str | None:
        """Return why the nodes' models are not one linear model."""
        return unsupported_reason(network)

    def step_size(self, F: LocalObjectives) -> float:
        """Return the given rate or the safe one."""
        return 1.0 / F.curvature if self.rate is None else self.rate

    def run(self, network: Network, *, seed: int = 0, n_jobs: int | None = None) -> Run:
        """Run the rounds in standardised coordinates and hand back plain models."""
        reason = self.unsupported_reason(network)
        if reason is not None:
            raise FedRelaxError(f"{self.name} exchanges parameters: {reason}")
        with threadpool_limits(1):
            linear = objectives_of(network)
            curve = []
            models = islice(self.iterate(linear.own, np.random.default_rng(seed)), self.rounds + 1)
            for W in models:
                if linear.held is not None:
                    curve.append(linear.held.mean_loss(W))
        return Run(linear.models(W), np.array(curve))


def averaged(
    F: LocalObjectives, rng: np.random.Generator, rate: float, steps: int, mu: float = 0.0
) -> Iterator[FloatArray]:
    """Yield the common model at every node: the average of local steps, held near it by ``mu``."""
    w = F.random_models(rng, 1)
    while True:
        W = np.repeat(w, F.n, axis=0)
        yield W
        for _ in range(steps):
            W = F.step(W, rate, mu * (W - w))
        w = np.average(W, axis=0, weights=F.counts)[None]


@dataclass(frozen=True)
class FedAvg(Descent):
    """w_i <- w; ``local_steps`` times: w_i <- w_i - rate grad L_i(w_i); w <- sum_i m_i/m w_i.

    McMahan, Moore, Ramage, Hampson and Aguera y Arcas, "Communication-efficient learning of deep
    networks from decentralized data", AISTATS 2017. With one local step this is gradient descent on
    the loss over all rows, as in the paper's benchmark.

    local_steps : gradient steps of every node per round.
    """

    name = "FedAvg"

    local_steps: int = 1

    def iterate(self, F: LocalObjectives, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Yield the common model at every node."""
        return averaged(F.shared(), rng, self.step_size(F), self.local_steps)


@dataclass(frozen=True)
class FedProx(Descent):
    """``local_steps`` gradient steps on L_i(w_i) + mu/2 |w_i - w|^2, then w <- sum_i m_i/m w_i.

    Li, Sahu, Zaheer, Sanjabi, Talwalkar and Smith, "Federated optimization in heterogeneous networks",
    MLSys 2020.
    """

    name = "FedProx"

    mu: float = 0.1
    local_steps: int = 10

    def candidates(self, network: Network) -> Sequence[FedProx]:
        """Return several strengths of the coupling term."""
        return [replace(self, mu=mu) for mu in (0.01, 0.1, 1.0)]

    def iterate(self, F: LocalObjectives, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Yield the common model at every node."""
        rate = self.step_size(F)
        rate = rate / (1 + rate * self.mu)  # mu adds to the curvature
        return averaged(F.shared(), rng, rate, self.local_steps, self.mu)


@dataclass(frozen=True)
class Ditto(Descent):
    """w <- FedAvg step;  v_i <- v_i - rate [grad L_i(v_i) + pull (v_i - w)]. Node i uses v_i.

    Li, Hu, Beirami and Smith, "Ditto: fair and robust federated learning through personalization",
    ICML 2021.
    """

    name = "Ditto"

    pull: float = 0.1

    def candidates(self, network: Network) -> Sequence[Ditto]:
        """Return several strengths of the pull."""
        return [replace(self, pull=pull) for pull in (0.01, 0.1, 1.0, 10.0)]

    def iterate(self, F: LocalObjectives, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Yield the personal models."""
        rate = self.step_size(F)
        common = averaged(F.shared(), rng, rate, 1)
        V = next(common)
        yield V
        for W in common:
            V = F.step(V, rate / (1 + rate * self.pull), self.pull * (V - W))
            yield V


@dataclass(frozen=True)
class IFCA(Descent):
    """k_i <- argmin_k L_i(w_k);  w_k <- w_k - rate * mean over the rows of k's nodes of grad L.

    Ghosh, Chung, Yin and Ramchandran, "An efficient framework for clustered federated learning",
    NeurIPS 2020.
    """

    name = "IFCA"

    clusters: int = 2

    def candidates(self, network: Network) -> Sequence[IFCA]:
        """Return several numbers of clusters, fewer than there are nodes."""
        return [replace(self, clusters=k) for k in (2, 3, 5, 8) if k < len(network) or k == 2]

    def iterate(self, F: LocalObjectives, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Yield the model that every node has chosen."""
        rate, F = self.step_size(F), F.shared()
        w = F.random_models(rng, self.clusters)
        while True:
            losses = [F.value(np.repeat(one[None], F.n, axis=0)) for one in w]
            choice = np.argmin(losses, axis=0)
            yield w[choice]
            moved = group_means(F.step(w[choice], rate), choice, F.counts, self.clusters)
            w = np.where(np.isin(np.arange(self.clusters), choice)[:, None, None], moved, w)
