"""The trees of all nodes: rows packed once, trees grown in every round, models made on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fedrelax.models import Rows, Task
from fedrelax.models.trees import TreeNode
from fedrelax.models.trees.rules import Rules
from fedrelax.network import Network, Node
from fedrelax.runtime import Coupling
from fedrelax.typing import AnyArray, FloatArray, IntArray, Label


class Grove(NamedTuple):
    """The trees of all nodes: what they were grown on besides own rows, and their answers."""

    taught: FloatArray | None
    """Targets on the public rows, (nodes, rows, outputs), or None for trees grown alone."""
    strength: FloatArray
    """The weight of a public row at each node."""
    own: FloatArray
    public: FloatArray
    held: FloatArray
    """Answers on own rows and on validation rows, one node after the other, and on public rows."""


class Ready(NamedTuple):
    """A network with its rows sorted once, for all runs on it."""

    nodes: list[Node]
    models: list[TreeNode]
    seeds: IntArray
    groups: list[Group]
    own_ends: IntArray
    held_ends: IntArray
    target: FloatArray
    held_target: FloatArray

    @classmethod
    def of(cls, network: Network, models: list[TreeNode], seeds: IntArray) -> Ready:
        """Sort the rows of every node."""
        nodes, task = list(network), network.task
        public = network.public.common
        assert public is not None
        own_ends = _ends([len(node.X) for node in nodes])
        held_ends = _ends([0 if n.validation is None else len(n.validation[0]) for n in nodes])
        by_rules: dict[Rules, list[int]] = {}
        for place, model in enumerate(models):
            by_rules.setdefault(model.rules(public.shape[1]), []).append(place)
        groups = [
            Group(rules, places, nodes, models, seeds, public, task, own_ends, held_ends)
            for rules, places in by_rules.items()
        ]
        held = [task.encode(node.validation[1]) for node in nodes if node.validation is not None]
        return cls(
            nodes=nodes,
            models=models,
            seeds=seeds,
            groups=groups,
            own_ends=own_ends,
            held_ends=held_ends,
            target=np.concatenate([task.encode(node.y) for node in nodes]),
            held_target=np.concatenate(held) if held else np.empty((0, task.n_outputs)),
        )

    def grow(self, taught: FloatArray | None, strength: FloatArray, rows: int) -> Grove:
        """Grow every node's trees on its own rows and ``rows`` public rows."""
        n, outputs = len(self.nodes), self.target.shape[1]
        own = np.empty((self.own_ends[-1], outputs))
        held = np.empty((self.held_ends[-1], outputs))
        public = np.empty((n, rows, outputs))
        for group in self.groups:
            found = group.grow(taught, strength)
            own[group.own_rows] = found[group.own]
            held[group.held_rows] = found[group.held]
            public[group.places] = found[group.public]
        return Grove(taught, strength, own, public, held)


class Group:
    """The nodes that share one set of rules."""

    def __init__(
        self,
        rules: Rules,
        places: Sequence[int],
        nodes: Sequence[Node],
        models: Sequence[TreeNode],
        seeds: IntArray,
        public: AnyArray,
        task: Task,
        own_ends: IntArray,
        held_ends: IntArray,
    ) -> None:
        from fedrelax.models.trees.batch import pack
        from fedrelax.models.trees.estimators import Problem

        silent, unheard = np.zeros((len(public), task.n_outputs)), np.zeros(len(public))
        problems = []
        for place in places:
            node = nodes[place]
            held = () if node.validation is None else (node.validation[0],)
            problems.append(
                Problem(
                    [node.X, public],
                    [task.encode(node.y), silent],
                    [np.ones(len(node.X)), unheard],
                    models[place].seed_from(int(seeds[place])),
                    (node.X, public, *held),
                )
            )
        self.rules, self.places = rules, np.array(places)
        self._packed = pack(problems)
        asked = self._packed.asked
        self.own = _joined([rows[0] for rows in asked])
        self.public = _joined([rows[1] for rows in asked]).reshape(len(places), len(public))
        self.held = _joined([rows[2] for rows in asked if len(rows) > 2])
        self.own_rows = _joined([slice(*own_ends[i : i + 2]) for i in places])
        self.held_rows = _joined([slice(*held_ends[i : i + 2]) for i in places])

    def grow(self, taught: FloatArray | None, strength: FloatArray) -> FloatArray:
        """Return the answers on all rows, node by node."""
        from fedrelax.models.trees.batch import answers_of

        packed = self._packed
        if taught is not None:
            target, weight = packed.target.copy(), packed.weight.copy()
            target[self.public] = taught[self.places]
            weight[self.public] = strength[self.places, None]
            packed = packed._replace(target=target, weight=weight)
        return answers_of(self.rules, packed)


def _ends(counts: Sequence[int]) -> IntArray:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _joined(parts: Sequence[slice]) -> IntArray:
    """Return the concatenated numbers of several ranges."""
    if not parts:
        return np.empty(0, dtype=np.int64)
    return np.concatenate([np.arange(part.start, part.stop) for part in parts])


def grown(
    models: Sequence[TreeNode],
    nodes: Sequence[Node],
    seeds: IntArray,
    grove: Grove,
    public: AnyArray,
    coupling: Coupling,
    place: Mapping[Label, int],
    label: Label,
) -> TreeNode:
    """Return a node's trees of a grove as a local model."""
    i = place[label]
    target = models[i].task.encode(nodes[i].y)
    terms = [Rows(nodes[i].X, target, np.ones(len(target)), coupling.loss)]
    if grove.taught is not None and grove.strength[i] > 0:
        weight = np.full(len(public), grove.strength[i])
        terms.append(Rows(public, grove.taught[i], weight, coupling.discrepancy))
    return models[i].grown_on(terms, int(seeds[i]))
