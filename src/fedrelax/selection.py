"""Choosing alpha, wiring and the number of rounds on the nodes' own training rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from fedrelax.errors import FedRelaxError
from fedrelax.graph import Graph
from fedrelax.solvers import Result
from fedrelax.solvers.checks import check_count
from fedrelax.splits import deal, group_rows
from fedrelax.typing import AnyArray, FloatArray
from fedrelax.wiring import Wiring

STRENGTHS = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""alpha times the mean degree: how much the neighbours count together against a node's own rows."""
FOLDS, TRIES = 5, 3
"""Parts into which a node's rows are dealt, and how many of them are held out in turn."""
GROUPS = 200
"""Losses of nodes are kept in at most so many groups, from which standard errors are taken."""


@dataclass(frozen=True, eq=False)
class Choice:
    """What was chosen, and the validation loss of every candidate after every round.

    A candidate is a wiring (None: fixed) with an alpha. ``losses`` has the shape (candidates,
    rounds + 1); column 0 is each node alone.
    """

    alpha: float
    rounds: int
    wiring: Wiring | None
    alphas: tuple[float, ...]
    wirings: tuple[Wiring | None, ...]
    losses: FloatArray
    reason: str
    """Why it was chosen, in words."""

    def to_frame(self) -> Any:
        """Return a DataFrame: wiring, alpha, round, validation loss."""
        import pandas as pd

        rounds = self.losses.shape[1]
        return pd.DataFrame(
            {
                "wiring": np.repeat([wiring_name(wiring) for wiring in self.wirings], rounds),
                "alpha": np.repeat(self.alphas, rounds),
                "round": np.tile(np.arange(rounds), len(self.alphas)),
                "validation_loss": self.losses.ravel(),
            }
        )


def wiring_name(wiring: Wiring | None) -> str:
    """Return how tables call a wiring."""
    return "fixed" if wiring is None else wiring.name


def usual_alphas(graph: Graph) -> tuple[float, ...]:
    """Return alphas to try, in proportion to the graph's mean degree."""
    degree = float(np.mean(graph.degrees)) or 1.0
    return tuple(strength / degree for strength in STRENGTHS)


def choose(
    estimator: Any,
    X: FloatArray,
    y: AnyArray,
    nodes: Any,
    *,
    alphas: Sequence[float] | None = None,
    wirings: Sequence[str | Wiring] | None = None,
    folds: int = FOLDS,
    tries: int | None = TRIES,
    progress: Callable[[int, int], None] | None = None,
) -> Choice:
    """Choose alpha, wiring and rounds of a FedRelax estimator by cross-validation on the nodes' rows.

    Every node's rows are dealt into ``folds`` parts; each of the first ``tries`` parts (None: of all) is
    predicted by models that never saw it. Five parts rather than three: a network that finds its
    clusters with ten rows a node may not find them with seven, and what is chosen should suit ten. A
    node with fewer rows than folds still takes part with those it has.

    The loss is measured after every round, and a run may be stopped early: models that are refitted to
    refitted models can get worse again. (Linear least squares does not need that: it converges, and
    alpha does the rest.) Of a wiring only the rounds after its last stage count: half a
    wiring may look good with the few rows of a fold and is not what was meant.

    Simpler ways have the benefit of the doubt: coupling is chosen over training alone, a wiring over the
    fixed graph, and an earlier stop over running to the end, only if the loss is lower by more than one
    standard error of the difference, taken over nodes.

    ``alphas`` defaults to ``usual_alphas``, or to the estimator's own alpha if that is a number;
    ``wirings`` to those that the estimator's ``wiring`` stands for.
    """
    check_count("folds", folds, least=2)
    rows = group_rows(nodes, len(X))
    parts = deal(rows, folds, np.random.default_rng(0))[:tries]
    if not parts:
        raise FedRelaxError(
            "every node has a single row, so none can be held out to choose alpha; give alpha itself"
        )
    solver = estimator.solver(list(rows))
    tried = [w.paced(solver.rounds) if w else w for w in estimator.wirings_for(list(rows), wirings)]
    if alphas is None:
        given = estimator.alpha
        alphas = estimator.alphas_for(list(rows)) if isinstance(given, str) else (float(given),)
    lines = [(None, 0.0)] if 0.0 in alphas and None not in tried else []
    lines += [(w, float(a)) for w in tried for a in alphas if a > 0 or w is None]
    losses = Losses(len(lines), solver.rounds + 1, len(rows))
    for done, (train, held) in enumerate(parts):
        counts = np.array([len(held[label]) for label in rows])
        for number, (wiring, alpha) in enumerate(lines):
            trial = clone(estimator).set_params(
                alpha=alpha, wiring=wiring or "fixed", rounds=solver.rounds, patience=None
            )
            losses.add(number, trial.solve(X, y, train, held), counts)
            if progress is not None:
                progress(done * len(lines) + number + 1, len(parts) * len(lines))
        losses.count(counts)
    return decide(lines, losses, early=not estimator.is_linear(list(rows)))


def choose_alpha(
    estimator: Any,
    X: FloatArray,
    y: AnyArray,
    nodes: Any,
    alphas: Sequence[float] | None = None,
    folds: int = 3,
    progress: Callable[[int, int], None] | None = None,
) -> Choice:
    """Choose alpha and rounds with the estimator's own wiring, by all folds; see ``choose``."""
    rows = group_rows(nodes, len(X))
    alphas = estimator.alphas_for(list(rows)) if alphas is None else alphas
    return choose(estimator, X, y, nodes, alphas=alphas, folds=folds, tries=None, progress=progress)


class Losses:
    """Summed validation losses (candidates, rounds, groups of nodes) and the rows behind them."""

    def __init__(self, lines: int, rounds: int, nodes: int) -> None:
        self.group = np.arange(nodes) % GROUPS
        self.n_groups = min(nodes, GROUPS)
        self.sums = np.zeros((lines, rounds, self.n_groups))
        self.rows = np.zeros(self.n_groups)

    def add(self, line: int, result: Result, counts: AnyArray) -> None:
        """Add the losses of one run; a run that has settled keeps its last."""
        last: FloatArray = np.zeros(self.n_groups)
        records = result.history.records
        for round in range(self.sums.shape[1]):
            if round < len(records):
                each = np.where(counts > 0, counts * records[round].node_validation_loss, 0.0)
                last = np.bincount(self.group, each, minlength=self.n_groups).astype(float)
            self.sums[line, round] += last

    def count(self, counts: AnyArray) -> None:
        """Count the held-out rows of a fold."""
        self.rows += np.bincount(self.group, counts, minlength=self.n_groups)

    @property
    def means(self) -> FloatArray:
        """The mean loss over all held-out rows, (candidates, rounds)."""
        return np.asarray(self.sums.sum(axis=2) / self.rows.sum())

    def standard_error(self, one: tuple[int, int], other: tuple[int, int]) -> float:
        """Return that of the difference of two mean losses, over groups of nodes; 0 for one group."""
        if self.n_groups < 2:
            return 0.0
        gap = self.sums[one] - self.sums[other]
        rest = gap - self.rows * gap.sum() / self.rows.sum()
        size = self.n_groups / (self.n_groups - 1)
        return float(np.sqrt(size * np.square(rest).sum()) / self.rows.sum())


def _stop(line: int, means: FloatArray, losses: Losses) -> tuple[int, int]:
    """Return a candidate's line and round: the last, or the best one if that is clearly better."""
    best, last = (line, int(np.argmin(means[line]))), (line, means.shape[1] - 1)
    return best if means[last] - means[best] > losses.standard_error(best, last) else last


def decide(lines: Sequence[tuple[Wiring | None, float]], losses: Losses, early: bool) -> Choice:
    """Return the least loss of the simplest tier that no later tier clearly beats."""
    means = np.where(np.isnan(losses.means), np.inf, losses.means)
    for line, (wiring, _) in enumerate(lines):
        if wiring is not None:
            on_the_way = [not wiring.settled(round) for round in range(means.shape[1])]
            means[line, on_the_way] = np.inf
    chosen, words = (0, 0), "training alone was best"
    tiers = (
        ("the given graph", [k for k, (w, a) in enumerate(lines) if w is None]),
        ("a rewired graph", [k for k, (w, a) in enumerate(lines) if w is not None]),
    )
    last = means.shape[1] - 1
    stops = [_stop(line, means, losses) if early else (line, last) for line in range(len(lines))]
    for name, numbers in tiers:
        if not numbers:
            continue
        best = min((stops[line] for line in numbers), key=lambda place: means[place])
        gain = means[chosen] - means[best]
        if gain > losses.standard_error(best, chosen):
            chosen = best
            words = f"{name} lowered the validation loss clearly, to {means[best]:.4g}"
    wiring, alpha = lines[chosen[0]]
    if chosen[1] == 0:
        wiring, alpha = None, 0.0
    return Choice(
        alpha=alpha,
        rounds=chosen[1],
        wiring=wiring,
        alphas=tuple(a for _, a in lines),
        wirings=tuple(w for w, _ in lines),
        losses=losses.means,
        reason=words,
    )
