"""Boosted differences: trees for what the linear network, or a plain level, leaves open.

Every round each node fits a small boosted model to what is still missing on its own rows, and says on the
public rows what that adds. All distil the mean of these answers into a further part of what they have in
common, and go on from there; a node's last difference may stay its own. Only answers on public rows are
exchanged. Starting from linear models leaves to trees what lines cannot say; starting from a level is
boosting proper, and without any round it is boosting at every node alone. Where to start, how many rounds
to run and whether nodes keep a difference of their own is chosen on folds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
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
    limits_of,
    newton_step,
    probabilities,
    scores_of,
)
from fedrelax.selection.trials import Tell
from fedrelax.threads import one_thread
from fedrelax.typing import AnyArray, FloatArray, IntArray

LINEAR, LEVEL = "linear models", "a level"
ROUNDS = {LINEAR: 3, LEVEL: 6}
"""The most rounds from each start; on folds, every number of rounds up to that is tried."""
SURE = 1.0
"""Standard errors by which the loss on held-out rows must be lower."""
SAMPLED = 20
"""Of how many nodes the folds are used to choose."""
MANY_ROWS = 400
"""Rows of a node from which its difference has larger trees."""


def seconds_for(counts: IntArray, scores: int) -> float:
    """Return roughly how long one fold takes on one core, given every node's number of rows."""
    fits = sum(1 + rounds for rounds in ROUNDS.values())
    nodes = min(len(counts), SAMPLED)
    each = 0.03 + 1e-4 * float(np.mean(counts))
    return scores * (each * nodes * fits + 0.15 * sum(ROUNDS.values()))


@dataclass(frozen=True)
class BoostedNetwork:
    """Fitted parts: what all nodes have in common, and each node's own difference, if it has one.

    Every part has one regressor for every score.
    """

    start: str
    shared: list[list[Any]] = field(default_factory=list)
    own: list[list[Any]] = field(default_factory=list)

    def models(self, firsts: Sequence[Any], rows: Rows) -> list[Any]:
        """Return one plain estimator per node: its first model, all common parts, and its own."""
        made, shared = [], []
        if self.shared:
            shared = [[BoostedTrees.of(models) for models in zip(*self.shared, strict=True)]]
        for i, first in enumerate(firsts):
            own = [[_packed(model) for model in part] for part in self.own[i : i + 1]]
            parts = shared + own
            if rows.task.is_classification:
                made.append(AdditiveClassifier.of(first, parts))
            else:
                regressors = [first, *(part[0] for part in parts)]
                made.append(AdditiveRegressor.of(regressors, rows.X.shape[1], rows.limits))
        return made


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
    def reason(self) -> str:
        """Why it was chosen, in words."""
        how = "boosting at every node alone"
        if self.rounds or self.start == LINEAR:
            kept = " and a difference of each node's own" * self.own
            how = f"boosted differences from {self.start}, {self.rounds} rounds{kept}"
        return f"{how} lowered the mean loss on held-out rows from {self.linear:.4g} to {self.loss:.4g}"


def _packed(model: Any) -> Any:
    """Return boosting in one array; what a node without rows adds stays as it is."""
    boosting = isinstance(model, HistGradientBoostingRegressor)
    return BoostedTrees.of([model]) if boosting else model


class Rows:
    """Rows of all nodes, the scores of the models so far, and what boosting adds to them."""

    def __init__(
        self, X: FloatArray, y: AnyArray, node: IntArray, n: int, task: Task, public: FloatArray
    ) -> None:
        self.X, self.node, self.n, self.task, self.public = X, node, n, task, public
        self.target = np.asarray(task.encode(y), dtype=float).reshape(len(X), -1)
        self.limits = (-np.inf, np.inf) if task.is_classification else limits_of(self.target)

    def starts(self, start: str, linear: Sequence[Any]) -> list[Any]:
        """Return every node's first model: its linear one, or one level for all."""
        if start == LINEAR:
            return list(linear)
        if not self.task.is_classification:
            level = DummyRegressor().fit(self.X, self.target[:, 0])
        else:
            assert self.task.classes is not None
            level = DummyClassifier(strategy="prior").fit(
                np.zeros((len(self.task.classes), self.X.shape[1])), self.task.classes
            )
            level.class_prior_ = self.target.mean(axis=0)
        return [level] * self.n

    def alone(self) -> list[Any]:
        """Return boosting at every node alone."""
        firsts = self.starts(LEVEL, ())
        return self.train(LEVEL, firsts, 0, True).models(firsts, self)

    def train(
        self, start: str, firsts: Sequence[Any], rounds: int, own: bool, held: _Held | None = None
    ) -> BoostedNetwork:
        """Run rounds; ``held`` records the losses on held-out rows after each of them."""
        with one_thread():  # the fits are small: threads would wait for each other
            return self._train(start, firsts, rounds, own, held)

    def _train(
        self, start: str, firsts: Sequence[Any], rounds: int, own: bool, held: _Held | None
    ) -> BoostedNetwork:
        scores = self._scores(firsts, self.X, self.node)
        network = BoostedNetwork(start)
        if held is not None:
            held.begin(self._scores(firsts, held.X, held.node))
        for round in range(rounds + 1):
            last = round == rounds
            if last and not own and held is None:
                break
            big = start == LEVEL and round == 0
            differences = self._differences(scores, big)
            if held is not None:
                held.record(differences)
            if last:
                if own:
                    network.own.extend(differences)
                break
            answers = np.mean(
                [[model.predict(self.public) for model in one] for one in differences], axis=0
            )
            common = [distiller(round == 0).fit(self.public, answer) for answer in answers]
            network.shared.append(common)
            scores = scores + np.column_stack([model.predict(self.X) for model in common])
            if held is not None:
                held.add(common)
        return network

    def _scores(self, firsts: Sequence[Any], X: FloatArray, node: IntArray) -> FloatArray:
        width = self.target.shape[1] if self.target.shape[1] > 2 else 1
        scores = np.zeros((len(X), width))
        for i in np.unique(node):
            scores[node == i] = np.clip(scores_of(firsts[i], X[node == i]), *self.limits)
        return scores

    def _differences(self, scores: FloatArray, big: bool) -> list[list[Any]]:
        """Fit every node's regressors to what is missing on its rows."""
        aims, weights = newton_step(self.target, scores, self.task.is_classification)
        fitted = []
        for i in range(self.n):
            here = self.node == i
            if not here.any():  # a node without rows adds nothing
                nothing = DummyRegressor(strategy="constant", constant=0.0)
                fitted.append([nothing.fit(self.X[:1], np.zeros(1))] * aims.shape[1])
                continue
            model = learner(int(here.sum()), big)
            fitted.append(
                [
                    model().fit(self.X[here], aim[here], sample_weight=weight[here])
                    for aim, weight in zip(aims.T, weights.T, strict=True)
                ]
            )
        return fitted


class _Held:
    """Held-out rows, and the losses on them after every round, without and with own differences."""

    def __init__(self, X: FloatArray, y: AnyArray, node: IntArray, task: Task) -> None:
        self.X, self.node, self._task = X, node, task
        self._target, self._loss = task.encode(y), usual_loss(task.kind)
        self.losses: list[tuple[FloatArray, FloatArray]] = []

    def begin(self, scores: FloatArray) -> None:
        """Start from the scores of the first models."""
        self._scores, self.losses = scores, []

    def add(self, common: Sequence[Any]) -> None:
        """Add a part that all nodes have in common."""
        self._scores = self._scores + np.column_stack([model.predict(self.X) for model in common])

    def record(self, differences: Sequence[Sequence[Any]]) -> None:
        """Record the losses of the scores so far, and of these with every node's difference."""
        own = self._scores.copy()
        for i in np.unique(self.node):
            here = self.node == i
            own[here] += np.column_stack([model.predict(self.X[here]) for model in differences[i]])
        self.losses.append((self._losses(self._scores), self._losses(own)))

    def _losses(self, scores: FloatArray) -> FloatArray:
        answers = probabilities(scores) if self._task.is_classification else scores
        return self._loss.per_row(self._target, answers)


def learner(rows: int, big: bool) -> Any:
    """Return what makes an unfitted model of a node's rows, or of what is still missing there."""
    settings: dict[str, Any] = {"early_stopping": False, "random_state": 0}
    if big:
        settings |= {"max_iter": 200, "learning_rate": 0.08, "max_leaf_nodes": 15}
        settings |= {"min_samples_leaf": min(10, max(rows // 5, 1))}
    else:
        settings |= {"max_iter": 60 if rows < 100 else 100, "learning_rate": 0.08}
        settings |= {"max_leaf_nodes": 3 if rows < MANY_ROWS else 15, "min_samples_leaf": 5}
        settings |= {"l2_regularization": 5.0}
    return lambda: HistGradientBoostingRegressor(**settings)


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


def choose_boosting(
    rows: Rows,
    y: AnyArray,
    held: Sequence[AnyArray],
    linear: Sequence[Sequence[Any]],
    *,
    seed: int = 0,
    tell: Tell | None = None,
) -> BoostingChoice | None:
    """Choose start, rounds and own differences on folds, or None if linear models do as well.

    ``held`` are masks of rows held out together, and ``linear[f]`` the linear network's models that have
    not seen those of fold f. Of a large network a sample of nodes is used.
    """
    if rows.n > SAMPLED:
        chosen = np.sort(np.random.default_rng(seed).permutation(rows.n)[:SAMPLED])
        here = np.isin(rows.node, chosen)
        place = np.searchsorted(chosen, rows.node[here])
        rows = Rows(rows.X[here], y[here], place, SAMPLED, rows.task, rows.public)
        y, held = y[here], [mask[here] for mask in held]
        linear = [[models[i] for i in chosen] for models in linear]
    losses: dict[tuple[str, int, bool], list[FloatArray]] = {}
    before = []
    for fold, (mask, models) in enumerate(zip(held, linear, strict=True)):
        out = np.flatnonzero(mask)
        rest = Rows(rows.X[~mask], y[~mask], rows.node[~mask], rows.n, rows.task, rows.public)
        for start, most in ROUNDS.items():
            judge = _Held(rows.X[out], y[out], rows.node[out], rows.task)
            rest.train(start, rest.starts(start, models), most, False, judge)
            if start == LINEAR:
                before.append(judge.losses[0][0])
            for round, (plain, own) in enumerate(judge.losses):
                losses.setdefault((start, round, False), []).append(plain)
                losses.setdefault((start, round, True), []).append(own)
        if tell is not None:
            tell(fold + 1, len(held))
    linear_losses = np.concatenate(before)
    joined = {way: np.concatenate(parts) for way, parts in losses.items()}
    best = min(joined, key=lambda way: float(joined[way].mean()))
    gap = linear_losses - joined[best]
    if gap.mean() <= SURE * gap.std(ddof=1) / np.sqrt(len(gap)):
        return None
    means = (float(part.mean()) for part in (joined[best], linear_losses, joined[LEVEL, 0, True]))
    return BoostingChoice(*best, *means)
