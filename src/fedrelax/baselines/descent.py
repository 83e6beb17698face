"""Methods that exchange parameters: gradient steps on all nodes' linear models, or averages of nets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from fedrelax.baselines.base import Baseline, Run, validation_loss
from fedrelax.baselines.grouped import kind_of
from fedrelax.baselines.objectives import (
    LocalObjectives,
    group_means,
    objectives_of,
    unsupported_reason,
)
from fedrelax.errors import FedRelaxError
from fedrelax.losses import usual_loss
from fedrelax.models import Rows
from fedrelax.models.registry import is_net
from fedrelax.network import Network
from fedrelax.typing import FloatArray

if TYPE_CHECKING:
    from fedrelax.models.torch import TorchModel


def has_nets(network: Network) -> bool:
    """Tell whether some node trains a PyTorch module."""
    return any(is_net(node.model) for node in network)


def unsupported_nets(network: Network) -> str | None:
    """Return which node's net differs from the others, or None."""
    first, *others = network
    kind = kind_of(first.model)
    for node in others:
        if kind_of(node.model) != kind:
            return f"node {node.label!r}: its model differs from the net of node {first.label!r}"
    return None


def net_of(network: Network) -> TorchModel:
    """Return the description of the net that all nodes hold."""
    from fedrelax.models.torch import TorchModel

    model = next(iter(network)).model
    return model if isinstance(model, TorchModel) else TorchModel(model)


def average_nets(
    network: Network,
    rounds: int,
    rate: float | None,
    local_steps: int | None,
    patience: int | None,
    seed: int,
) -> Run:
    """Return the common net at every node, after rounds of local training and averaging.

    Every node starts each round from the common net with a new optimiser. ``rate`` and
    ``local_steps`` default to what the model says. With ``patience``, a run with validation rows ends
    after that many rounds without a better loss on them.
    """
    from fedrelax.models.torch.node import averaged, untrained

    model = clone(net_of(network))
    if rate is not None:
        model.set_params(lr=rate)
    if local_steps is not None:
        model.set_params(steps=local_steps, epochs=None)
    task, loss = network.task, usual_loss(network.kind)
    rows = [Rows(node.X, task.encode(node.y), np.ones(len(node.y)), loss) for node in network]
    nets, curve = untrained(model, task, rows, seed), []
    for number in range(rounds + 1):
        if number:
            nets = averaged(nets, rows, seed)
        models = dict(zip(network.nodes, nets, strict=True))
        loss_now = validation_loss(network, models)
        if not np.isnan(loss_now):
            curve.append(loss_now)
            if patience is not None and number - int(np.argmin(curve)) >= patience:
                break
    return Run(models, np.array(curve))


PATIENCE = 10


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

    def check(self, network: Network) -> None:
        """Refuse a network on which this way cannot learn."""
        reason = self.unsupported_reason(network)
        if reason is not None:
            raise FedRelaxError(f"{self.name} exchanges parameters: {reason}")

    def step_size(self, F: LocalObjectives) -> float:
        """Return the given rate or the safe one."""
        return 1.0 / F.curvature if self.rate is None else self.rate

    def run(self, network: Network, *, seed: int = 0, n_jobs: int | None = None) -> Run:
        """Run the rounds in standardised coordinates and hand back plain models."""
        self.check(network)
        with threadpool_limits(1):
            linear = objectives_of(network)
            curve = []
            models = islice(self.iterate(linear.own, np.random.default_rng(seed)), self.rounds + 1)
            for W in models:
                if linear.held is not None:
                    curve.append(linear.held.mean_loss(W))
        return Run(linear.models(W), np.array(curve))


def averaged(
    F: LocalObjectives, rng: np.random.Generator, rate: float, steps: int
) -> Iterator[FloatArray]:
    """Yield the common model at every node: the average of local steps from it."""
    w = F.random_models(rng, 1)
    while True:
        W = np.repeat(w, F.n, axis=0)
        yield W
        for _ in range(steps):
            W = F.step(W, rate)
        w = np.average(W, axis=0, weights=F.counts)[None]


@dataclass(frozen=True)
class FedAvg(Descent):
    """w_i <- w; ``local_steps`` times: w_i <- w_i - rate grad L_i(w_i); w <- sum_i m_i/m w_i.

    McMahan, Moore, Ramage, Hampson and Aguera y Arcas, "Communication-efficient learning of deep
    networks from decentralized data", AISTATS 2017. With one local step this is gradient descent on
    the loss over all rows, as in the paper's benchmark.

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

    def unsupported_reason(self, network: Network) -> str | None:
        """Return why the nodes' models are neither one linear model nor one net."""
        nets = has_nets(network)
        return unsupported_nets(network) if nets else super().unsupported_reason(network)

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

    def iterate(self, F: LocalObjectives, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Yield the common model at every node."""
        rate = self.step_size(F)
        return averaged(F.shared(), rng, rate, self.local_steps or 1)


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
