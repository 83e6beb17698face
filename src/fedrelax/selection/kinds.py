"""Other kinds of models than linear ones: forests and boosting, for single nodes and for the network.

Both must do clearly better than the linear network on held-out rows. What is tried depends on an
estimate of the time, never on the clock, and not on whether trees can be compiled: the same rows and
seed give the same choice everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedrelax.losses import usual_loss
from fedrelax.models import LocalModel, Rows, Task, adapt
from fedrelax.models.few_rows import SmoothedForestClassifier
from fedrelax.models.names import model_by_name
from fedrelax.network import Network
from fedrelax.selection.trials import Tell
from fedrelax.solvers import FedRelax
from fedrelax.threads import one_thread
from fedrelax.typing import AnyArray, FloatArray, IntArray, Model

KINDS = ("forest", "boosting")
"""Names of models that a node may switch to."""
LEAST_ROWS, LEAST_OF_CLASS = 40, 10
"""Own rows that a node needs to switch to another kind: in all, and of every class of the network."""
SURE, BETTER = 2.0, 0.02
"""Standard errors, and share of the loss, by which a node's other model must be better."""
ALPHA = 0.3
"""How much the public rows count together, relative to a node's own rows."""
MOST_PUBLIC, MOST_WEIGHTED = 100, 255
"""Most public rows used, and most rows that boosting takes with weights: it bins more very slowly."""
LEAST_MEAN_ROWS = 30
"""Rows that nodes must have on average for forests at all of them."""
STRENGTHS = (1.0, 10.0)
"""alpha times the mean degree for forests at all nodes; alpha 0 is tried as well."""
NETWORK_FOLDS, ROUNDS = 2, 2
"""Folds and rounds of a trial of forests at all nodes."""
SECONDS = 20.0
"""What is estimated to take longer is not tried."""


@dataclass(frozen=True)
class KindChoice:
    """Another kind of model for one node: its name, the reason, and the fitted estimator.

    ``labelled`` tells whether it has also learned from public rows with the network's answers.
    """

    name: str
    labelled: bool
    reason: str
    model: Model


@dataclass(frozen=True)
class ForestNetwork:
    """Whether forests at all nodes do better: the alpha to use, None to stay linear, and the reason.

    ``losses`` has, for each alpha, the mean loss on every node's held-out rows by fold, (folds, n); NaN
    where a node has none. It is empty if nothing was tried.
    """

    alpha: float | None
    losses: dict[float, FloatArray]
    reason: str
    seed: int = 0

    @property
    def settings(self) -> FedRelax:
        """The solver for the forests; with alpha 0 each node is alone."""
        return FedRelax(alpha=self.alpha or 0.0, rounds=ROUNDS, random_state=self.seed)


def guess_seconds(rows: int, features: int) -> float:
    """Return roughly how long scikit-learn takes to grow one forest on one core."""
    return 0.05 + 1e-5 * rows * features


# Single nodes


def nodes_to_try(
    node: IntArray, n: int, features: int, *, folds: int = 3, seconds: float = SECONDS
) -> list[int]:
    """Return the nodes with enough rows to tell, those with most rows first, as far as time allows."""
    counts = np.bincount(node, minlength=n)
    order = [int(i) for i in np.argsort(-counts, kind="stable") if counts[i] >= LEAST_ROWS]
    fits = len(KINDS) * 2 * (1 + (folds - 1) / 2)  # most nodes are done after one fold
    guess = np.cumsum([fits * guess_seconds(int(counts[i]) + MOST_PUBLIC, features) for i in order])
    return order[: int(np.searchsorted(guess, seconds, side="right"))]


def choose_kinds(
    X: FloatArray,
    y: AnyArray,
    node: IntArray,
    n: int,
    task: Task,
    held: Sequence[AnyArray],
    models: Sequence[Sequence[Any]],
    together: Sequence[Any],
    public: FloatArray,
    *,
    seconds: float = SECONDS,
    seed: int = 0,
    tell: Tell | None = None,
) -> dict[int, KindChoice]:
    """Return the nodes that do clearly better with a forest or with boosting, and their models.

    ``held`` are masks of rows held out together, ``models[f]`` the network's estimators, by node, that
    have not seen those of fold f, and ``together`` the final ones. Each kind is fitted to the node's own
    rows, and also to these and ``public`` rows with the network's answers, which is one round of
    FedRelax: own rows count 1 / m each, public rows ALPHA / rows each. A node switches if its mean loss
    on held-out rows falls by more than two standard errors of the paired differences, and by 2 %. For
    classes it also needs some rows of each.
    """
    tried = nodes_to_try(node, n, X.shape[1], folds=len(held), seconds=seconds)
    seeds = np.random.SeedSequence(seed).generate_state(max(n, 1)) >> 1
    chosen = {}
    with one_thread():
        for done, i in enumerate(tried):
            rows = np.flatnonzero(node == i)
            one = _OneNode(X[rows], y[rows], task, public[:MOST_PUBLIC], int(seeds[i]))
            parts = [(mask[rows], fitted[i]) for mask, fitted in zip(held, models, strict=True)]
            found = one.choose(parts, together[i]) if one.has_enough_of_each_class else None
            if found is not None:
                chosen[i] = found
            if tell is not None:
                tell(done + 1, len(tried))
    return chosen


def refit_kinds(
    chosen: Mapping[int, KindChoice],
    X: FloatArray,
    y: AnyArray,
    node: IntArray,
    n: int,
    task: Task,
    together: Sequence[Any],
    public: FloatArray,
    *,
    seed: int = 0,
) -> dict[int, KindChoice]:
    """Return the same choices with models fitted to other rows."""
    seeds = np.random.SeedSequence(seed).generate_state(max(n, 1)) >> 1
    found = {}
    for i, choice in chosen.items():
        rows = np.flatnonzero(node == i)
        one = _OneNode(X[rows], y[rows], task, public[:MOST_PUBLIC], int(seeds[i]))
        linear = adapt(together[i], task) if choice.labelled else None
        known = np.ones(len(rows), dtype=bool)
        found[i] = replace(choice, model=one.fit(choice.name, known, linear).estimator)
    return found


class _OneNode:
    """One node's rows, and what other kinds of models do on them."""

    def __init__(
        self, X: FloatArray, y: AnyArray, task: Task, public: FloatArray, seed: int
    ) -> None:
        self.X, self.target, self.task = X, task.encode(y), task
        self.public, self.seed, self.loss = public, seed, usual_loss(task.kind)

    @property
    def has_enough_of_each_class(self) -> bool:
        """Whether rows of every class of the network can be held out and learned from."""
        if not self.task.is_classification:
            return True
        return bool(self.target.sum(axis=0).min() >= LEAST_OF_CLASS)

    @property
    def variants(self) -> list[tuple[str, bool]]:
        """What to try: names, and whether the model also learns from public rows."""
        few = len(self.X) + len(self.public) <= MOST_WEIGHTED
        taught = [name for name in KINDS if len(self.public) and (few or name != "boosting")]
        return [(name, False) for name in KINDS] + [(name, True) for name in taught]

    def choose(self, parts: Sequence[tuple[AnyArray, Any]], final: Any) -> KindChoice | None:
        """Try all variants on the folds ``parts``; return the best, with its model, if clearly better."""
        network: list[FloatArray] = []
        others: dict[tuple[str, bool], list[FloatArray]] = {one: [] for one in self.variants}
        for mask, fitted in parts:
            if not mask.any() or mask.all():
                continue
            linear = adapt(fitted, self.task)
            network.append(self._losses(linear, mask))
            for (name, labelled), found in others.items():
                found.append(
                    self._losses(self.fit(name, ~mask, linear if labelled else None), mask)
                )
            if len(network) == 1:  # what is no better on the first fold is not tried further
                mean = network[0].mean()
                others = {one: found for one, found in others.items() if found[0].mean() < mean}
            if not others:
                return None
        if not network:
            return None
        before = np.concatenate(network)
        after = {one: np.concatenate(found) for one, found in others.items()}
        best = min(after, key=lambda one: float(after[one].mean()))
        if not _clearly_less(after[best], before):
            return None
        name, labelled = best
        source = "its own rows" + " and public rows with the network's answers" * labelled
        reason = (
            f"{name}, from {source}, lowered the mean loss on {len(before)} held-out rows from "
            f"{before.mean():.4g} to {after[best].mean():.4g}, by more than two standard errors"
        )
        known = np.ones(len(self.X), dtype=bool)
        model = self.fit(name, known, adapt(final, self.task) if labelled else None)
        return KindChoice(name, labelled, reason, model.estimator)

    def fit(self, name: str, known: AnyArray, linear: LocalModel | None) -> LocalModel:
        """Fit a model of this kind; with ``linear``, also to public rows with its answers."""
        m, template = int(known.sum()), adapt(_unfitted(name, self.task), self.task)
        terms = [Rows(self.X[known], self.target[known], np.ones(m), self.loss)]
        if linear is not None:
            # Weights as in a round, times m: with 1 / m, boosting would find too little weight to split.
            weight = np.full(len(self.public), ALPHA * m / len(self.public))
            terms.append(Rows(self.public, linear.predict(self.public), weight, self.loss))
        return template.fit(terms, seed=self.seed)

    def _losses(self, model: LocalModel, mask: AnyArray) -> FloatArray:
        return self.loss.per_row(self.target[mask], model.predict(self.X[mask]))


def _unfitted(name: str, task: Task) -> Any:
    """Return the model that a name stands for; one node's forest must not rule out a rare class."""
    model = model_by_name(name, task.kind)
    if name == "forest" and task.is_classification:
        return SmoothedForestClassifier(model.n_estimators)
    return model


def _clearly_less(after: FloatArray, before: FloatArray) -> bool:
    gap = before - after
    error = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else np.inf
    return bool(gap.mean() > SURE * error and gap.mean() > BETTER * before.mean())


# The whole network


def forest_network(
    folds: Sequence[Network],
    linear: Sequence[FloatArray],
    *,
    seconds: float = SECONDS,
    seed: int = 0,
    n_jobs: int | None = None,
    tell: Tell | None = None,
) -> ForestNetwork:
    """Try forests at all nodes, each alone and coupled by FedRelax, against the linear network.

    Each of ``folds`` has the held-out rows as validation rows; ``linear[f]`` has the mean loss on every
    node's validation rows, (n,), under a linear network that learned from the fold's other rows. Forests
    are chosen if the mean loss falls by more than one standard error of the difference, over nodes.
    """
    folds = list(folds)[:NETWORK_FOLDS]
    first = folds[0]
    counts = first.own_rows.counts
    held = [_held(fold) for fold in folds]
    mean_rows = float((counts + held[0]).mean())
    if mean_rows < LEAST_MEAN_ROWS:
        reason = (
            f"forests were not tried: nodes have {mean_rows:.0f} rows on average, fewer than "
            f"{LEAST_MEAN_ROWS}"
        )
        return ForestNetwork(None, {}, reason, seed)
    degree = float(np.mean(first.graph.degrees)) if first.graph.n_edges else 0.0
    alphas = tuple(strength / degree for strength in STRENGTHS) if degree > 0 else (0.0,)
    extra = len(first.public.of(first.labels[0])) if degree > 0 else 0
    each = sum(guess_seconds(int(m) + extra, first.own_rows.X.shape[1]) for m in counts)
    guess = each * len(folds) * len(alphas) * (1 + ROUNDS)
    if guess > seconds:
        reason = f"forests were not tried: they would take about {guess:.0f} s on one core"
        return ForestNetwork(None, {}, reason, seed)
    losses: dict[float, list[FloatArray]] = {alpha: [] for alpha in (0.0, *alphas)}
    total, done = len(folds) * len(alphas), 0
    for number, fold in enumerate(folds):
        forests = fold.with_models(model_by_name("forest", fold.kind))
        for alpha in alphas:
            solver = FedRelax(alpha=alpha, rounds=ROUNDS, random_state=seed, n_jobs=n_jobs)
            records = solver.solve(forests).history.records
            if alpha == alphas[0]:
                losses[0.0].append(records[0].node_validation_loss)
            if alpha > 0:
                losses[alpha].append(records[-1].node_validation_loss)
            done += 1
            if tell is not None:
                tell(done, total)
        if number == 0 and not any(
            _gain(linear[:1], found, held[:1])[0] > 0 for found in losses.values()
        ):
            break  # what is no better on the first fold is not tried further
    known = {alpha: np.array(found) for alpha, found in losses.items()}
    tried = len(known[0.0])
    gains = {alpha: _gain(linear[:tried], found, held[:tried]) for alpha, found in known.items()}
    best = max(gains, key=lambda alpha: gains[alpha][0])
    gain, error = gains[best]
    if tried < len(folds) or gain <= error:
        reason = "forests at all nodes did not clearly lower the loss on held-out rows"
        return ForestNetwork(None, known, reason, seed)
    way = "each alone" if best == 0 else f"coupled with alpha {best:.3g}"
    reason = f"forests at all nodes, {way}, lowered the mean loss on held-out rows by {gain:.4g}"
    return ForestNetwork(best, known, reason, seed)


def _held(fold: Network) -> IntArray:
    rows = fold.validation_rows
    return np.zeros(len(fold), dtype=np.int64) if rows is None else rows.counts


def _gain(
    before: Sequence[FloatArray], after: Sequence[FloatArray] | FloatArray, held: Sequence[IntArray]
) -> tuple[float, float]:
    """Return by how much the mean loss per row falls, and its standard error over nodes."""
    rows = np.array(held, dtype=float)
    gaps = np.where(rows > 0, rows * (np.array(before) - np.array(after)), 0.0).sum(axis=0)
    by_node = rows.sum(axis=0)
    n, mean = len(gaps), gaps.sum() / max(by_node.sum(), 1.0)
    if n < 2:
        return float(mean), 0.0
    rest = gaps - by_node * mean
    error = np.sqrt(n / (n - 1) * np.square(rest).sum()) / max(by_node.sum(), 1.0)
    return float(mean), float(error)
