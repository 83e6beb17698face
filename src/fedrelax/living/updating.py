"""New rows: predicted first, then learned; and nodes whose circle no longer fits them."""

from __future__ import annotations

import time
from collections.abc import Mapping

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

RECENT, PAST = 3, 2
"""Updates that count as recent, and how many before these are needed to tell that something has changed."""
WORSE = FAR**2
"""So many times worse than in a node's own past, and than others are against theirs, is a drift."""


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
            _learn(network, label, rows, keep, fresh=label in moves)
            wave.moved_from(label, before)
        for label in new:
            wave.spread(label)
        wave.run()
        count = sum(len(y) for _, y in new.values())
        said = told(network, wave)
        if remembered:
            said["notes"] += (
                f"{len(remembered)} nodes went on from what they said before, which stands for their old "
                "rows: these are not at hand",
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


def _learn(
    network: LivingNetwork, label: Label, rows: OwnRows, keep: int | None, fresh: bool
) -> None:
    """Fit a node to its rows with the new ones; one that has moved keeps only these."""
    near, known = network.links[label], label in network.rows
    if known and not fresh:
        rows = tuple(np.concatenate(part) for part in zip(network.rows[label], rows, strict=True))  # type: ignore[assignment]
    if keep is not None:
        rows = rows[0][-keep:], rows[1][-keep:]
    if known or fresh:
        network.rows[label] = rows
    if network.can_refit(label):
        network.refit(label)
        return
    if known or fresh:
        fit = fit_newcomer(network, label, network.models[label], rows, near)
        network.models[label], network.said[label] = fit.model, fit.answer
        return
    model, said, coupling = network.models[label], network.said[label], network.remembering(label)
    site = network.site(label, model, rows, near, said, coupling)
    network.models[label], network.said[label] = network.fitted(site)


def _drifting(network: LivingNetwork, new: Mapping[Label, OwnRows]) -> list[Label]:
    """Return nodes whose circle fits their new rows worse than it did, and more so than at others.

    Each node's loss under what its neighbours say is written down, update by update.
    """
    ratios: dict[Label, float] = {}
    for label, (X, y) in new.items():
        near = network.links[label]
        if not near:
            continue
        loss = error_of_circle(network, X, network.task.encode(y), near)
        past = (*network.past.get(label, ()), loss)
        network.past[label] = past
        if len(past) >= PAST + 1:
            last = max(1, min(RECENT, len(past) - PAST))
            before = float(np.mean(past[:-last]))
            ratios[label] = float(np.mean(past[-last:])) / max(before, np.finfo(float).tiny)
    if not ratios:
        return []
    usual = max(float(np.median(list(ratios.values()))), 1.0) if len(ratios) > 2 else 1.0
    return [label for label, ratio in ratios.items() if ratio > WORSE * usual]


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
