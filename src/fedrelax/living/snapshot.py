"""A living network as a result: made only on request, as it takes work for the whole network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fedrelax.engines.answers import discrepancies
from fedrelax.graph import Graph
from fedrelax.living.network import LivingNetwork
from fedrelax.living.overlay import GONE, Near, assembled
from fedrelax.runtime import History, Record
from fedrelax.solvers.base import EdgeValues, Result
from fedrelax.typing import FloatArray, Label


def result_of(network: LivingNetwork) -> tuple[Result, Graph]:
    """Return the network as it is now, and its graph including nodes that have no rows."""
    labels = tuple(network.models)
    whole = whole_graph_of(network)
    graph = whole if whole.labels == labels else whole.subgraph(labels)
    kept = None
    if network.result.kept is not None:
        changed = {i: near for i, near in network.links.changed.items() if near is not GONE}
        kept = assembled(network.result.kept, changed, labels, network.positions)
    said = network.said.frozen()
    result = replace(
        network.result,
        local_models=network.models.frozen(),
        alone=network.alone.frozen(),
        graph=graph,
        kept=kept,
        stayed=tuple(label for label in labels if label in network.stayed),
        history=history_of(network.result.history, labels),
        discrepancies=EdgeValues(graph, partial(_discrepancies, network, graph, said)),
    )
    return result, whole


def whole_graph_of(network: LivingNetwork) -> Graph:
    """Return the graph that counts as given: newcomers are in it with the neighbours they came with."""
    gone = network.left
    labels = [label for label in network.graph.labels if label not in gone]
    known = set(labels)
    labels += [label for label in network.given if label not in known]
    changed: dict[Label, Near] = {}
    for label, near in network.given.items():
        if label in network.graph:
            changed.setdefault(label, {}).update(network.graph.neighbours(label))
        changed.setdefault(label, {}).update(near)
        for other, weight in near.items():
            if other not in changed:
                first = network.graph.neighbours(other) if other in network.graph else {}
                changed[other] = dict(first)
            changed[other][label] = weight
    return assembled(network.graph, changed, tuple(labels), network.positions)


def history_of(history: History, labels: tuple[Label, ...]) -> History:
    """Return the rounds of training for the current nodes; a newcomer was in none of them (NaN)."""
    if history.labels == labels:
        return history
    place = {label: k for k, label in enumerate(history.labels)}
    at = np.array([place.get(label, -1) for label in labels])

    def taken(record: Record) -> dict[str, Any]:
        names = ("node_local_loss", "node_gtv", "node_validation_loss")
        values = {name: np.asarray(getattr(record, name), dtype=float) for name in names}
        return {name: np.where(at >= 0, own[at], np.nan) for name, own in values.items()}

    records = [replace(record, **taken(record)) for record in history.records]
    return History(labels, records)


def _discrepancies(
    network: LivingNetwork, graph: Graph, said: Mapping[Label, FloatArray]
) -> FloatArray:
    answers = np.stack([said[label] for label in graph.labels])
    coupling, classes = network.coupling, network.task.is_classification
    edges, loss = graph.adjacency, coupling.discrepancy
    return discrepancies(edges, answers, answers, loss, coupling.level, classes)
