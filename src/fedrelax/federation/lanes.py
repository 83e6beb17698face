"""The hub's engine: a run whose nodes are elsewhere. The loop is that of ``runtime.rounds``."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Never

import numpy as np

from fedrelax.engines.sites.engine import gathered
from fedrelax.errors import FedRelaxError
from fedrelax.federation.plan import LaneSpec
from fedrelax.graph import Graph
from fedrelax.runtime import NodeMeasures, Outcome, SiteMeasure, Stopping, run
from fedrelax.runtime.callbacks import Callback
from fedrelax.typing import FloatArray, Label
from fedrelax.wiring import Wiring

UNKNOWN = SiteMeasure(np.nan, 0.0, 0.0, np.nan, 0, np.inf, 0.0, {})
"""The numbers of a site that has never reported any."""


class Lane:
    """One run over sites elsewhere; several go side by side, and their letters travel together.

    A site measures round r and refits for round r + 1 in one go, so ``share`` asks for both and
    ``update`` has nothing left to do. A round that is already recorded is not asked for again: that is how
    a restarted hub gets back to where it was, and how a run is replayed with another stopping rule.
    """

    at_rest = False
    may_rest = True

    def __init__(
        self, spec: LaneSpec, graph: Graph, symmetric: bool, wiring: Wiring | None = None
    ) -> None:
        self.spec, self.labels = spec, tuple(graph.labels)
        self.wiring = wiring
        self.graph = graph
        self.given = self.edges = graph.adjacency
        self.symmetric = symmetric
        self.recorded: list[dict[str, SiteMeasure]] = []
        """What the sites reported, round by round."""
        self.looks: dict[int, dict[str, dict[Label, float]]] = {}
        """By round and site: how well each neighbour's answers fit the site's own rows, where asked for."""
        self.round = 0

    @property
    def waits(self) -> bool:
        """Whether the current round has yet to be asked for."""
        return self.round >= len(self.recorded)

    def record(self, reports: Mapping[str, SiteMeasure]) -> None:
        """Record the sites' reports of the next round; a silent site keeps its last numbers."""
        before = self.recorded[-1] if self.recorded else {}
        self.recorded.append(
            {
                str(label): reports.get(str(label), before.get(str(label), UNKNOWN))
                for label in self.labels
            }
        )

    def told_again(self, stopping: Stopping, callbacks: Sequence[Callback] = ()) -> Outcome:
        """Replay the recorded rounds with this stopping rule and return how they end."""
        return run(self, stopping, callbacks, self.wiring)

    def weighed(self, alpha: float) -> Lane:
        """Return a copy that takes the reports for those of another alpha; in round 0 they are the same."""
        lane = copy.copy(self)
        lane.spec = LaneSpec(alpha, self.spec.fold)
        return lane

    # What the loop asks

    def start(self) -> None:
        """Begin with the given graph; the sites trained alone when they were told to start."""
        self.edges = self.given

    def share(self, round: int) -> None:
        """Ask for a round."""
        self.round = round

    def measure(self) -> NodeMeasures:
        """Return the numbers of the current round."""
        factor = self.spec.alpha * (1.0 if self.symmetric else 0.5)
        return gathered(list(self.recorded[self.round].values()), factor)

    def update(self, round: int) -> int:
        """Do nothing: the sites refitted when they were asked for the round."""
        return 1

    def snapshot(self) -> tuple[int, Any]:
        """Return the current round and graph; the sites can go back to it."""
        return self.round, self.edges

    def restore(self, state: tuple[int, Any]) -> None:
        """Go back to an earlier round."""
        self.round, self.edges = state

    # What a wiring asks

    def discrepancies(self, edges: Any) -> FloatArray:
        """Return d(i, j) for every stored entry, as site i reported it; infinite if it did not."""
        reports = self.recorded[self.round]
        return self._per_edge(
            edges, {str(name): report.discrepancies for name, report in reports.items()}
        )

    def own_losses(self, edges: Any) -> FloatArray:
        """Return how well j's answers fit i's own rows, as site i reported it; infinite if it did not."""
        return self._per_edge(edges, self.looks.get(self.round, {}))

    def _per_edge(self, edges: Any, told: Mapping[str, Mapping[Any, float]]) -> FloatArray:
        found = []
        for i, label in enumerate(self.labels):
            own = told.get(str(label), {})
            for j in edges.indices[edges.indptr[i] : edges.indptr[i + 1]]:
                found.append(own.get(self.labels[j], np.inf))
        return np.array(found, dtype=float)

    def embedding(self) -> Never:
        """Refuse: the hub has no predictions."""
        raise _elsewhere("embedding")

    def rewire(self, edges: Any) -> None:
        """Go on with another graph; the sites learn of it in the letter that asks them to refit."""
        self.edges = edges

    def settle(self, round: int) -> None:
        """Do nothing: the hub's letters tell the sites to start anew after the last stage."""

    def heeded(self, label: Label) -> dict[str, float]:
        """Return the neighbours that a site heeds on the current graph, with their weights."""
        i = self.labels.index(label)
        part = slice(self.edges.indptr[i], self.edges.indptr[i + 1])
        names = [str(self.labels[j]) for j in self.edges.indices[part]]
        return dict(zip(names, self.edges.data[part].tolist(), strict=True))


def _elsewhere(what: str) -> FedRelaxError:
    return FedRelaxError(
        f"{what} needs the predictions of all sites in one place, which a federation does not have; keep "
        "the graph that the sites give"
    )
