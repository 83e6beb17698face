"""What a federation gives by default: partial pooling by exchange."""

from __future__ import annotations

from dataclasses import dataclass

from fedrelax.baselines.base import Baseline, Run
from fedrelax.models import adapt
from fedrelax.network import Network
from fedrelax.pooling.network import find
from fedrelax.solvers.pooling import PartialPooling


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
