"""New rows: predicted first, then learned; and nodes whose circle no longer fits them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.living.change import UPDATE, Change
from fedrelax.living.circles import find_circle
from fedrelax.living.edges import join
from fedrelax.living.fitting import fit_newcomer
from fedrelax.living.joining import error_of_circle, kept, now, told, tolerance
from fedrelax.living.network import LivingNetwork, OwnRows
from fedrelax.living.ripple import Ripple
from fedrelax.typing import FloatArray, Label
from fedrelax.wiring.rewire import FAR

TINY = float(np.finfo(float).tiny)
RECENT, PAST = 3, 2
"""Updates that may count as recent, and how many before these are needed to tell that anything changed."""
WORSE, SURE = FAR**2, 4.0
"""A drift is a loss so many times that of the node's own past, next to the same ratio at others, and so
many standard errors of its logarithm above it (those of squared Gaussian errors)."""


def update(
    network: LivingNetwork,
    new: Mapping[Label, OwnRows],
    keep: int | None = None,
    ripple: int | None = None,
    tol: float | None = None,
) -> Change:
    """Predict new rows, learn them, let those who have drifted move, and let the others follow."""
    start = time.perf_counter()
    if keep is not None and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 1):
        raise FedRelaxError(f"keep={keep!r} must be a whole number of rows, 1 or more")
    for label in new:
        network.check_model_of(label)
    with network.changing():
        errors, sums = {}, []
        for label, (X, y) in new.items():
            target = network.task.encode(y)
            losses = network.coupling.loss.per_row(target, network.models[label].predict(X))
            errors[label] = float(losses.mean())
            sums.append(float(losses.sum()))
        drifting = _drifting(network, new)
        moves = {}
        wave = Ripple(network, tolerance(network, new, tol), ripple)
        for label in drifting if network.wired else ():
            found = _moved(network, label, new[label])
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
                f"the old rows of {len(remembered)} of these nodes are not at hand; what they said before "
                "stands for them",
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


def _take(
    network: LivingNetwork, label: Label, rows: OwnRows, keep: int | None, fresh: bool
) -> bool:
    """Put new rows to a node's own; one that has moved keeps only these. False if the old are unknown."""
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
    """Fit a node to new rows and to what it said before, which stands for its old ones."""
    model, said, coupling = network.models[label], network.said[label], network.remembering(label)
    site = network.site(label, model, rows, network.links[label], said, coupling)
    network.models[label], network.said[label] = network.fitted(site)


def _drifting(network: LivingNetwork, new: Mapping[Label, OwnRows]) -> list[Label]:
    """Return nodes whose circle fits their new rows worse than it did, and more so than at others.

    Each node's loss under what its neighbours say is written down, update by update.
    """
    ratios: dict[Label, list[tuple[float, float]]] = {}
    weights = network.guesses.weights(np.concatenate([X for X, _ in new.values()]))
    ends = np.cumsum([len(y) for _, y in new.values()])
    for (label, (_, y)), W in zip(new.items(), np.split(weights, ends[:-1]), strict=True):
        near = network.links[label]
        if not near:
            continue
        loss = error_of_circle(network, W, network.task.encode(y), near)
        past = (*network.past.get(label, ()), (loss, len(y)))
        network.past[label] = past
        if len(past) > PAST:
            ratios[label] = _changes(past)
    if not ratios:
        return []
    usual = np.zeros(RECENT)
    if len(ratios) > 2:
        for k in range(RECENT):
            known = [found[k][0] for found in ratios.values() if len(found) > k]
            usual[k] = max(float(np.median(known)), 0.0) if known else 0.0
    return [
        label
        for label, found in ratios.items()
        if any(
            change - common > max(np.log(WORSE), SURE * error)
            for (change, error), common in zip(found, usual, strict=False)
        )
    ]


def _changes(past: Sequence[tuple[float, int]]) -> list[tuple[float, float]]:
    """Return, for the last update, the last two and so on, how the logarithm of the loss has changed.

    With each comes its standard error, by the numbers of rows.
    """
    losses, rows = np.array(past).T
    found = []
    for last in range(1, min(RECENT, len(past) - PAST) + 1):
        now, before = (
            float(np.average(losses[part], weights=rows[part]))
            for part in (slice(-last, None), slice(None, -last))
        )
        change = np.log(max(now, TINY)) - np.log(max(before, TINY))
        error = np.sqrt(2.0 / rows[-last:].sum() + 2.0 / rows[:-last].sum())
        found.append((float(change), float(error)))
    return found


def _moved(network: LivingNetwork, label: Label, rows: OwnRows) -> dict[Label, float] | None:
    """Return a new circle that fits a node's new rows far better than its own does, or None."""
    X, y = rows
    target = network.task.encode(y)

    def answers(near: dict[Label, float]) -> FloatArray:
        return fit_newcomer(network, label, network.models[label], rows, near).answer

    found, seen = find_circle(network, label, X, target, answers)
    own = list(network.links[label])
    if own and not FAR * seen.loss_of(list(found)) < seen.loss_of(own):
        return None
    network.past[label] = ()
    return found
