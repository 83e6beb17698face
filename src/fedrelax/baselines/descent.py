"""Methods that exchange parameters: gradient steps on all nodes' linear models, or averages of nets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
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
from fedrelax.typing import FloatArray, SparseMatrix

if TYPE_CHECKING:
    from fedrelax.models.torch import TorchModel

MOST_EDGES = 200_000
"""Of the network Lasso: each has a variable per weight."""


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
        return cls(patience=10)

    def unsupported_reason(self, network: Network) -> str | None:
        """Return why the nodes' models are neither one linear model nor one net."""
        if net_of(network) is None:
            return super().unsupported_reason(network)
        (one, model), *others = network.distinct_models.items()
        kind = kind_of(model)
        for label, other in others:
            if kind_of(other) != kind:
                return f"node {label!r}: its model differs from that of node {one!r}"
        return None

    def candidates(self, network: Network) -> Sequence[FedAvg]:
        """Return several rates for nets; linear models have a safe one."""
        net = net_of(network)
        if net is None or self.rate is not None:
            return [self]
        return [replace(self, rate=factor * net.lr) for factor in (1.0, 0.3, 3.0)]

    def run(self, network: Network, *, seed: int = 0, n_jobs: int | None = None) -> Run:
        """Run the rounds."""
        net = net_of(network)
        if net is None:
            return super().run(network, seed=seed, n_jobs=n_jobs)
        self.check(network)
        return self._average(net, network, seed)

    def _average(self, model: TorchModel, network: Network, seed: int) -> Run:
        """Return the common net at every node, after rounds of local training and averaging."""
        from fedrelax.models.torch.node import averaged, untrained

        if self.rate is not None:
            model.set_params(lr=self.rate)
        if self.local_steps is not None:
            model.set_params(steps=self.local_steps, epochs=None)
        task, loss = network.task, usual_loss(network.kind)
        rows = [Rows(node.X, task.encode(node.y), np.ones(len(node.y)), loss) for node in network]
        nets, curve = untrained(model, task, rows, seed), list[float]()
        for number in range(self.rounds + 1):
            if number:
                nets = averaged(nets, rows, seed)
            models = dict(zip(network.nodes, nets, strict=True))
            loss_now = validation_loss(network, models)
            if not np.isnan(loss_now):
                curve.append(loss_now)
                if self.patience is not None and number - int(np.argmin(curve)) >= self.patience:
                    break
        return Run(models, np.array(curve))

    def iterate(self, F: LocalObjectives, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Yield the common model at every node."""
        return averaged(F.shared(), rng, self.step_size(F), self.local_steps or 1)


def net_of(network: Network) -> TorchModel | None:
    """Return a copy of the first net in the network, as a ``TorchModel``, or None if there is none."""
    net = next((node.model for node in network if is_net(node.model)), None)
    if net is None:
        return None
    from fedrelax.models.torch import TorchModel

    return clone(net) if isinstance(net, TorchModel) else TorchModel(net)


@dataclass(frozen=True)
class FedProx(Descent):
    """``local_steps`` gradient steps on L_i(w_i) + mu/2 |w_i - w|^2, then w <- sum_i m_i/m w_i.

    Li, Sahu, Zaheer, Sanjabi, Talwalkar and Smith, "Federated optimization in heterogeneous networks",
    MLSys 2020.
    """

    name, tries = "FedProx", {"mu": (0.01, 0.1, 1.0)}

    mu: float = 0.1
    local_steps: int = 10

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

    name, tries = "Ditto", {"pull": (0.01, 0.1, 1.0, 10.0)}

    pull: float = 0.1

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


@dataclass(frozen=True)
class NetworkLasso(Descent):
    """min sum_i L_i(w_i) + strength sum over edges A_ij |w_i - w_j|: some edges break and others bind.

    Hallac, Leskovec and Boyd, "Network Lasso: clustering and optimization in large graphs", KDD 2015;
    solved by the primal-dual splitting of Condat (2013) and Vu (2013), one gradient a round.
    With D the signed incidence matrix, in every round
    w <- w - tau [grad L(w) + D'u],  u_e <- projection of u_e + sigma D(2 w_new - w_old) onto the ball
    of radius strength * A_e.
    """

    name = "network Lasso"

    strength: float = 0.1
    adjacency: SparseMatrix = field(default=None, repr=False)
    """The weights; ``run`` takes them from the network."""

    def unsupported_reason(self, network: Network) -> str | None:
        """Return a reason for very many edges, too, each of which has a variable per weight."""
        edges = network.graph.n_edges
        if edges > MOST_EDGES:
            return f"it takes too long on {edges:,} edges"
        return super().unsupported_reason(network)

    def candidates(self, network: Network) -> Sequence[NetworkLasso]:
        """Return strengths in proportion to the spread of the targets and to 1 / degree."""
        degree = float(np.mean(network.graph.degrees)) or 1.0
        regression = network.kind == "regression"
        size = (float(np.std(network.own_rows.y)) or 1.0 if regression else 1.0) / degree
        return [replace(self, strength=size * s) for s in (0.03, 0.1, 0.3, 1.0, 3.0)]

    def run(self, network: Network, *, seed: int = 0, n_jobs: int | None = None) -> Run:
        """Run the rounds over the network's graph."""
        here = replace(self, adjacency=network.graph.adjacency)
        return super(NetworkLasso, here).run(network, seed=seed, n_jobs=n_jobs)

    def iterate(self, F: LocalObjectives, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Yield all nodes' models."""
        D, weights = incidence(self.adjacency)
        radius = self.strength * weights[:, None]
        norm = 2.0 * max(1.0, float(np.abs(D).sum(axis=0).max()))  # at least |D|^2
        sigma = F.curvature / norm
        tau = 1.0 / (0.5 * F.curvature + sigma * norm)
        W = F.random_models(rng, F.n)
        u = np.zeros((len(weights), F.d * F.q))
        while True:
            yield W
            pull = (D.T @ u).reshape(W.shape)
            new = F.step(W, tau, pull)
            u = u + sigma * (D @ (2 * new - W).reshape(F.n, -1))
            size = np.sqrt(np.einsum("ep,ep->e", u, u))[:, None]
            u *= np.divide(radius, size, out=np.ones_like(size), where=size > radius)
            W = new


def incidence(adjacency: SparseMatrix) -> tuple[SparseMatrix, FloatArray]:
    """Return D (edges, nodes) with +1 and -1 at the ends of every edge, and the edges' weights."""
    upper = sparse.triu(adjacency, k=1).tocoo()
    edges = np.arange(upper.nnz)
    signs = np.concatenate([np.ones(upper.nnz), -np.ones(upper.nnz)])
    ends = (np.concatenate([edges, edges]), np.concatenate([upper.row, upper.col]))
    return sparse.csr_array((signs, ends), shape=(upper.nnz, adjacency.shape[0])), upper.data
