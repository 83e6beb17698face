"""A living network as a result: made only on request, as it takes work for the whole network."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace

import numpy as np
from scipy import sparse

from fedrelax.engines.batch import discrepancies
from fedrelax.graph import Graph
from fedrelax.living.network import LivingNetwork, Near
from fedrelax.runtime import History
from fedrelax.runtime.history import TOTALS, columns_of, records_of
from fedrelax.solvers.base import EdgeValues, Result
from fedrelax.typing import FloatArray, Label


def result_of(network: LivingNetwork) -> tuple[Result, Graph]:
    """Return the network as it is now, and its graph including nodes that have no rows."""
    labels, kept = tuple(network.models), network.result.kept
    # Newcomers are in the graph that counts as given, with the neighbours they came with.
    names = [label for label in network.graph.labels if label not in network.left]
    names += [label for label in network.given if label not in network.graph]
    whole = with_edges(network.graph, tuple(names), network.given, network.positions)
    graph = whole if whole.labels == labels else whole.subgraph(labels)
    if kept is not None:
        changed = {}
        for label, near in network.links.present_changes.items():
            before = kept.neighbours(label) if label in kept else {}
            changed[label] = dict.fromkeys(before, 0.0) | near
        kept = with_edges(kept, labels, changed, network.positions)
    said, coupling, task = copy(network.said), network.coupling, network.task

    def distances() -> FloatArray:
        answers, edges = np.stack([said[label] for label in labels]), graph.adjacency
        loss, classes = coupling.discrepancy, task.is_classification
        return discrepancies(edges, answers, answers, loss, coupling.level, classes)

    result = replace(
        network.result,
        local_models=copy(network.models),
        alone=copy(network.alone),
        graph=graph,
        kept=kept,
        stayed=tuple(label for label in labels if label in network.stayed),
        history=history_of(network.result.history, labels),
        discrepancies=EdgeValues(graph, distances),
    )
    return result, whole


def with_edges(
    graph: Graph,
    labels: tuple[Label, ...],
    edges: Mapping[Label, Near],
    positions: Mapping[Label, FloatArray],
) -> Graph:
    """Return the graph on ``labels`` with new weights of some edges, 0 for none.

    Newcomers without a known position have NaN.
    """
    place = {label: k for k, label in enumerate(labels)}
    gone = [label for label in graph.labels if label not in place]
    old = graph.with_labels([*labels, *gone]).subgraph(labels)
    new = {}
    for label, near in edges.items():
        for other, weight in near.items():
            if label in place and other in place:
                new[place[label], place[other]] = new[place[other], place[label]] = weight
    ends = np.array(list(new), dtype=np.int64).reshape(-1, 2).T
    shape, before = old.adjacency.shape, old.adjacency
    replaced = before.multiply(sparse.csr_array((np.ones(len(new)), ends), shape=shape))
    matrix = before - replaced + sparse.csr_array((list(new.values()), ends), shape=shape)
    points = None
    if old.positions is not None:
        known = zip(labels, old.positions, strict=True)
        points = np.array([positions.get(label, point) for label, point in known])
    return Graph(matrix, labels, points, graph.geographic)


def history_of(history: History, labels: tuple[Label, ...]) -> History:
    """Return the rounds of training for the current nodes; a newcomer was in none of them (NaN)."""
    if history.labels == labels or not len(history):
        return replace(history, labels=labels)
    place = {label: k for k, label in enumerate(history.labels)}
    at = np.array([place.get(label, -1) for label in labels])
    columns = columns_of(history)
    for name in columns.keys() - {*TOTALS}:
        columns[name] = np.where(at >= 0, np.asarray(columns[name], dtype=float)[:, at], np.nan)
    return History(labels, records_of(columns, len(labels)))
