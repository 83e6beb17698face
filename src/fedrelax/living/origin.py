"""What a trained network must keep so that it can change after fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fedrelax.engines.sites.checks import coupling_of
from fedrelax.graph import Graph
from fedrelax.living.network import LivingNetwork, OwnRows
from fedrelax.living.past import Past
from fedrelax.losses import Weighted, usual_loss
from fedrelax.network import Network
from fedrelax.public import PublicRows
from fedrelax.runtime import Coupling
from fedrelax.solvers import FedRelax, Result, Solver
from fedrelax.typing import FloatArray, Label


class NodeRows(Mapping[Label, OwnRows]):
    """The rows of a network's nodes, without a copy."""

    def __init__(self, network: Network) -> None:
        self._nodes = network.nodes

    def __getitem__(self, label: Label) -> OwnRows:
        node = self._nodes[label]
        return node.X, node.y

    def __iter__(self) -> Iterator[Label]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)


@dataclass(frozen=True, eq=False)
class Origin:
    """Public rows, coupling and rows of a trained network; ``LivingNetwork`` says what each means."""

    public: PublicRows
    coupling: Coupling
    found_together: bool = False
    wired: bool = False
    seed: int = 0
    rows: Mapping[Label, OwnRows] | None = None
    answers: FloatArray | None = None
    counts: Mapping[Label, int] | None = None
    past: Mapping[Label, Past] | None = None

    @classmethod
    def of(cls, solver: Solver, network: Network, level: float, seed: int) -> Origin | None:
        """Return the origin of a network that a solver trained; None if it cannot change after fit.

        A newcomer compares the others' answers on one set of public rows, as they were sent, by predictions
        alone: so there must be such a set, nothing around the exchange, and no discrepancy that depends
        on x.
        """
        if network.public.common is None or solver.around(network):
            return None
        together = not isinstance(solver, FedRelax)
        if isinstance(solver, FedRelax):
            coupling = coupling_of(solver, network.kind)
            if isinstance(coupling.discrepancy, Weighted):
                return None
        else:
            loss = usual_loss(network.kind)
            coupling = Coupling(alpha=0.0, loss=loss, discrepancy=loss, level=level)
        return cls(
            public=network.public,
            coupling=coupling,
            found_together=together,
            wired=solver.wiring is not None,
            seed=seed,
            rows=NodeRows(network),
        )

    def living(self, result: Result, graph: Graph) -> LivingNetwork:
        """Return the network as it was trained, ready to change."""
        return LivingNetwork(
            result,
            graph,
            self.public,
            self.coupling,
            rows=self.rows,
            answers=self.answers,
            counts=self.counts,
            past=self.past,
            found_together=self.found_together,
            wired=self.wired,
            seed=self.seed,
        )
