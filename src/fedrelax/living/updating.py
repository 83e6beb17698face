"""New rows: predicted first, then learned; a node that has drifted may look for other neighbours."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

import numpy as np

from fedrelax.errors import FedRelaxError, NodeFitError
from fedrelax.living.changelog import RECENT, UPDATE, Change, Past, now
from fedrelax.living.joining import kept, told, tolerance
from fedrelax.living.neighbourhood import error_of_neighbours, find_neighbours, fit_newcomer
from fedrelax.living.network import LivingNetwork, OwnRows, overflow
from fedrelax.living.overlay import join
from fedrelax.living.propagation import Propagation
from fedrelax.typing import AnyArray, FloatArray, Label
from fedrelax.wiring.rewire import FAR

WORSE, SURE = FAR**2, 4.0
"""A node drifts if its loss exceeds that of its own past by this factor, relative to the same ratio at
others, and by this many standard errors of the logarithm (those of squared Gaussian errors)."""


def drifting_nodes(network: LivingNetwork, new: Mapping[Label, OwnRows]) -> list[Label]:
    """Return nodes whose neighbours fit their new rows worse than before, and by more than at others.

    Each node's loss under what its neighbours say is recorded, update by update.
    """
    found: dict[Label, list[tuple[float, float]]] = {}
    weights = network.guesses.weights(np.concatenate([X for X, _ in new.values()]))
    ends = np.cumsum([len(y) for _, y in new.values()])
    for (label, (_, y)), W in zip(new.items(), np.split(weights, ends[:-1]), strict=True):
        near = network.links[label]
        if near:
            loss = error_of_neighbours(network, W, network.task.encode(y), near)
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


def new_neighbours(
    network: LivingNetwork, label: Label, rows: OwnRows
) -> dict[Label, float] | None:
    """Return new neighbours that fit a node's new rows far better than its own do, or None."""
    X, y = rows
    target = network.task.encode(y)

    def answers(near: dict[Label, float]) -> FloatArray:
        return fit_newcomer(network, label, network.models[label], rows, near).answer

    found, seen = find_neighbours(network, label, X, target, answers)
    own = list(network.links[label])
    if own and not FAR * seen.loss_of(list(found)) < seen.loss_of(own):
        return None
    network.past[label] = Past()
    return found


def update(
    network: LivingNetwork,
    new: Mapping[Label, OwnRows],
    keep: int | None = None,
    ripple: int | None = None,
    tol: float | None = None,
) -> Change:
    """Predict new rows, learn them, let nodes that drifted move, and let the others follow."""
    start = time.perf_counter()
    if keep is not None and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 1):
        raise FedRelaxError(f"keep={keep!r} must be a whole number of rows, 1 or more")
    for label in new:
        network.check_model_of(label)
    with network.changing():
        errors, sums = {}, []
        for label, (X, y) in new.items():
            target = network.task.encode(y)
            losses = network.coupling.loss.per_row(target, _predicted(network, label, X))
            if not np.isfinite(losses.sum()):
                raise overflow(label)
            errors[label] = float(losses.mean())
            sums.append(float(losses.sum()))
        drifting = drifting_nodes(network, new)
        moves = {}
        wave = Propagation(network, tolerance(network, new, tol), ripple)
        for label in drifting if network.wired else ():
            found = new_neighbours(network, label, new[label])
            if found is not None:
                moves[label] = tuple(found)
                wave.start(network.links[label], distance=1)
                join(network.links, label, found)
                wave.start(found, distance=1)
        remembered = [label for label in new if label not in network.rows]
        for label, rows in new.items():
            before = network.said[label]
            if not _take(network, label, rows, keep, fresh=label in moves):
                _remember(network, label, rows)
                wave.fitted(label, before)
            elif network.can_refit(label) and network.least_squares.serves(label):
                wave.start([label])
            else:
                _learn(network, label)
                wave.fitted(label, before)
        for label in new:
            wave.spread(label)
        wave.run()
        count = sum(len(y) for _, y in new.values())
        said = told(network, wave)
        if remembered:
            said["notes"] += (
                f"the old rows of {len(remembered)} of these nodes are not available; their earlier "
                "answers stand in for them",
            )
        change = Change(
            UPDATE,
            tuple(new),
            now(),
            rows=count,
            error=sum(sums) / count,
            errors=errors,
            drifting=tuple(drifting),
            moves=moves,
            **said,
        )
    return kept(network, change, start)


def _predicted(network: LivingNetwork, label: Label, X: AnyArray) -> FloatArray:
    """Return what a node predicts for new rows."""
    try:
        return network.models[label].predict(X)
    except ValueError as error:  # a model may refuse values that are too large
        text = " ".join(str(error).split())
        raise NodeFitError(
            f"node {label!r}: {network.models[label].name} cannot predict its new rows ({text}); correct "
            "them or leave them out"
        ) from error


def _take(
    network: LivingNetwork, label: Label, rows: OwnRows, keep: int | None, fresh: bool
) -> bool:
    """Add new rows to a node's own; one that moved keeps only these. False if the old are unknown."""
    if not fresh and label not in network.rows:
        return False
    X, y = rows
    if not fresh:
        old = network.rows[label]
        X, y = np.concatenate([old[0], X]), np.concatenate([old[1], y])
    network.rows[label] = (X, y) if keep is None else (X[-keep:], y[-keep:])
    return True


def _learn(network: LivingNetwork, label: Label) -> None:
    """Fit a node to its rows, with what its neighbours say."""
    if network.can_refit(label):
        network.refit(label)
        return
    model, rows, near = network.models[label], network.rows[label], network.links[label]
    fit = fit_newcomer(network, label, model, rows, near)
    network.models[label], network.said[label] = fit.model, fit.answer


def _remember(network: LivingNetwork, label: Label, rows: OwnRows) -> None:
    """Fit a node to new rows and to its earlier answers, which stand in for its old ones."""
    model, said, coupling = network.models[label], network.said[label], network.remembering(label)
    site = network.site(label, model, rows, network.links[label], said, coupling)
    network.models[label], network.said[label] = network.fitted(site)
