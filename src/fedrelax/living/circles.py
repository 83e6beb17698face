"""A node looks for its circle: those whose answers fit its own rows, and then those it agrees with.

What no crowd can change comes first: how well others' answers, carried over from the public rows to the
node's own, fit its labels. A single node may fit a few rows by chance, so it is judged with its neighbours:
what counts is the mean of what a node and its circle say. With neighbours found this way, the node fits a
first model, and then keeps those whose answers on the public rows are as close to its own as the wiring
asks of neighbours: at most ``TIMES`` as far as the nearest ones are on average.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedrelax.living.edges import mean_of_neighbours
from fedrelax.runtime.level import levelled
from fedrelax.typing import AnyArray, FloatArray, IntArray, Label
from fedrelax.wiring.rewire import FAR, FLOOR

if TYPE_CHECKING:
    from fedrelax.living.network import LivingNetwork

TIMES = 2.0
"""A node at most this many times as far away as the nearest ones is a neighbour, too."""
WIDER = 4
"""Agreement on the public rows decides among this many times the number of neighbours wanted."""
FEWEST, MOST, SHARE = 3, 60, 0.1
"""Neighbours to look for: at least, at most, and as a share of all nodes where all are connected alike."""


@dataclass(frozen=True)
class Look:
    """All possible neighbours, and the loss on a node's own rows under what each says with its circle."""

    labels: list[Label]
    losses: FloatArray
    """From the best to the worst."""

    def loss_of(self, chosen: list[Label]) -> float:
        """Return the mean loss of those chosen."""
        place = {label: k for k, label in enumerate(self.labels)}
        return float(self.losses[[place[label] for label in chosen]].mean())


def look(network: LivingNetwork, X: AnyArray, target: FloatArray, apart: Label | None) -> Look:
    """Return how well what every node but ``apart`` says, together with its circle, fits these rows."""
    labels, guesses = network.guesses.of_all(X)
    together = 0.5 * guesses + 0.5 * mean_of_neighbours(network.links, labels, guesses)
    coupling = network.coupling
    told = levelled(together, target[None], coupling.level, network.task.is_classification)
    losses = coupling.loss.per_row(target[None], told).mean(axis=1)
    usable = np.isfinite(losses)
    if apart is not None:
        usable &= np.array([label != apart for label in labels])
    order = np.flatnonzero(usable)[np.argsort(losses[usable], kind="stable")]
    return Look([labels[k] for k in order], losses[order])


def find_circle(
    network: LivingNetwork,
    label: Label,
    X: AnyArray,
    target: FloatArray,
    fit: Callable[[dict[Label, float]], FloatArray],
) -> tuple[dict[Label, float], Look]:
    """Return the neighbours that a node finds by its rows; ``fit`` returns its answers given neighbours."""
    seen = look(network, X, target, label)
    size = network.circle_size
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


def circle_size(degrees: IntArray, uniform: bool) -> int:
    """Return how many neighbours a newcomer looks for: as many as nodes usually have.

    >>> circle_size(np.array([4, 6, 5, 5, 5]), False), circle_size(np.full(101, 100), True)
    (5, 11)
    """
    n = len(degrees)
    joined = degrees[degrees > 0]
    usual = SHARE * n if uniform or not len(joined) else float(np.median(joined))
    return int(min(max(np.ceil(usual), FEWEST), MOST, max(n, 1)))
