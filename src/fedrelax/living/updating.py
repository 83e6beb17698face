"""New rows: predicted first, then learned."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np

from fedrelax.errors import FedRelaxError, NodeFitError
from fedrelax.living.change import UPDATE, Change
from fedrelax.living.drift import drifting_nodes, new_circle
from fedrelax.living.edges import join
from fedrelax.living.fitting import fit_newcomer
from fedrelax.living.joining import kept, now, told, tolerance
from fedrelax.living.network import LivingNetwork, OwnRows, overflow
from fedrelax.living.ripple import Ripple
from fedrelax.typing import AnyArray, FloatArray, Label


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
        wave = Ripple(network, tolerance(network, new, tol), ripple)
        for label in drifting if network.wired else ():
            found = new_circle(network, label, new[label])
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
