"""From a network to Gram matrices, round 0 and measures: what all engines for linear models need."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedrelax.engines.base import Unsuited
from fedrelax.engines.linear.measures import Measures, train_alone
from fedrelax.engines.linear.network import Coordinates, LinearNetwork
from fedrelax.errors import FedRelaxError
from fedrelax.linear.fixed_point import ExactUpdate, System
from fedrelax.linear.memory import Method, estimate_bytes, require_memory
from fedrelax.linear.problem import LinearProblem
from fedrelax.network import Network
from fedrelax.typing import FloatArray


@dataclass(frozen=True)
class Prepared:
    """A network in given coordinates: its problem, every node's model alone, and the measures."""

    network: LinearNetwork
    coordinates: Coordinates
    problem: LinearProblem
    measures: Measures
    alone: FloatArray
    """Every node's model trained on its own rows, (n, d, q) in these coordinates."""
    apart: ExactUpdate
    """The update of nodes without neighbours."""
    weighting: str

    @classmethod
    def of(
        cls,
        network: Network,
        weighting: str,
        system: System,
        *,
        level: float = 1.0,
        straight: bool = False,
    ) -> Prepared:
        """Return the network in standardised coordinates, if it fits into memory."""
        stacked = LinearNetwork.of(network)
        _check_memory(stacked, system, straight)
        coordinates = Coordinates.standard(stacked.own.X, stacked.intercept)
        problem, residuals = stacked.problem(coordinates, weighting, level)
        alone, apart = train_alone(stacked, coordinates, problem, residuals, weighting)
        measures = Measures(stacked, coordinates, problem, residuals, alone, weighting)
        return cls(stacked, coordinates, problem, measures, alone, apart, weighting)

    def raw(self) -> Prepared:
        """Return the same in the user's features, in which gradient steps are defined."""
        network, weighting = self.network, self.weighting
        features = len(self.coordinates.scale)
        coordinates = Coordinates(np.zeros(features), np.ones(features), network.intercept)
        problem, residuals = network.problem(coordinates, weighting)
        alone = self.coordinates.back(self.alone)
        measures = Measures(network, coordinates, problem, residuals, alone, weighting)
        return replace(
            self, coordinates=coordinates, problem=problem, measures=measures, alone=alone
        )

    def exact(self, alpha: float, system: System, *, fused: bool) -> ExactUpdate:
        """Return the exact update of all nodes."""
        norm = self.coordinates.least(self.network.minimum_norm)
        return ExactUpdate(self.problem, alpha, system=system, minimum_norm=norm, fused=fused)


def _check_memory(network: LinearNetwork, system: System, straight: bool) -> None:
    """Refuse a problem that does not fit into memory before any of it is built."""
    n, d, q = len(network.labels), network.n_weights, network.task.n_outputs
    common = network.public_offsets is None
    method: Method = "rounds"
    if straight:
        method = "conjugate" if common or system == "symmetric" else "accelerated"
    needed = estimate_bytes(
        n,
        d,
        q,
        network.graph.n_edges,
        m=int(network.own.counts.max()),
        m_pub=None if common else int(network.public_counts.max()),
        method=method,
    )
    needed += 8 * n * d * d * (1 if common else 2) + network.own.X.nbytes + network.public.nbytes
    try:
        require_memory(needed, n=n, d=d, common=common)
    except FedRelaxError as error:
        raise Unsuited("linear", str(error)) from None
