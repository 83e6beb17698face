"""The models of trees that were grown all at once, each made on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from fedrelax.engines.trees.groups import Grove, Ready
from fedrelax.models import LocalModel, Rows
from fedrelax.models.trees.node import TreeNode
from fedrelax.runtime import Coupling
from fedrelax.typing import AnyArray, Label


class GrownModels(Mapping[Label, LocalModel]):
    """The local models of a grove, each made on demand and then cached."""

    def __init__(
        self,
        labels: tuple[Label, ...],
        ready: Ready,
        grove: Grove,
        public: AnyArray,
        coupling: Coupling,
    ) -> None:
        self._places = {label: place for place, label in enumerate(labels)}
        self._models, self._nodes, self._seeds = ready.models, ready.nodes, ready.seeds
        self._target, self._ends = ready.target, ready.own_ends
        self._grove, self._public, self._coupling = grove, public, coupling
        self._made: dict[Label, TreeNode] = {}

    def __getitem__(self, label: Label) -> TreeNode:
        if label not in self._made:
            self._made[label] = self._grown(self._places[label])
        return self._made[label]

    def _grown(self, i: int) -> TreeNode:
        taught, coupling = self._grove.taught, self._coupling
        target = self._target[self._ends[i] : self._ends[i + 1]]
        terms = [Rows(self._nodes[i].X, target, np.ones(len(target)), coupling.loss)]
        if taught is not None and self._grove.strength[i] > 0:
            weight = np.full(len(self._public), self._grove.strength[i])
            terms.append(Rows(self._public, taught[i], weight, coupling.discrepancy))
        return self._models[i].grown_on(terms, int(self._seeds[i]))

    def __iter__(self) -> Iterator[Label]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
