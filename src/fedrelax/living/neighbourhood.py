"""A node looks for its neighbours: those whose answers fit its own rows, and then those it agrees with.

First comes what no majority can change: how well others' answers, carried over from the public rows to the
node's own, fit its labels. A single node may fit a few rows by chance, so it is judged with its neighbours:
what counts is the mean of what a node and its neighbours say. With neighbours found this way, the node fits
a first model, and then keeps those whose answers on the public rows are as close to its own as the wiring
asks of neighbours: at most ``TIMES`` as far as the nearest ones are on average.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fedrelax.living.network import LivingNetwork, Near, OwnRows
from fedrelax.models import LocalModel
from fedrelax.runtime import Coupling
from fedrelax.runtime.site import levelled
from fedrelax.typing import FloatArray, Label
from fedrelax.wiring.rewire import FAR, FLOOR

TIMES = 2.0
"""A node at most this many times as far away as the nearest ones is a neighbour, too."""
WIDER = 4
"""Agreement on the public rows decides among this many times the number of neighbours wanted."""
STRENGTHS = (0.0, 0.1, 1.0, 10.0, 100.0)
"""alpha times the total weight of the neighbours: a node chooses among these by cross-validation."""
FOLDS = 5
"""The number of folds; fewer rows than this are left out one by one."""
MOST_STEPS, SETTLED = 50, 1e-9
"""A newcomer whose problem depends on its own last answers is refitted so often, or until the largest
change relative to the largest answer is below the second."""


def find_neighbours(
    network: LivingNetwork, label: Label, rows: OwnRows, model: LocalModel | None = None
) -> Near:
    """Return the neighbours that a node finds by its rows.

    ``model`` is the node's; by default, one like that of the neighbour that fits best.
    """
    X, y = rows
    target, coupling = network.task.encode(y), network.coupling
    level, classes = coupling.level, network.task.is_classification
    labels, guesses = network.guesses(X)
    levels = levelled(guesses, target[None], level, classes)
    fits = coupling.loss.per_row(target[None], levels).mean(axis=1)
    order = [k for k in np.argsort(fits, kind="stable") if labels[k] != label]
    losses = {labels[k]: float(fits[k]) for k in order if np.isfinite(fits[k])}
    size, weight = network.neighbourhood_size, network.usual_weight
    fitting = _near(losses, size)
    first = network.models[fitting[0]] if model is None else model
    _, answer, _ = fit_newcomer(network, label, first, rows, dict.fromkeys(fitting, weight))
    wider = list(losses)[: WIDER * size]
    theirs = levelled(np.stack([network.said[j] for j in wider]), answer[None], level, classes)
    apart = coupling.discrepancy.per_row(theirs, answer[None]).mean(axis=1)
    order = np.argsort(apart, kind="stable").tolist()
    agreeing = _near({wider[k]: float(apart[k]) for k in order}, size)
    fit, other = (np.mean([losses[j] for j in chosen]) for chosen in (fitting, agreeing))
    if FAR * fit < other:
        agreeing = fitting
    return dict.fromkeys(agreeing, weight)


def _near(distances: Mapping[Label, float], size: int) -> list[Label]:
    """Return at most ``size`` nodes that are about as near as the nearest half of that number."""
    values = np.array(list(distances.values()))
    least = max(1, min(len(values), (size + 1) // 2))
    raised = np.maximum(values, FLOOR * float(values.mean()))
    count = int((raised <= TIMES * float(raised[:least].mean())).sum())
    return list(distances)[: min(max(count, least), size)]


def fit_newcomer(
    network: LivingNetwork,
    label: Label,
    model: LocalModel,
    rows: OwnRows,
    near: Mapping[Label, float],
) -> tuple[LocalModel, FloatArray, LocalModel]:
    """Fit a node alone, and then with its neighbours; return its model, its answers and that alone.

    Where the problem depends on the node's own last answers, it is refitted until they converge.
    """
    coupling = _chosen_coupling(network, label, model, rows, near)
    alone, answer = network.fit(label, model, rows, {}, None)
    fitted = alone
    for _ in range(MOST_STEPS if network.moves_in_steps else 1):
        before = answer
        fitted, answer = network.fit(label, fitted, rows, near, before, coupling)
        if np.abs(answer - before).max() <= SETTLED * max(np.abs(answer).max(), 1e-300):
            break
    return fitted, answer, alone


def _chosen_coupling(
    network: LivingNetwork,
    label: Label,
    model: LocalModel,
    rows: OwnRows,
    near: Mapping[Label, float],
) -> Coupling:
    """Return the network's coupling, or the one that predicts a node's held-out rows best."""
    coupling, total = network.coupling, sum(near.values())
    if not network.found_together:
        return coupling
    X, y = rows
    if total == 0 or len(y) < 2:
        return replace(coupling, alpha=0.0 if total == 0 else STRENGTHS[-1] / total)
    fold = np.arange(len(y)) % min(FOLDS, len(y))
    losses = dict.fromkeys(STRENGTHS, 0.0)
    for k in range(fold.max() + 1):
        train, held = (X[fold != k], y[fold != k]), (X[fold == k], y[fold == k])
        target = network.task.encode(held[1])
        alone, answer = network.fit(label, model, train, {}, None)
        for strength in STRENGTHS:
            fitted = alone
            if strength:
                tried = replace(coupling, alpha=strength / total)
                fitted, _ = network.fit(label, alone, train, near, answer, tried)
            losses[strength] += float(coupling.loss.per_row(target, fitted.predict(held[0])).sum())
    return replace(coupling, alpha=min(losses, key=losses.__getitem__) / total)
