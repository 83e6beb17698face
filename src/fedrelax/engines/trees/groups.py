"""Nodes whose trees grow by the same rules: packed once, grown in every round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedrelax.models import Task
from fedrelax.models.trees.node import TreeNode
from fedrelax.models.trees.rules import Rules
from fedrelax.models.trees.settings import is_forest, known_rules
from fedrelax.network import Network, Node
from fedrelax.typing import AnyArray, FloatArray, IntArray


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
        held_ends = _ends([_held_count(node) for node in nodes])
        by_rules: dict[tuple[Rules, bool], list[int]] = {}
        for place, model in enumerate(models):
            template = model.template
            rules = known_rules(template, public.shape[1])
            assert rules is not None
            by_rules.setdefault((rules, is_forest(template)), []).append(place)
        groups = [
            Group(rules, forest, places, nodes, models, seeds, public, task, own_ends, held_ends)
            for (rules, forest), places in by_rules.items()
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
    """The nodes that share one set of rules.

    The targets of all own rows come first, then those of the public rows, node by node, so that a
    round only has to append its new targets.
    """

    def __init__(
        self,
        rules: Rules,
        forest: bool,
        places: Sequence[int],
        nodes: Sequence[Node],
        models: Sequence[TreeNode],
        seeds: IntArray,
        public: AnyArray,
        task: Task,
        own_ends: IntArray,
        held_ends: IntArray,
    ) -> None:
        from fedrelax.models.trees.batch import Problem, pack
        from fedrelax.models.trees.blocks import Sorted

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
        packed = pack(rules, forest, problems, Sorted())
        self.own = _joined([asked[0] for asked in packed.asked])
        self.held = _joined([asked[2] for asked in packed.asked if len(asked) > 2])
        self.public = _side_by_side([asked[1].start for asked in packed.asked], len(public))
        self.own_rows = _rows_of(own_ends, self.places)
        self.held_rows = _rows_of(held_ends, self.places)
        self._own_target = np.concatenate([problem.target[0] for problem in problems])
        own, first = len(self._own_target), packed.used_ends[:-1]
        sources = packed.sources.copy()
        sources[first] = _ends([len(problem.X[0]) for problem in problems])[:-1]
        sources[first + 1] = own + np.arange(len(places)) * len(public)
        self._packed = packed._replace(sources=sources, target=np.empty(0), weight=np.empty(0))

    def grow(self, taught: FloatArray | None, strength: FloatArray) -> FloatArray:
        """Return the answers on all rows, node by node."""
        from fedrelax.models.trees.batch import answers_of

        rows, outputs = self.public.size, self._own_target.shape[1]
        if taught is None:
            heard: FloatArray = np.zeros((rows, outputs))
        else:
            heard = taught if len(self.places) == len(taught) else taught[self.places]
        own = np.ones(len(self._own_target))
        packed = self._packed._replace(
            target=np.concatenate([self._own_target, heard.reshape(rows, outputs)]),
            weight=np.concatenate([own, np.repeat(strength[self.places], self.public.shape[1])]),
        )
        return answers_of(self.rules, packed)


def _held_count(node: Node) -> int:
    return 0 if node.validation is None else len(node.validation[0])


def _ends(counts: Sequence[int]) -> IntArray:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _rows_of(ends: IntArray, places: IntArray) -> IntArray:
    return _joined([slice(ends[place], ends[place + 1]) for place in places])


def _joined(parts: Sequence[slice]) -> IntArray:
    """Return the concatenated numbers of several ranges."""
    if not parts:
        return np.empty(0, dtype=np.int64)
    return np.concatenate([np.arange(part.start, part.stop) for part in parts])


def _side_by_side(starts: Sequence[int] | IntArray, rows: int) -> IntArray:
    return np.asarray(np.asarray(starts, dtype=np.int64)[:, None] + np.arange(rows))
