"""What pages, pictures, notebooks and tables show, of a saved result or of one just made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.evaluation import Evaluation, Measure, get_measure
from fedrelax.graph import Graph
from fedrelax.report.data.axis_labels import USUAL, axis_labels, loss_unit
from fedrelax.report.data.candidates import Candidate, candidates_of_choice, candidates_of_saved
from fedrelax.report.data.edges import EdgeTable, edges_of
from fedrelax.report.data.layout import Places, places
from fedrelax.report.data.rounding import short
from fedrelax.report.data.sharing import Sharing, sharing_of
from fedrelax.runtime import History
from fedrelax.selection import Choice
from fedrelax.solvers import Result
from fedrelax.storage import SavedResult
from fedrelax.storage.loading import history_of
from fedrelax.typing import FloatArray, Label

UNKNOWN = "units of the run's loss"
LONGEST_TARGET = 28


@dataclass(frozen=True, eq=False)
class ReportData:
    """One run. Values by node are in the order of the graph's nodes, of which some may have no model.

    What takes long for a large network is computed when it is first asked for.
    """

    graph: Graph
    models: Mapping[Label, str]
    """The kind of model of every node that has one."""
    history: History
    n_rounds: int
    """The round whose models were kept."""
    rewired: bool
    labels: Mapping[str, str]
    """The label of every axis."""
    measure: Measure
    evaluation: Evaluation | None
    nodes: Any
    """A DataFrame with a line per node and what was saved about it; None if nothing was."""
    candidates: Sequence[Candidate]
    stayed: Sequence[Label]
    """The nodes that kept the model of round 0."""
    sharing: Sharing | None
    """What left the nodes; known only for saved results."""
    edge_frame: Callable[[], Any]
    find_groups: Callable[[], Mapping[Label, int]]

    @cached_property
    def groups(self) -> Mapping[Label, int]:
        """The number of each node's group in a rewired graph; else empty."""
        return self.find_groups()

    def edges(self, most: int) -> EdgeTable:
        """Return all edges or, of too many, each node's strongest."""
        return edges_of(self.edge_frame(), self.graph.labels, most)

    def places(self, edges: EdgeTable) -> Places:
        """Return where the nodes are drawn."""
        return places_of(self.graph, edges)

    def column(self, name: str) -> list[Any] | None:
        """Return a saved column by node, None for nodes without a value; None if there is no column."""
        if self.nodes is None or name not in self.nodes:
            return None
        known = dict(zip(self.nodes["node"], self.nodes[name], strict=True))
        return [known.get(label) for label in self.graph.labels]

    def by_node(self, values: FloatArray) -> FloatArray:
        """Return values of the nodes with a model, NaN for the others."""
        place = {label: k for k, label in enumerate(self.history.labels)}
        at = np.array([place.get(label, -1) for label in self.graph.labels])
        return np.where(at >= 0, np.asarray(values)[at], np.nan)

    def alone(self, quantity: str) -> FloatArray:
        """Return "local_loss", "gtv" or "validation_loss" of every node before the first round."""
        return self.by_node(getattr(self.history.records[0], f"node_{quantity}"))

    def kept(self, quantity: str) -> FloatArray:
        """Return the same for the models that were kept; those of round 0 where a node stayed alone."""
        records = self.history.records
        last = getattr(records[min(self.n_rounds, len(records) - 1)], f"node_{quantity}")
        stayed = [label in self.stayed for label in self.graph.labels]
        return np.where(stayed, self.alone(quantity), self.by_node(last))


def report_data(
    source: Result | SavedResult, evaluation: Evaluation | None = None, choice: Choice | None = None
) -> ReportData:
    """Return what there is to show about a result; a saved one has its own evaluation and choice."""
    if isinstance(source, SavedResult):
        return _of_saved(source)
    _check(source, evaluation)
    losses = source.losses or (UNKNOWN, UNKNOWN)
    measure = get_measure(None, source.task.kind) if evaluation is None else evaluation.measure
    kinds = {label: model.name for label, model in source.local_models.items()}
    if evaluation is not None:
        named = dict(zip(evaluation.nodes["node"], evaluation.nodes["model"], strict=True))
        kinds |= {label: str(named[label]) for label in kinds if label in named}
    return ReportData(
        graph=source.graph,
        models=kinds,
        history=source.history,
        n_rounds=source.n_rounds,
        rewired=source.kept is not None,
        labels=_labels(losses, "target", measure),
        measure=measure,
        evaluation=evaluation,
        nodes=None if evaluation is None else evaluation.nodes,
        candidates=[] if choice is None else candidates_of_choice(choice),
        stayed=source.stayed,
        sharing=None,
        edge_frame=source.edges_to_frame,
        find_groups=lambda: {k: n for n, group in enumerate(source.clusters, 1) for k in group},
    )


def _of_saved(saved: SavedResult) -> ReportData:
    about, usual = saved.about, USUAL[saved.task.kind]
    losses = about.get("losses") or {"own_rows": usual, "edges": usual}
    evaluation = Evaluation.saved(saved.metrics, saved.nodes)
    measure = get_measure(None, saved.task.kind) if evaluation is None else evaluation.measure
    own = [line["node"] for line in saved.models]
    kinds = dict(zip(saved.nodes["node"], saved.nodes["model"], strict=True))
    return ReportData(
        graph=saved.graph,
        models={label: str(kinds[label]) for label in own},
        history=history_of(saved, own),
        n_rounds=about["rounds"],
        rewired=about["wiring"] != "fixed",
        labels=_labels((losses["own_rows"], losses["edges"]), target_of(saved), measure),
        measure=measure,
        evaluation=evaluation,
        nodes=saved.nodes,
        candidates=candidates_of_saved(saved),
        stayed=saved.metrics.get("stayed_alone", ()),
        sharing=sharing_of(saved),
        edge_frame=lambda: saved.edges,
        find_groups=lambda: dict(
            zip(saved.nodes["node"], saved.nodes.get("cluster", ()), strict=False)
        ),
    )


def target_of(saved: SavedResult) -> str:
    """Return the name of what is predicted, short enough for an axis."""
    return short(saved.about.get("target_column") or "the target", LONGEST_TARGET)


def places_of(graph: Graph, edges: EdgeTable) -> Places:
    """Return where the nodes of a graph are drawn: at their positions, or near those they agree with."""
    return places(graph.positions, graph.geographic, *edges.for_layout(), len(graph))


def _labels(losses: Sequence[str], target: str, measure: Measure) -> dict[str, str]:
    own, across = (loss_unit(name, target) for name in losses)
    return axis_labels(own, across, measure, target)


def _check(result: Result, evaluation: Evaluation | None) -> None:
    if evaluation is None:
        return
    if not isinstance(evaluation, Evaluation):
        raise FedRelaxError(
            f"evaluation is a {type(evaluation).__name__}; pass what fedrelax.evaluation.evaluate "
            "returns"
        )
    known = set(evaluation.nodes["node"])
    missing = [label for label in result.graph.labels if label not in known]
    if missing:
        raise FedRelaxError(f"evaluation has no line for node {missing[0]!r}")
