"""A living network as a result: made only on request, as it takes work for the whole network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fedrelax.engines.answers import discrepancies
from fedrelax.graph import Graph
from fedrelax.living.network import LivingNetwork
from fedrelax.living.overlay import GONE, Near, assembled
from fedrelax.runtime import History, Record
from fedrelax.solvers import Result
from fedrelax.solvers.edges import EdgeValues
from fedrelax.typing import FloatArray, Label


class Later(Mapping[tuple[Label, Label], float]):
    """Discrepancies that are computed when the first is asked for."""

    def __init__(self, make: Callable[[], Mapping[tuple[Label, Label], float]]) -> None:
        self._make = make
        self._made: Mapping[tuple[Label, Label], float] | None = None

    @property
    def _all(self) -> Mapping[tuple[Label, Label], float]:
        if self._made is None:
            self._made = self._make()
        return self._made

    def __getitem__(self, edge: tuple[Label, Label]) -> float:
        return self._all[edge]

    def __iter__(self) -> Iterator[tuple[Label, Label]]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self._all),)


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
        discrepancies=Later(lambda: _discrepancies(network, graph, said)),
    )
    return result, whole


def whole_graph_of(network: LivingNetwork) -> Graph:
    """Return the graph that counts as given: newcomers are in it with the neighbours they came with."""
    gone = {label for label, value in network.numbers.changed.items() if value is GONE}
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

    def taken(values: FloatArray) -> FloatArray:
        return np.where(at >= 0, np.asarray(values, dtype=float)[at], np.nan)

    records = [
        replace(
            record,
            node_local_loss=taken(record.node_local_loss),
            node_gtv=taken(record.node_gtv),
            node_validation_loss=taken(record.node_validation_loss),
        )
        for record in history.records
    ]
    return History(labels, list[Record](records))


def _discrepancies(
    network: LivingNetwork, graph: Graph, said: Mapping[Label, FloatArray]
) -> EdgeValues:
    answers = np.stack([said[label] for label in graph.labels])
    coupling = network.coupling
    values = discrepancies(
        graph.adjacency,
        answers,
        answers,
        coupling.discrepancy,
        coupling.level,
        network.task.is_classification,
    )
    return EdgeValues(graph, values)
