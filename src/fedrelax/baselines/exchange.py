"""Methods that exchange answers on public rows: partial pooling, as a federation learns, and FedMD."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedrelax.baselines.base import Baseline, Run
from fedrelax.graph import Graph
from fedrelax.models import adapt
from fedrelax.network import Network
from fedrelax.pooling.network import find
from fedrelax.solvers import FedRelax, PartialPooling

MOST_NODES = 2000
"""Of FedMD: the complete graph has an edge for each pair of them."""


@dataclass(frozen=True)
class Federation(Baseline):
    """Linear models of nodes that exchange answers on public rows.

    It is the computation of ``fedrelax federate`` with all sites in one process; the nodes' own kinds of
    models and the graph play no part.
    """

    name = "federation"

    def unsupported_reason(self, network: Network) -> str | None:
        """Return what about the targets or the rows does not suit."""
        if len(network) < 2:
            return "it needs at least two nodes"
        return PartialPooling.unsupported_rows(network)

    def run(self, network: Network, *, seed: int = 0, n_jobs: int | None = None) -> Run:
        """Let the nodes learn in nine rounds; each gets a linear model."""
        made = (adapt(model, network.task) for model in find(network, seed=seed).together)
        return Run(dict(zip(network.labels, made, strict=True)))


@dataclass(frozen=True)
class FedMD(Baseline):
    """h_i <- argmin L_i(h) + weight * mean over public x of loss(consensus(x), h(x)).

    Li and Wang, "FedMD: heterogenous federated learning via model distillation", NeurIPS workshop 2019.
    The consensus is the mean of all nodes' predictions. This is FedRelax on the complete graph with
    weights 1/n: there, the graph's information is lost.
    """

    name, tries = "FedMD", {"weight": (0.1, 1.0, 10.0)}

    weight: float = 1.0
    rounds: int = 10

    @classmethod
    def usual(cls, rounds: int) -> FedMD:
        """Allow as many rounds as FedRelax has, as they are of the same kind."""
        return cls(rounds=rounds)

    def unsupported_reason(self, network: Network) -> str | None:
        """Return a reason for very many nodes: the complete graph has too many edges."""
        if len(network) <= MOST_NODES:
            return None
        return f"it joins every pair of nodes, which takes too long for {len(network):,} of them"

    def run(self, network: Network, *, seed: int = 0, n_jobs: int | None = None) -> Run:
        """Run the rounds on one common public set: the network's, or rows drawn from all nodes' sets."""
        rows, labels = network.public.common, network.labels
        if rows is None:
            sets = [network.public.of(label) for label in labels]
            mixed = np.random.default_rng(seed).permutation(np.concatenate(sets))
            rows = mixed[: max(map(len, sets))]
        everybody = Network(Graph.complete(labels, weight=1.0 / len(labels)), network.kind, rows)
        for node in network:
            everybody.add(node.label, node.X, node.y, node.model, validation=node.validation)
        solver = FedRelax(
            alpha=self.weight, rounds=self.rounds, tol=1e-3, n_jobs=n_jobs, random_state=seed
        )
        return Run.of(solver.solve(everybody))
