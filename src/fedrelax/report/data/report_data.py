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
from fedrelax.report.data.layout import EdgeTable
from fedrelax.report.data.rounding import short
from fedrelax.runtime import History
from fedrelax.solvers import Result
from fedrelax.storage import SavedResult
from fedrelax.storage.loading import history_of
from fedrelax.typing import DataFrame, FloatArray, Label

USUAL = {"regression": "squared", "classification": "log"}


def axis_labels(
    own: str, across: str = "", measure: Measure | None = None, target: str = ""
) -> dict[str, str]:
    """Return the label of every quantity.

    ``own`` and ``across`` are the units of the losses on own rows and across edges, or empty.
    Errors are labelled only if a ``measure`` is given.

    >>> found = axis_labels("squared error, temp²")
    >>> found["validation"], found["discrepancy"]
    ('validation loss (squared error, temp²)', 'discrepancy')
    """
    own, across = (f" ({unit})" if unit else "" for unit in (own, across))
    errors = {}
    if measure is not None:
        saved = f"reduction in error ({measure.gap_axis(target)})"
        errors = {"error": measure.axis(target), "saved": saved}
    return {
        **errors,
        "gain": "gain against alone (% of the error alone)",
        "loss": f"mean loss on own rows{own}",
        "gtv": f"GTV: weight x discrepancy over edges{across}",
        "disagreement": f"disagreement, weight x discrepancy{across}",
        "objective": f"objective, sum over nodes{own}",
        "validation": f"validation loss{own}",
        "discrepancy": f"discrepancy{across}",
        "weight": "edge weight (no unit)",
        "round": "round (0: each node alone)",
        "alpha": "alpha (no unit)",
        "rows": "training rows",
    }


def loss_unit(loss: str, target: str) -> str:
    """Return the unit of a loss.

    >>> loss_unit("squared", "temp"), loss_unit("log", "digit"), loss_unit("mine", "y")
    ('squared error, temp²', 'log loss, nats', 'mine')
    """
    units = {
        "squared": f"squared error, {target}²",
        "absolute": f"absolute error, {target}",
        "huber": f"Huber loss, {target}² near 0",
        "log": "log loss, nats",
    }
    return units.get(loss, loss)


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
    nodes: DataFrame | None
    """A line per node and what was saved about it; None if nothing was."""
    stayed: Sequence[Label]
    """The nodes that kept the model of round 0."""
    saved: SavedResult | None
    """The result that this is about, if it is saved."""
    edge_frame: Callable[[], DataFrame]
    find_groups: Callable[[], Mapping[Label, int]]

    @cached_property
    def groups(self) -> Mapping[Label, int]:
        """The number of each node's group in a rewired graph; else empty."""
        return self.find_groups()

    def edges(self, most: int) -> EdgeTable:
        """Return all edges or, of too many, each node's strongest."""
        frame, number = self.edge_frame(), {label: k for k, label in enumerate(self.graph.labels)}
        sides = [[number[label] for label in frame[name]] for name in ("source", "target")]
        names = ("weight", "used", "discrepancy", "discrepancy_back")
        columns = (frame[name].to_numpy(float) for name in names)
        ends = np.array(sides, dtype=np.int64).T
        return EdgeTable.strongest(ends, *columns, nodes=len(number), most=most)

    def column(self, name: str) -> list[Any] | None:
        """Return a saved column by node, None for nodes without a value; None if there is no column."""
        if self.nodes is None or name not in self.nodes:
            return None
        by_label = dict(zip(self.nodes["node"], self.nodes[name], strict=True))
        return [by_label.get(label) for label in self.graph.labels]

    def by_node(self, values: FloatArray) -> FloatArray:
        """Return values of the nodes with a model, NaN for the others."""
        number = {label: k for k, label in enumerate(self.history.labels)}
        at = np.array([number.get(label, -1) for label in self.graph.labels])
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


def report_data(source: Result | SavedResult, evaluation: Evaluation | None = None) -> ReportData:
    """Return what there is to show about a result; a saved one has its own evaluation."""
    kind = source.task.kind
    if isinstance(source, SavedResult):
        about, nodes, target = source.about, source.nodes, target_of(source)
        evaluation = Evaluation.saved(source.metrics, nodes)
        losses = about["losses"] or (USUAL[kind], USUAL[kind])
        kinds = dict(zip(nodes["node"], nodes["model"], strict=True))
        own = [line["node"] for line in source.models]
        groups = nodes.get("cluster", ())
        rest: dict[str, Any] = {
            "nodes": nodes,
            "models": {label: str(kinds[label]) for label in own},
            "history": history_of(source, own),
            "n_rounds": about["rounds"],
            "rewired": about["wiring"] != "fixed",
            "stayed": source.metrics.get("stayed_alone", ()),
            "saved": source,
            "edge_frame": lambda: source.edges,
            "find_groups": lambda: dict(zip(nodes["node"], groups, strict=False)),
        }
    else:
        if evaluation is not None:
            _check(source, evaluation)
        nodes, target = None if evaluation is None else evaluation.nodes, "target"
        losses = source.losses or (UNKNOWN, UNKNOWN)
        kinds = {} if nodes is None else dict(zip(nodes["node"], nodes["model"], strict=True))
        local = source.local_models
        rest = {
            "nodes": nodes,
            "models": {label: str(kinds.get(label, local[label].name)) for label in local},
            "history": source.history,
            "n_rounds": source.n_rounds,
            "rewired": source.kept is not None,
            "stayed": source.stayed,
            "saved": None,
            "edge_frame": source.edges_to_frame,
            "find_groups": lambda: {k: n for n, g in enumerate(source.clusters, 1) for k in g},
        }
    measure = get_measure(None, kind) if evaluation is None else evaluation.measure
    own_unit, across = (loss_unit(name, target) for name in losses)
    labels = axis_labels(own_unit, across, measure, target)
    return ReportData(source.graph, labels=labels, measure=measure, evaluation=evaluation, **rest)


def target_of(saved: SavedResult) -> str:
    """Return the name of what is predicted, short enough for an axis."""
    return short(saved.about.get("target_column") or "the target", LONGEST_TARGET)


def _check(result: Result, evaluation: Evaluation) -> None:
    if not isinstance(evaluation, Evaluation):
        raise FedRelaxError(
            f"evaluation is a {type(evaluation).__name__}; pass what fedrelax.evaluation.evaluate "
            "returns"
        )
    measured = set(evaluation.nodes["node"])
    missing = [label for label in result.graph.labels if label not in measured]
    if missing:
        raise FedRelaxError(f"evaluation has no line for node {missing[0]!r}")
