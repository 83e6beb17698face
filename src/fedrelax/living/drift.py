"""Drift: a node whose circle no longer fits its new rows is reported, and looks for another circle."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from fedrelax.living.circles import find_circle
from fedrelax.living.fitting import fit_newcomer
from fedrelax.living.joining import error_of_circle
from fedrelax.living.network import LivingNetwork, OwnRows
from fedrelax.living.past import RECENT, Past
from fedrelax.typing import FloatArray, Label
from fedrelax.wiring.rewire import FAR

WORSE, SURE = FAR**2, 4.0
"""A node drifts if its loss exceeds that of its own past by this factor, relative to the same ratio at
others, and by this many standard errors of the logarithm (those of squared Gaussian errors)."""


def drifting_nodes(network: LivingNetwork, new: Mapping[Label, OwnRows]) -> list[Label]:
    """Return nodes whose circle fits their new rows worse than before, and by more than at others.

    Each node's loss under what its neighbours say is recorded, update by update.
    """
    found: dict[Label, list[tuple[float, float]]] = {}
    weights = network.guesses.weights(np.concatenate([X for X, _ in new.values()]))
    ends = np.cumsum([len(y) for _, y in new.values()])
    for (label, (_, y)), W in zip(new.items(), np.split(weights, ends[:-1]), strict=True):
        near = network.links[label]
        if near:
            loss = error_of_circle(network, W, network.task.encode(y), near)
            past = network.past.get(label, Past()).then(loss, len(y))
            network.past[label] = past
            found[label] = past.changes()
    usual = [0.0] * RECENT
    for k in range(RECENT) if len(found) > 2 else ():
        known = [changes[k][0] for changes in found.values() if len(changes) > k]
        usual[k] = max(float(np.median(known)), 0.0) if known else 0.0
    return [label for label, changes in found.items() if _is_drift(changes, usual)]


def _is_drift(changes: list[tuple[float, float]], usual: list[float]) -> bool:
    return any(
        change - common > max(math.log(WORSE), SURE * error)
        for (change, error), common in zip(changes, usual, strict=False)
    )


def new_circle(network: LivingNetwork, label: Label, rows: OwnRows) -> dict[Label, float] | None:
    """Return a new circle that fits a node's new rows far better than its own does, or None."""
    X, y = rows
    target = network.task.encode(y)

    def answers(near: dict[Label, float]) -> FloatArray:
        return fit_newcomer(network, label, network.models[label], rows, near).answer

    found, seen = find_circle(network, label, X, target, answers)
    own = list(network.links[label])
    if own and not FAR * seen.loss_of(list(found)) < seen.loss_of(own):
        return None
    network.past[label] = Past()
    return found
