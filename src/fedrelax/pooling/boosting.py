"""Boosted differences by exchange: trees for what linear models, or a plain level, leave open.

Every round each node fits a small boosted model to what is still missing on its own rows, and says on the
public rows what that adds. All distil the mean of these answers into a further part of what they have in
common, and go on from there; a node's last difference may stay its own. Only answers on public rows are
exchanged, and, to choose, each node's losses on rows that it holds out. Starting from linear models leaves
to trees what lines cannot say; starting from a level is boosting proper, and without any round it is
boosting at every node alone. Where to start, how many rounds to run and whether nodes keep a difference of
their own is chosen on folds, in which some of each node's rows are held out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor

from fedrelax.losses import usual_loss
from fedrelax.models import Task
from fedrelax.models.additive import (
    AdditiveClassifier,
    AdditiveRegressor,
    BoostedTrees,
    log_odds,
    newton_step,
    probabilities,
    scores_of,
)
from fedrelax.public import allow_boosting
from fedrelax.typing import AnyArray, FloatArray, IntArray

LINEAR, LEVEL = "linear models", "a level"
ROUNDS = {LINEAR: 2, LEVEL: 6}
"""The most rounds from each start; on folds, every number of rounds up to that is tried."""
WAYS = [
    (start, rounds, own)
    for start, most in ROUNDS.items()
    for rounds in range(most + 1)
    for own in (False, True)
]
"""What is tried: the start, the rounds, and whether nodes keep a difference of their own."""
NUMBERS = 1 + 2 * len(WAYS)
"""How many numbers a node says of a fold in the end: its held-out rows, and two sums for every way."""
SURE = 1.0
"""Standard errors by which the loss on held-out rows must be lower."""
SAMPLED = 20
"""Of how many nodes the folds are used to choose."""
MANY_ROWS = 400
"""Rows of a node from which its difference has larger trees."""
FAR = 5.0
"""Linear models are held within this many standard deviations of the target's mean."""
SECONDS = 10.0
"""The estimated time that choosing may take, unless there is more for the whole search."""


@dataclass(frozen=True)
class Ground:
    """What all nodes know: the task, the public rows, and where boosting proper starts.

    ``level`` (c,) are the scores of a model without features; ``size`` is the spread of a numeric target.
    """

    task: Task
    public: FloatArray
    level: FloatArray
    size: float

    @classmethod
    def of(cls, task: Task, public: FloatArray, level: float, size: float, one: AnyArray) -> Ground:
        """Return it for a target of this mean and spread; ``one`` is what one model for all answers.

        For classes, the level is the logarithm of how probable these answers say each class is.
        """
        if not task.is_classification:
            return cls(task, public, np.array([level]), size)
        logs = log_odds(np.asarray(one).mean(axis=0))
        return cls(task, public, logs[1:] - logs[0] if len(logs) == 2 else logs, size)

    @property
    def limits(self) -> tuple[float, float]:
        """How far linear models may go: what a line says of a row far outside is no basis to add to."""
        if self.task.is_classification:
            return -np.inf, np.inf
        return float(self.level[0] - FAR * self.size), float(self.level[0] + FAR * self.size)

    def firsts(self, start: str, linear: Sequence[Any]) -> list[Any]:
        """Return every node's first model: its linear one, or the level."""
        if start == LINEAR:
            return list(linear)
        if not self.task.is_classification:
            nothing = np.zeros((1, self.public.shape[1]))
            model: Any = DummyRegressor(strategy="constant", constant=float(self.level[0]))
            return [model.fit(nothing, self.level)] * len(linear)
        classes = self.task.classes
        assert classes is not None
        model = DummyClassifier(strategy="prior")
        model.fit(np.zeros((len(classes), self.public.shape[1])), classes)
        model.class_prior_ = probabilities(self.level[None])[0]
        return [model] * len(linear)


class NodeRows:
    """Rows of n nodes, and what their models add up to there: the only part that sees labels."""

    def __init__(self, X: FloatArray, y: AnyArray, node: IntArray, n: int, task: Task) -> None:
        self.X, self.n, self.task = X, n, task
        target = np.asarray(task.encode(y), dtype=float)
        self.target = target[:, None] if target.ndim == 1 else target
        self.of_node = [np.flatnonzero(node == i) for i in range(n)]

    def begin(self, firsts: Sequence[Any], limits: tuple[float, float]) -> None:
        """Start from the scores (N, c) of the first models."""
        width = self.target.shape[1] if self.target.shape[1] > 2 else 1
        self.scores = np.zeros((len(self.X), width))
        for first, rows in zip(firsts, self.of_node, strict=True):
            if len(rows):
                self.scores[rows] = np.clip(scores_of(first, self.X[rows]), *limits)

    def add(self, common: Sequence[Any]) -> None:
        """Add a part that all nodes have in common."""
        self.scores = self.scores + np.column_stack([model.predict(self.X) for model in common])

    def differences(self, big: bool) -> list[list[Any]]:
        """Return every node's models, one for each score, of what is missing on its rows."""
        aims, weights = newton_step(self.target, self.scores, self.task.is_classification)
        fitted = []
        for rows in self.of_node:
            if not len(rows):  # a node without rows adds nothing
                nothing = DummyRegressor(strategy="constant", constant=0.0)
                fitted.append([nothing.fit(self.X[:1], np.zeros(1))] * aims.shape[1])
                continue
            models = []
            for aim, weight in zip(aims[rows].T, weights[rows].T, strict=True):
                equal = None if (weight == weight[0]).all() else weight  # much faster than ones
                models.append(learner(len(rows), big).fit(self.X[rows], aim, sample_weight=equal))
            fitted.append(models)
        return fitted

    def losses(self, differences: Sequence[Sequence[Any]] | None = None) -> FloatArray:
        """Return the loss of every row, with every node's own difference if these are given."""
        scores = self.scores
        if differences is not None:
            scores = scores.copy()
            for models, rows in zip(differences, self.of_node, strict=True):
                if len(rows):
                    parts = [model.predict(self.X[rows]) for model in models]
                    scores[rows] += np.column_stack(parts)
        answers = probabilities(scores) if self.task.is_classification else scores
        return usual_loss(self.task.kind).per_row(self.target, answers)


class Chain:
    """The rounds from one start: parts that all nodes have in common, and each node's difference.

    ``held`` are rows that no difference is fitted to, on which losses tell how good the rounds are.
    """

    def __init__(
        self,
        ground: Ground,
        start: str,
        firsts: Sequence[Any],
        rows: NodeRows,
        held: NodeRows | None = None,
    ) -> None:
        self._ground, self._start, self._rows, self._held = ground, start, rows, held
        self.firsts = list(firsts)
        for part in self._parts:
            part.begin(firsts, ground.limits)
        self.shared: list[list[Any]] = []
        self._own: dict[int, list[list[Any]]] = {}

    @property
    def _parts(self) -> list[NodeRows]:
        return [part for part in (self._rows, self._held) if part is not None]

    @property
    def differences(self) -> list[list[Any]]:
        """Every node's difference from what there is so far, fitted when it is first asked for."""
        round = len(self.shared)
        if round not in self._own:
            self._own[round] = self._rows.differences(self._start == LEVEL and not round)
        return self._own[round]

    def answers(self) -> FloatArray:
        """Return what the nodes' differences add on the public rows, (n, c, m)."""
        public = self._ground.public
        return np.array([[model.predict(public) for model in one] for one in self.differences])

    def hear(self, mean: FloatArray) -> None:
        """Take the mean (c, m) of what all nodes added in this round into what they have in common."""
        first = not self.shared
        common = [distiller(first).fit(self._ground.public, answers) for answers in mean]
        self.shared.append(common)
        for part in self._parts:
            if len(part.X):
                part.add(common)

    def held_out(self, own: bool = False) -> FloatArray:
        """Return the losses of held-out rows, with the nodes' own differences or without."""
        assert self._held is not None
        return self._held.losses(self.differences if own else None)

    def models(self, rounds: int, own: bool) -> list[Any]:
        """Return one plain estimator per node: its first model, all common parts, and its difference."""
        parts, difference = [], list[list[Any]]()
        if own:
            difference = self.differences if rounds == len(self.shared) else self._own[rounds]
        if rounds:
            columns = zip(*self.shared[:rounds], strict=True)
            parts = [[BoostedTrees.of(models) for models in columns]]
        made = []
        for i, first in enumerate(self.firsts):
            every = parts + [[_packed(model) for model in one] for one in difference[i : i + 1]]
            if self._ground.task.is_classification:
                made.append(AdditiveClassifier.of(first, every))
            else:
                sums = [first, *(part[0] for part in every)]
                width = self._ground.public.shape[1]
                made.append(AdditiveRegressor.of(sums, width, self._ground.limits))
        return made


def _packed(model: Any) -> Any:
    """Return boosting in one array; what a node without rows adds stays as it is."""
    boosting = isinstance(model, HistGradientBoostingRegressor)
    return BoostedTrees.of([model]) if boosting else model


def run(chain: Chain, rounds: int) -> Chain:
    """Run rounds of nodes that are all in this process."""
    for _ in range(rounds):
        chain.hear(chain.answers().mean(axis=0))
    return chain


# Choosing


@dataclass(frozen=True)
class BoostingChoice:
    """What was chosen on folds: the start, the rounds, whether nodes keep a difference, and the losses."""

    start: str
    rounds: int
    own: bool
    loss: float
    linear: float
    alone: float
    """The loss of boosting at every node alone."""

    @property
    def way(self) -> int:
        """Its number among ``WAYS``."""
        return WAYS.index((self.start, self.rounds, self.own))

    @property
    def reason(self) -> str:
        """Why it was chosen, in words."""
        how = "boosting at every node alone"
        if self.rounds or self.start == LINEAR:
            difference = " and a difference of each node's own" * self.own
            how = f"boosted differences from {self.start}, {self.rounds} rounds{difference}"
        return f"{how} lowered the mean loss on held-out rows from {self.linear:.4g} to {self.loss:.4g}"

    def alpha(self, linear: float, nodes: int) -> float:
        """Return the strength of the coupling, given that of the linear models."""
        alpha = linear if self.start == LINEAR else 0.0
        # Where boosting is coupled, everybody's mean is taken as it is.
        return 1.0 / nodes if self.rounds and alpha == 0 else alpha


def seconds_for(counts: IntArray, scores: int) -> float:
    """Return roughly how long one fold takes on one core, given every node's number of rows."""
    fits = sum(1 + rounds for rounds in ROUNDS.values())
    nodes = min(len(counts), SAMPLED)
    each = 0.02 + 3e-5 * float(np.mean(counts))
    return scores * (each * nodes * fits + 0.15 * sum(ROUNDS.values()))


def folds_for(counts: IntArray, scores: int, folds: int, seconds: float = SECONDS) -> int:
    """Return on how many folds boosting is tried: none if there are too few rows, or too many to wait."""
    if not allow_boosting(counts):
        return 0
    each = seconds_for(counts, scores)
    return min(max(int(seconds / each), int(each < 2 * seconds)), folds)


def numbers_in_search(folds: int, answers: int) -> int:
    """Return how many numbers a node says to each other node in all chains, with so many answers a round.

    Chains with all rows run beside those without the rows of each fold.
    """
    return (folds + 1) * sum(ROUNDS.values()) * answers + folds * NUMBERS


def sampled(nodes: int, seed: int) -> IntArray:
    """Return the nodes whose folds are used to choose."""
    return np.sort(np.random.default_rng(seed).permutation(nodes)[:SAMPLED])


def tally(losses: FloatArray, linear: FloatArray) -> FloatArray:
    """Return what nodes report of a way: the sums of its losses and of squared gaps to linear models."""
    return np.array([losses.sum(), np.square(linear - losses).sum()])


def held_out_by(chains: dict[str, Chain]) -> FloatArray:
    """Run the chains of a fold whose nodes are all in this process; return the losses (ways, rows)."""
    lines = []
    for start, rounds, own in WAYS:
        chain = chains[start]
        if len(chain.shared) < rounds:
            run(chain, 1)
        lines.append(chain.held_out(own))
    return np.array(lines)


def decide(tallies: FloatArray, count: int) -> BoostingChoice | None:
    """Return the best of all ways, given the sums (ways, 2) over held-out rows and how many these are.

    None if linear models do as well.
    """
    if count < 2:
        return None
    means = tallies[:, 0] / count
    best, linear = int(np.argmin(means)), means[0]
    gap = linear - means[best]
    spread = np.sqrt(max(tallies[best, 1] - count * gap**2, 0.0) / (count - 1))
    if gap <= SURE * spread / np.sqrt(count):
        return None
    alone = means[WAYS.index((LEVEL, 0, True))]
    return BoostingChoice(*WAYS[best], *map(float, (means[best], linear, alone)))


def learner(rows: int, big: bool) -> Any:
    """Return an unfitted model of a node's rows, or of what is still missing there."""
    settings: dict[str, Any] = {"early_stopping": False, "random_state": 0, "learning_rate": 0.08}
    if big:
        settings |= {"max_iter": 200, "max_leaf_nodes": 15}
        settings |= {"min_samples_leaf": min(10, max(rows // 5, 1))}
    else:
        settings |= {"max_iter": 60 if rows < 100 else 100, "l2_regularization": 5.0}
        settings |= {"max_leaf_nodes": 3 if rows < MANY_ROWS else 15, "min_samples_leaf": 5}
    return HistGradientBoostingRegressor(**settings)


def distiller(first: bool) -> Any:
    """Return an unfitted model for the mean answers on public rows, which have no noise."""
    return HistGradientBoostingRegressor(
        max_iter=300 if first else 100,
        learning_rate=0.08,
        max_leaf_nodes=15,
        min_samples_leaf=5,
        early_stopping=False,
        random_state=0,
    )
