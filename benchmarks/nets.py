"""A small convolutional net per writer: alone, averaged, pooled, together.

``python -m benchmarks.nets [SPLITS] [JOBS]`` prints, for random splits of the digits by writer
(20 labelled images each), the test error of the same net

- alone: every writer trains on its own images;
- FedAvg: the writers' nets are averaged after every round;
- pooled: one net, trained on everybody's labelled images in one place;
- FedRelax, seen: the public rows are the labelled images, whose labels stay with their writers;
- FedRelax, unseen: the public rows are as many other, unlabelled images of the writers.

Every way chooses its settings and its rounds on held-out labelled images. Test images are not used for
that, and none of them is public.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from fedrelax.baselines import Alone, Baseline, FedAvg, Pooled
from fedrelax.baselines.base import validation_curve
from fedrelax.comparison.ways import Together
from fedrelax.datasets import digits_by_writer, labelled_split
from fedrelax.extras import need
from fedrelax.graph import Graph
from fedrelax.network import Network
from fedrelax.selection import FOLDS, TRIES
from fedrelax.solvers import FedRelax
from fedrelax.splits import deal, group_rows
from fedrelax.typing import AnyArray, Label

LABELLED = 20
FRESH_SPLIT = 100
"""The first of the splits that were not used to find out which settings are worth trying."""
STEPS = 5
DECAYS = (0.001, 0.003)
LENGTHS = (30, 100, 300)
"""Steps of a net that trains once."""
RATES = (0.01, 0.03)
STRENGTHS = (0.3, 1.0)
"""alpha times the number of neighbours."""
ROUNDS, AVERAGING_ROUNDS = 120, 200
WAYS = ("alone", "FedAvg", "pooled", "FedRelax, seen", "FedRelax, unseen")

RowsByWriter = Mapping[Label, AnyArray]


def cnn() -> Any:
    """Return two layers of 3 x 3 filters and a linear one, for images of 8 x 8 pixels."""
    from torch import nn

    filters = nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.MaxPool2d(2)
    return nn.Sequential(*filters, nn.Flatten(), nn.Linear(64, 10))


class Candidate(NamedTuple):
    """A way with its settings, and the settings of the net."""

    way: Baseline
    net: dict[str, Any]


def candidates(name: str, writers: int) -> Iterator[Candidate]:
    """Yield the candidates that a way chooses from."""
    for decay in DECAYS:
        net = {"options": {"weight_decay": decay}, "steps": STEPS, "first": STEPS}
        if name in ("alone", "pooled"):
            way = Alone() if name == "alone" else Pooled()
            for length in LENGTHS:
                yield Candidate(way, {**net, "first": length})
        elif name == "FedAvg":
            for rate in RATES:
                yield Candidate(FedAvg(rounds=AVERAGING_ROUNDS, rate=rate), net)
        else:
            for strength in STRENGTHS:
                alpha = strength / (writers - 1)
                yield Candidate(Together(alpha, ROUNDS, solver=FedRelax(tol=0.0)), net)


@dataclass(frozen=True, eq=False)
class Split:
    """Which images are labelled, which are public and unlabelled, and which are for testing."""

    number: int
    X: AnyArray
    y: AnyArray
    labelled: RowsByWriter
    unseen: AnyArray
    test: RowsByWriter

    @classmethod
    def draw(cls, number: int) -> Split:
        """Draw 20 labelled and 20 other images of every writer; the rest is for testing."""
        data = digits_by_writer()
        rng = np.random.default_rng(number)
        known = labelled_split(data.writers, LABELLED, rng)
        rest = np.flatnonzero(~known)
        given = rest[labelled_split(data.writers[rest], LABELLED, rng)]
        test = np.setdiff1d(rest, given)
        images = data.X.reshape(-1, 1, 8, 8)
        return cls(
            number,
            images,
            data.y,
            _by_writer(data.writers, np.flatnonzero(known)),
            images[given],
            _by_writer(data.writers, test),
        )

    def network(
        self, name: str, net: dict[str, Any], own: RowsByWriter, held: RowsByWriter
    ) -> Network:
        """Return a network in which all writers have the same net with the same initial weights."""
        import torch

        from fedrelax.models.torch import TorchModel

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.number)
            model = TorchModel(cnn(), **net)
        seen = self.X[np.concatenate(list(own.values()))]
        public = self.unseen if name == "FedRelax, unseen" else seen
        made = Network(Graph.complete(list(own)), "classification", public=public)
        for writer, rows in own.items():
            kept = held.get(writer, rows[:0])
            validation = (self.X[kept], self.y[kept]) if len(kept) else None
            made.add(writer, self.X[rows], self.y[rows], model, validation=validation)
        return made

    def choose(self, name: str) -> Candidate:
        """Return the candidate, stopped at its best round, with the smallest loss on held-out images."""
        rng = np.random.default_rng([self.number, 1])
        parts = deal(self.labelled, FOLDS, rng)[:TRIES]
        best: tuple[float, Candidate] | None = None
        for way, net in candidates(name, len(self.labelled)):
            folds = [self.network(name, net, own, held) for own, held in parts]
            curve = validation_curve(way, folds, self.number)
            at = int(np.argmin(curve))
            if best is None or curve[at] < best[0]:
                best = curve[at], Candidate(_stopped(way, at), net)
        assert best is not None
        return best[1]

    def error(self, name: str) -> tuple[float, Candidate]:
        """Return the error rate on the test images, and the candidate chosen."""
        way, net = self.choose(name)
        made = self.network(name, net, self.labelled, {})
        models = way.run(made, seed=self.number).models
        wrong = [
            made.task.decode(models[writer].predict(self.X[rows])) != self.y[rows]
            for writer, rows in self.test.items()
        ]
        return float(np.concatenate(wrong).mean()), Candidate(way, net)


def _by_writer(writers: AnyArray, rows: AnyArray) -> dict[Label, AnyArray]:
    return {name: rows[part] for name, part in group_rows(writers[rows], len(rows)).items()}


def _stopped(way: Baseline, at: int) -> Baseline:
    return replace(way, rounds=at) if isinstance(way, FedAvg | Together) else way


def measure(number: int) -> list[float]:
    """Return the errors of all ways on one split, and print them with what was chosen."""
    split, errors = Split.draw(number), []
    for name in WAYS:
        found, (way, net) = split.error(name)
        chosen = {key: value for key, value in way.settings().items() if key != "solver"}
        print(number, name, f"{found:.4f}", {**chosen, **net}, flush=True)
        errors.append(found)
    return errors


def main(splits: int = 5, jobs: int = 1) -> None:
    """Print the errors of every split, their means, and the differences between ways."""
    need("torch", "torch")
    numbers = range(FRESH_SPLIT, FRESH_SPLIT + splits)
    errors = np.array(Parallel(n_jobs=jobs)(delayed(measure)(number) for number in numbers))
    for name, mean in zip(WAYS, errors.mean(axis=0), strict=True):
        print(f"{name}: {mean:.4f}")
    for name in WAYS[3:]:
        for other in WAYS[:3]:
            gap = errors[:, WAYS.index(other)] - errors[:, WAYS.index(name)]
            spread = gap.std(ddof=1) / np.sqrt(splits) if splits > 1 else np.nan
            print(f"{other} minus {name}: {gap.mean():+.4f}, standard error {spread:.4f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
