"""What every solver does: check at the door, run the loop, hand over a result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedrelax.graph import Graph
from fedrelax.models import LocalModel, Task
from fedrelax.network import Network
from fedrelax.runtime import Callback, History
from fedrelax.typing import Label


@dataclass(frozen=True)
class Result:
    """A trained network: one model per node and how it came to be."""

    local_models: Mapping[Label, LocalModel]
    alone: Mapping[Label, LocalModel]
    """The models of round 0: every node trained on its own rows only."""
    task: Task
    graph: Graph
    discrepancies: Mapping[tuple[Label, Label], float]
    history: History
    n_rounds: int
    reason: str
    kept: Graph | None = None
    """The graph of the last rounds, if it was rewired; ``graph`` is the one that was given."""
    engine: str = "general"
    """Which way it was computed: "general" (any model, node by node) or "linear" (all at once)."""

    @property
    def models(self) -> dict[Label, Any]:
        """The plain fitted estimator of every node, to take home."""
        return {label: model.estimator for label, model in self.local_models.items()}

    def edges_to_frame(self, graph: Graph | None = None) -> Any:
        """Return a DataFrame of the edges: both ends, weight and the discrepancy each way.

        ``graph`` may be a larger one; its edges at nodes without a model have no discrepancy (NaN).
        """
        import pandas as pd

        known, nan = self.discrepancies, float("nan")
        lines = [
            (u, v, weight, known.get((u, v), nan), known.get((v, u), nan))
            for u, v, weight in (self.graph if graph is None else graph).edges()
        ]
        columns = ["source", "target", "weight", "discrepancy", "discrepancy_back"]
        return pd.DataFrame(lines, columns=columns)


@dataclass
class Solver(ABC):
    """A way to train a network. ``solve`` checks first, so nothing fails in the middle."""

    def solve(self, network: Network, callbacks: Sequence[Callback] = ()) -> Result:
        """Train the network."""
        network.check()
        self.check(network)
        return self._solve(network, callbacks)

    @abstractmethod
    def check(self, network: Network) -> None:
        """Refuse settings and models that this solver cannot serve, naming argument or node."""

    @abstractmethod
    def _solve(self, network: Network, callbacks: Sequence[Callback]) -> Result: ...
