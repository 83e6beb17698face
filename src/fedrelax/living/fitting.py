"""How a newcomer is fitted: as the others are, or with a coupling of its own where theirs is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from fedrelax.living.network import LivingNetwork, OwnRows
from fedrelax.models import LocalModel
from fedrelax.runtime import Coupling
from fedrelax.typing import FloatArray, Label

STRENGTHS = (0.0, 0.1, 1.0, 10.0, 100.0)
"""alpha times the total weight of the neighbours: a node chooses among these by cross-validation."""
FOLDS = 5
"""The number of folds; fewer rows than this are left out one by one."""


@dataclass(frozen=True)
class Fit:
    """A node's model, its answers on the public rows, its model trained alone, and the coupling used."""

    model: LocalModel
    answer: FloatArray
    alone: LocalModel
    coupling: Coupling


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
    return Fit(first, answer, alone, coupling)


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
