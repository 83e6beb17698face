"""Validation losses of candidates, and which of their differences are clear."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from fedrelax.network import Network
from fedrelax.runtime import History
from fedrelax.typing import AnyArray, FloatArray, Label

GROUPS = 200
"""Nodes' losses are summed in at most this many groups, from which standard errors are computed."""
ENOUGH = 20
"""Held-out rows that a node needs to decide for itself."""
SURE = 2.0
"""Standard errors by which a node must do better alone to stay alone; they come from few folds."""
BEHIND, FEWEST = 2.0, 8
"""Standard errors by which a candidate is clearly behind, and the fewest groups that can tell."""

Place = tuple[int, int]
"""A candidate and a round."""


class Recorded(Protocol):
    """A run with the measures of every round: a result, or the outcome of a loop."""

    @property
    def history(self) -> History:
        """The measures of every round."""


class Losses:
    """The losses of every candidate after every round, on each fold's held-out rows.

    ``counts`` (folds, nodes) has the number of held-out rows. With ``ends``, losses of single nodes are
    kept for the first and the last round only. A node that has no row to train on in a fold is not in
    it; ``places`` then says which nodes are. A candidate, or line, may have been tried on the first
    folds only; ``used`` is the number of folds that count.
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
        self.rounds, self.used = rounds, len(counts)
        self._group = np.arange(n) % GROUPS
        self._n_groups = min(n, GROUPS)
        self._rows = np.array([self._by_group(count) for count in counts])
        self._kept = [0, rounds] if ends else list(range(rounds + 1))
        self._sums: list[list[FloatArray]] = []
        self._nodes: list[list[AnyArray]] = []

    @classmethod
    def of(cls, folds: Sequence[Network], rounds: int, ends: bool = False) -> Losses:
        """Return an empty object for the losses of runs on these folds."""
        labels = tuple(dict.fromkeys(label for fold in folds for label in fold.labels))
        place = {label: i for i, label in enumerate(labels)}
        places = [np.array([place[label] for label in fold.labels]) for fold in folds]
        counts = np.zeros((len(folds), len(labels)), dtype=np.int64)
        for count, where, fold in zip(counts, places, folds, strict=True):
            held = fold.validation_rows
            count[where] = 0 if held is None else held.counts
        return cls(labels, counts, rounds, ends, places)

    def __len__(self) -> int:
        return len(self._sums)

    # Adding

    def new(self) -> int:
        """Add a candidate without losses; return its line."""
        self._sums.append([])
        self._nodes.append([])
        return len(self) - 1

    def record(self, line: int, run: Recorded) -> None:
        """Add a candidate's run on its next fold. A run that ended early keeps its last losses."""
        records = run.history.records
        last = len(records) - 1
        rounds = [
            records[min(round, last)].node_validation_loss for round in range(self.rounds + 1)
        ]
        self._add(line, np.array(rounds))

    def append(self, runs: Iterable[Recorded]) -> None:
        """Add a candidate: one run per fold."""
        line = self.new()
        for run in runs:
            self.record(line, run)

    def append_still(self, losses: Sequence[FloatArray]) -> None:
        """Add a candidate without rounds: for each fold, its nodes' mean losses."""
        line = self.new()
        for own in losses:
            self._add(line, np.tile(own, (self.rounds + 1, 1)))

    def _add(self, line: int, losses: FloatArray) -> None:
        """Add the losses (rounds + 1, nodes of the fold) of a candidate on its next fold."""
        fold = self.tried(line)
        counts = self.counts[fold]
        every = np.full((len(losses), len(counts)), np.nan)
        every[:, self._places[fold]] = losses
        sums = np.where(counts > 0, counts * every, 0.0)
        self._sums[line].append(np.array([self._by_group(row) for row in sums]))
        self._nodes[line].append(every[self._kept].astype(np.float32))

    def _by_group(self, values: AnyArray) -> FloatArray:
        return np.bincount(self._group, values, minlength=self._n_groups).astype(float)

    # Judging

    def tried(self, line: int) -> int:
        """Return on how many folds a candidate was tried."""
        return len(self._sums[line])

    @property
    def complete(self) -> AnyArray:
        """Which candidates were tried on all folds that count."""
        return np.array([self.tried(line) >= self.used for line in range(len(self))], dtype=bool)

    def _mean(self, line: int, folds: int) -> FloatArray:
        """Return the mean loss of a candidate after every round, over rows of the first folds."""
        return np.asarray(np.sum(self._sums[line][:folds], axis=(0, 2)) / self._rows[:folds].sum())

    @property
    def means(self) -> FloatArray:
        """The mean loss over all held-out rows, (candidates, rounds + 1).

        A candidate that was not tried on all folds has the best one's loss plus its distance from that
        on the folds that it was tried on.
        """
        complete = self.complete
        means = np.full((len(self), self.rounds + 1), np.inf)
        for line in np.flatnonzero(complete).tolist():
            means[line] = self._mean(line, self.used)
        if complete.all() or not complete.any():
            return means
        best, round = np.unravel_index(np.nanargmin(means), means.shape)
        for line in np.flatnonzero(~complete).tolist():
            folds = self.tried(line)
            if folds:
                apart = self._mean(line, folds) - self._mean(int(best), folds)[round]
                means[line] = means[best, round] + apart
        return means

    def standard_error(self, one: Place, other: Place, folds: int | None = None) -> float:
        """Return it for the difference of two mean losses, over groups of nodes; 0 for one group."""
        if self._n_groups < 2:
            return 0.0
        folds = self.used if folds is None else folds
        rows = self._rows[:folds].sum(axis=0)
        one_sum, other_sum = (
            np.sum([sums[round] for sums in self._sums[line][:folds]], axis=0)
            for line, round in (one, other)
        )
        gap = one_sum - other_sum
        rest = gap - rows * gap.sum() / rows.sum()
        size = self._n_groups / (self._n_groups - 1)
        return float(np.sqrt(size * np.square(rest).sum()) / rows.sum())

    def behind(self, lines: Sequence[int], folds: int) -> list[int]:
        """Return which of the candidates are not worth another fold after the first ones.

        These are the worse half, and those clearly behind the best. Each is judged by its best round, so
        that none is dropped for a round that would not be chosen. With few nodes, none is dropped.
        """
        if self._n_groups < FEWEST:
            return []
        known = [line for line in range(len(self)) if self.tried(line) >= folds]
        means = {line: self._mean(line, folds) for line in known}
        places = {line: (line, int(np.nanargmin(means[line]))) for line in known}
        ranked = sorted(known, key=lambda line: means[line][places[line][1]])
        best = places[ranked[0]]
        good = [line for line in ranked if line in lines]
        found = good[-(-len(good) // 2) :]
        for line in good[: -(-len(good) // 2)]:
            gap = means[line][places[line][1]] - means[best[0]][best[1]]
            if gap > BEHIND * self.standard_error(places[line], best, folds):
                found.append(line)
        return found

    def better_alone(self, place: Place) -> AnyArray:
        """Tell which nodes have a clearly smaller loss alone than at this candidate and round.

        The standard error of a node's own difference is taken over the folds.
        """
        counts, kept = self.counts[: self.used], self._kept.index(place[1])
        together = np.array([nodes[kept] for nodes in self._nodes[place[0]][: self.used]])
        alone = np.array([nodes[0] for nodes in self._nodes[0][: self.used]])
        gap = np.where(counts > 0, together - alone, 0.0)
        rows = counts.sum(axis=0)
        folds = (counts > 0).sum(axis=0)
        mean = (counts * gap).sum(axis=0) / np.maximum(rows, 1)
        rest = np.square(counts * (gap - mean)).sum(axis=0)
        error = np.sqrt(rest * folds / np.maximum(folds - 1, 1)) / np.maximum(rows, 1)
        return np.asarray((rows >= ENOUGH) & (folds >= 3) & (mean > SURE * error) & (mean > 0))
