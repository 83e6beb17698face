"""Validation losses of candidates, and what they tell apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fedrelax.network import Network
from fedrelax.solvers import Result
from fedrelax.typing import AnyArray, FloatArray, Label

GROUPS = 200
"""Losses of nodes are kept in at most so many groups, from which standard errors are taken."""
ENOUGH = 20
"""Held-out rows that a node needs to decide for itself."""
SURE = 2.0
"""Standard errors that a node must do better alone to stay so: they come from few folds."""

Place = tuple[int, int]
"""A candidate and a round."""


class Losses:
    """The losses of every candidate after every round, on each fold's held-out rows.

    ``counts`` (folds, nodes) has the number of held-out rows. With ``ends`` only the first and the last
    round of single nodes are kept. A node that has no row to train on in a fold is not in it;
    ``places`` then says which nodes are.
    """

    def __init__(
        self,
        labels: Sequence[Label],
        counts: AnyArray,
        rounds: int,
        ends: bool = False,
        places: Sequence[Any] | None = None,
    ) -> None:
        n = len(labels)
        self.labels, self.counts = labels, counts
        self._places = [slice(None)] * len(counts) if places is None else places
        self.rounds = rounds
        self._group = np.arange(n) % GROUPS
        self._n_groups = min(n, GROUPS)
        self._rows = self._by_group(self.counts.sum(axis=0))
        self._kept = [0, rounds] if ends else list(range(rounds + 1))
        self._sums: list[FloatArray] = []
        self._nodes: list[FloatArray] = []

    @classmethod
    def of(cls, folds: Sequence[Network], rounds: int, ends: bool = False) -> Losses:
        """Return what is to hold the losses of runs on these folds."""
        labels = folds[0].labels
        if any(fold.labels != labels for fold in folds):
            labels = tuple(dict.fromkeys(label for fold in folds for label in fold.labels))
        place = {label: i for i, label in enumerate(labels)}
        places: list[Any] = [
            slice(None) if fold.labels == labels else np.array([place[i] for i in fold.labels])
            for fold in folds
        ]
        counts = np.zeros((len(folds), len(labels)), dtype=np.int64)
        for count, where, fold in zip(counts, places, folds, strict=True):
            held = fold.validation_rows
            count[where] = 0 if held is None else held.counts
        return cls(labels, counts, rounds, ends, places)

    def __len__(self) -> int:
        return len(self._sums)

    def append(self, runs: Iterable[Result]) -> None:
        """Add a candidate: one run per fold. A run that has settled keeps its last losses."""
        sums = np.zeros((self.rounds + 1, self._n_groups))
        nodes = np.full((len(self.counts), len(self._kept), self.counts.shape[1]), np.nan)
        for fold, (run, counts) in enumerate(zip(runs, self.counts, strict=True)):
            records = run.history.records
            for round in range(self.rounds + 1):
                losses = np.full(self.counts.shape[1], np.nan)
                last = records[min(round, len(records) - 1)]
                losses[self._places[fold]] = last.node_validation_loss
                sums[round] += self._by_group(np.where(counts > 0, counts * losses, 0.0))
                if round in self._kept:
                    nodes[fold, self._kept.index(round)] = losses
        self._sums.append(sums)
        self._nodes.append(nodes.astype(np.float32))

    def append_still(self, losses: Sequence[FloatArray]) -> None:
        """Add a way without rounds: the mean losses of each fold's nodes, in its order."""
        sums = np.zeros(self._n_groups)
        nodes = np.full((len(self.counts), len(self._kept), self.counts.shape[1]), np.nan)
        for fold, (own, counts) in enumerate(zip(losses, self.counts, strict=True)):
            every = np.full(self.counts.shape[1], np.nan)
            every[self._places[fold]] = own
            sums += self._by_group(np.where(counts > 0, counts * every, 0.0))
            nodes[fold] = every
        self._sums.append(np.tile(sums, (self.rounds + 1, 1)))
        self._nodes.append(nodes.astype(np.float32))

    def _by_group(self, values: AnyArray) -> FloatArray:
        return np.bincount(self._group, values, minlength=self._n_groups).astype(float)

    @property
    def means(self) -> FloatArray:
        """The mean loss over all held-out rows, (candidates, rounds + 1)."""
        return np.asarray(np.sum(self._sums, axis=2) / self._rows.sum())

    def standard_error(self, one: Place, other: Place) -> float:
        """Return that of the difference of two mean losses, over groups of nodes; 0 for one group."""
        if self._n_groups < 2:
            return 0.0
        gap = self._sums[one[0]][one[1]] - self._sums[other[0]][other[1]]
        rest = gap - self._rows * gap.sum() / self._rows.sum()
        size = self._n_groups / (self._n_groups - 1)
        return float(np.sqrt(size * np.square(rest).sum()) / self._rows.sum())

    def better_alone(self, place: Place) -> AnyArray:
        """Tell which nodes have a clearly smaller loss alone than at this candidate and round.

        The standard error of a node's own difference is taken over the folds.
        """
        together = self._nodes[place[0]][:, self._kept.index(place[1])]
        gap = np.where(self.counts > 0, together - self._nodes[0][:, 0], 0.0)
        rows = self.counts.sum(axis=0)
        folds = (self.counts > 0).sum(axis=0)
        mean = (self.counts * gap).sum(axis=0) / np.maximum(rows, 1)
        rest = np.square(self.counts * (gap - mean)).sum(axis=0)
        error = np.sqrt(rest * folds / np.maximum(folds - 1, 1)) / np.maximum(rows, 1)
        return np.asarray((rows >= ENOUGH) & (folds >= 3) & (mean > SURE * error) & (mean > 0))
