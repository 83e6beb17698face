"""The hub's engine: a run whose nodes are elsewhere. The loop is that of ``runtime.rounds``."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Never

import numpy as np

from fedrelax.federation.letters import LaneReport, LaneSpec
from fedrelax.graph import Graph
from fedrelax.runtime import Loop, NodeMeasures, Outcome, SiteMeasure, Stopping
from fedrelax.runtime.callbacks import Callback
from fedrelax.typing import FloatArray, Label, SparseMatrix
from fedrelax.wiring import Wiring

UNKNOWN = SiteMeasure(np.nan, 0.0, 0.0, np.nan, 0, np.inf, 0.0, {})
"""The numbers of a site that has never reported any."""


class CandidateRun:
    """One run over sites elsewhere; several go side by side, and their letters travel together.

    A site measures round r and refits for round r + 1 in one go, so ``share`` asks for both and
    ``update`` has nothing left to do. Recorded rounds can be replayed with another stopping rule.
    """

    at_rest = False
    may_rest = True

    def __init__(
        self, spec: LaneSpec, graph: Graph, symmetric: bool, wiring: Wiring | None = None
    ) -> None:
        self.spec, self.graph, self.labels = spec, graph, tuple(graph.labels)
        self.symmetric, self.wiring = symmetric, wiring
        self.given = self.edges = graph.adjacency
        self.recorded: list[dict[str, SiteMeasure]] = []
        """What the sites reported, round by round."""
        self.looks: dict[int, dict[str, Mapping[str, float]]] = {}
        """By round and site: how well each neighbour's answers fit the site's own rows, where asked for."""
        self.round = 0

    def record(self, round: int, reports: Mapping[str, LaneReport]) -> None:
        """Record the sites' reports of a round; a silent site keeps its last numbers."""
        names = map(str, self.labels)
        before = self.recorded[-1] if self.recorded else dict.fromkeys(names, UNKNOWN)
        self.recorded.append({**before, **{n: one.measure for n, one in reports.items()}})
        self.looks[round] = {n: one.looks for n, one in reports.items() if one.looks is not None}

    def replay(self, stopping: Stopping, callbacks: Sequence[Callback] = ()) -> Outcome:
        """Run through the recorded rounds with this stopping rule and return how they end."""
        return Loop(self, stopping, callbacks, self.wiring).run()

    def with_alpha(self, alpha: float) -> CandidateRun:
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
        return NodeMeasures.of(list(self.recorded[self.round].values()), factor)

    def update(self, round: int) -> int:
        """Do nothing: the sites refitted when they were asked for the round."""
        return 1

    def snapshot(self) -> tuple[int, SparseMatrix]:
        """Return the current round and graph; the sites can go back to it."""
        return self.round, self.edges

    def restore(self, state: tuple[int, SparseMatrix]) -> None:
        """Go back to an earlier round."""
        self.round, self.edges = state

    # What a wiring asks

    def discrepancies(self, edges: SparseMatrix) -> FloatArray:
        """Return d(i, j) for every stored entry, as site i reported it; infinite if it did not."""
        reports = self.recorded[self.round].items()
        return self._per_edge(edges, {name: report.discrepancies for name, report in reports})

    def own_losses(self, edges: SparseMatrix) -> FloatArray:
        """Return how well j's answers fit i's own rows, as site i reported it; infinite if it did not."""
        return self._per_edge(edges, self.looks.get(self.round, {}))

    def _per_edge(
        self, edges: SparseMatrix, reported: Mapping[str, Mapping[Any, float]]
    ) -> FloatArray:
        stored = edges.tocoo()
        pairs = zip(stored.row, stored.col, strict=True)
        ends = ((self.labels[i], self.labels[j]) for i, j in pairs)
        return np.array([reported.get(i, {}).get(j, np.inf) for i, j in ends], dtype=float)

    def embedding(self) -> Never:
        """Refuse: the hub has no predictions. Wirings that need them are refused beforehand."""
        raise NotImplementedError

    def rewire(self, edges: SparseMatrix) -> None:
        """Go on with another graph; the sites learn of it in the letter that asks them to refit."""
        self.edges = edges

    def settle(self, round: int) -> None:
        """Do nothing: the hub's letters tell the sites to start anew after the last stage."""

    def heeded(self, label: Label) -> dict[str, float]:
        """Return the neighbours that a site heeds on the current graph, with their weights."""
        neighbours = Graph(self.edges, self.labels).neighbours(label)
        return {str(name): weight for name, weight in neighbours.items()}
