"""A node looks for its neighbours: those whose answers fit its own rows, and then those it agrees with.

First comes what no majority can change: how well others' answers, carried over from the public rows to the
node's own, fit its labels. A single node may fit a few rows by chance, so it is judged with its neighbours:
what counts is the mean of what a node and its neighbours say. With neighbours found this way, the node fits
a first model, and then keeps those whose answers on the public rows are as close to its own as the wiring
asks of neighbours: at most ``TIMES`` as far as the nearest ones are on average.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fedrelax.living.overlay import mean_of_neighbours
from fedrelax.models import LocalModel
from fedrelax.runtime import Coupling
from fedrelax.runtime.site import levelled
from fedrelax.typing import AnyArray, FloatArray, IntArray, Label
from fedrelax.wiring.rewire import FAR, FLOOR

if TYPE_CHECKING:
    from fedrelax.living.network import LivingNetwork, OwnRows

TIMES = 2.0
"""A node at most this many times as far away as the nearest ones is a neighbour, too."""
WIDER = 4
"""Agreement on the public rows decides among this many times the number of neighbours wanted."""
FEWEST, MOST, SHARE = 3, 60, 0.1
"""Neighbours to look for: at least, at most, and as a share of all nodes where all are connected alike."""


@dataclass(frozen=True)
class Look:
    """All possible neighbours, and the loss on a node's rows under what each says with its neighbours."""

    labels: list[Label]
    losses: FloatArray
    """From the best to the worst."""

    def loss_of(self, chosen: list[Label]) -> float:
        """Return the mean loss of those chosen."""
        place = {label: k for k, label in enumerate(self.labels)}
        return float(self.losses[[place[label] for label in chosen]].mean())


def look(network: LivingNetwork, X: AnyArray, target: FloatArray, apart: Label | None) -> Look:
    """Return how well what every node but ``apart`` says, together with its neighbours, fits these rows."""
    labels, guesses = network.guesses.of_all(X)
    together = 0.5 * guesses + 0.5 * mean_of_neighbours(
        network.trained_graph, network.links, labels, guesses
    )
    coupling = network.coupling
    told = levelled(together, target[None], coupling.level, network.task.is_classification)
    losses = coupling.loss.per_row(target[None], told).mean(axis=1)
    usable = np.isfinite(losses)
    if apart is not None:
        usable &= np.array([label != apart for label in labels])
    order = np.flatnonzero(usable)[np.argsort(losses[usable], kind="stable")]
    return Look([labels[k] for k in order], losses[order])


def find_neighbours(
    network: LivingNetwork,
    label: Label,
    X: AnyArray,
    target: FloatArray,
    fit: Callable[[dict[Label, float]], FloatArray],
) -> tuple[dict[Label, float], Look]:
    """Return the neighbours that a node finds by its rows; ``fit`` returns its answers given neighbours."""
    seen = look(network, X, target, label)
    size = network.neighbourhood_size
    weight = network.usual_weight
    fitting = _near(seen.labels, seen.losses, size)
    answer = fit(dict.fromkeys(fitting, weight))
    wider = seen.labels[: WIDER * size]
    theirs = np.stack([network.said[j] for j in wider])
    coupling = network.coupling
    told = levelled(theirs, answer[None], coupling.level, network.task.is_classification)
    apart = coupling.discrepancy.per_row(told, answer[None]).mean(axis=1)
    order: IntArray = np.argsort(apart, kind="stable")
    agreeing = _near([wider[k] for k in order], apart[order], size)
    if FAR * seen.loss_of(fitting) < seen.loss_of(agreeing):
        agreeing = fitting
    return dict.fromkeys(agreeing, weight), seen


def _near(labels: list[Label], values: FloatArray, size: int) -> list[Label]:
    """Return at most ``size`` nodes that are about as near as the nearest half of that number."""
    least = max(1, min(len(labels), (size + 1) // 2))
    raised = np.maximum(values, FLOOR * float(values.mean()))
    count = int((raised <= TIMES * float(raised[:least].mean())).sum())
    return labels[: min(max(count, least), size)]


def neighbourhood_size(degrees: IntArray, uniform: bool) -> int:
    """Return how many neighbours a newcomer looks for: as many as nodes usually have.

    >>> neighbourhood_size(np.array([4, 6, 5, 5, 5]), False), neighbourhood_size(np.full(101, 100), True)
    (5, 11)
    """
    n = len(degrees)
    joined = degrees[degrees > 0]
    usual = SHARE * n if uniform or not len(joined) else float(np.median(joined))
    return int(min(max(np.ceil(usual), FEWEST), MOST, max(n, 1)))


STRENGTHS = (0.0, 0.1, 1.0, 10.0, 100.0)
"""alpha times the total weight of the neighbours: a node chooses among these by cross-validation."""
FOLDS = 5
"""The number of folds; fewer rows than this are left out one by one."""


@dataclass(frozen=True)
class Fit:
    """A node's model, its answers on the public rows, and its model trained alone."""

    model: LocalModel
    answer: FloatArray
    alone: LocalModel


def fit_newcomer(
    network: LivingNetwork,
    label: Label,
    model: LocalModel,
    rows: OwnRows,
    near: Mapping[Label, float],
) -> Fit:
    """Fit a node alone, and then with what its neighbours say.

    Where the problem depends on the node's own last answers, it is refitted until they converge.
    """
    coupling = chosen_coupling(network, label, model, rows, near)
    site = network.site(label, model, rows, near, None, coupling)
    alone, answer = network.fitted(site, alone=True)
    first, steps = alone, 1
    while steps:
        site = network.site(label, first, rows, near, answer, coupling)
        fitted, now = network.fitted(site)
        steps = steps + 1 if network.leans_on_itself(label) and steps < 50 else 0
        if float(np.abs(now - answer).max()) <= 1e-9 * max(float(np.abs(now).max()), 1e-300):
            steps = 0
        first, answer = fitted, now
    return Fit(first, answer, alone)


def chosen_coupling(
    network: LivingNetwork,
    label: Label,
    model: LocalModel,
    rows: OwnRows,
    near: Mapping[Label, float],
) -> Coupling:
    """Return the network's coupling, or the one that predicts a node's held-out rows best."""
    coupling = network.coupling
    if not network.found_together:
        return coupling
    total = sum(near.values())
    X, y = rows
    if total == 0 or len(y) < 2:
        return replace(coupling, alpha=0.0 if total == 0 else STRENGTHS[-1] / total)
    part = np.arange(len(y)) % min(FOLDS, len(y))
    losses = []
    for strength in STRENGTHS:
        tried = replace(coupling, alpha=strength / total)
        loss = 0.0
        for k in range(part.max() + 1):
            kept = part != k
            site = network.site(label, model, (X[kept], y[kept]), near, None, tried)
            alone, answer = network.fitted(site, alone=True)
            fitted = alone
            if strength:
                site = network.site(label, alone, (X[kept], y[kept]), near, answer, tried)
                fitted, _ = network.fitted(site)
            target = network.task.encode(y[~kept])
            loss += float(coupling.loss.per_row(target, fitted.predict(X[~kept])).sum())
        losses.append(loss)
    return replace(coupling, alpha=STRENGTHS[int(np.argmin(losses))] / total)


def error_of_neighbours(
    network: LivingNetwork, W: FloatArray, target: FloatArray, near: Mapping[Label, float]
) -> float:
    """Return the mean loss of what neighbours, taken together, would answer on rows.

    ``W`` carries answers over to these rows: see ``Guesses.weights``.
    """
    shares = np.array(list(near.values()))
    said = np.tensordot(shares / shares.sum(), np.array([network.said[j] for j in near]), 1)
    guess = network.task.plausible(W @ said)
    return network.coupling.loss.mean(target, guess)
