"""Nodes join, learn new rows and leave; and the changelog of what each change did."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError, NodeFitError, did_you_mean, in_one_line
from fedrelax.graph.families import on_the_sphere
from fedrelax.living.neighbourhood import find_neighbours, fit_newcomer
from fedrelax.living.network import LivingNetwork, Near, OwnRows, check_finite
from fedrelax.living.ripple import Ripple
from fedrelax.models import LocalModel
from fedrelax.typing import FloatArray, Label
from fedrelax.validation import check_count


def now() -> str:
    """Return the current time, in UTC, as files have it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Change:
    """A node that joined or left, or new rows that were learned.

    what : "join", "update" or "leave"; ``nodes`` are those that did, ``when`` is the time.
    neighbours : whom a newcomer listens to, and how much.
    rows : the number of new rows; ``error`` is the mean loss of their predictions before they were
        learned, NaN if there were none, and ``errors`` the same by node. For a newcomer it is the loss of
        its neighbours' answers on its rows; it is too low where these were found by these very rows.
    refitted : nodes whose models changed; ``refits`` is the number of fits.
    waiting : nodes that should have been refitted but stay as they are, as their rows are not available.
    movement : the largest change of a node's answers on the public rows, relative to their size.
    notes : what else there is to say, a sentence each.
    """

    what: str
    nodes: tuple[Label, ...]
    when: str = field(default_factory=now)
    neighbours: Mapping[Label, float] = field(default_factory=dict)
    rows: int = 0
    error: float = float("nan")
    errors: Mapping[Label, float] = field(default_factory=dict)
    refitted: tuple[Label, ...] = ()
    refits: int = 0
    waiting: tuple[Label, ...] = ()
    movement: float = 0.0
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for a file: counts instead of lists that would name nodes that may leave."""
        plain = {
            name: value for name, value in vars(self).items() if name not in ("refits", "errors")
        }
        plain |= {name: list(plain[name]) for name in ("nodes", "neighbours", "notes")}
        return plain | {name: len(plain[name]) for name in ("refitted", "waiting")}


def plug_in(
    network: LivingNetwork,
    label: Label,
    rows: OwnRows,
    model: LocalModel | None = None,
    neighbours: Mapping[Label, float] | Iterable[Label] | None = None,
    position: object = None,
    tol: float | None = None,
) -> Change:
    """Let a newcomer find its neighbours, fit, and take its place; then let the others follow."""
    start = time.perf_counter()
    if label in network.models:
        raise FedRelaxError(
            f"node {label!r} is in the network already; pass its new rows to update(), or unplug() it first"
        )
    here = None if position is None else np.asarray(position, dtype=float)
    if neighbours is not None:
        near = _checked(network, label, neighbours)
    elif here is not None:
        near = _nearest(network, label, here)
    else:
        near = network.neighbours_of(label) if network.knows(label) else {}
    with network.changing():
        network.enter(label, here)
        weights, target = network.carrying(rows[0]), network.task.encode(rows[1])
        check_finite(label, weights)
        near = near or find_neighbours(network, label, rows, model)
        answers = [network.said[j] for j in near]
        guess = weights @ np.average(answers, axis=0, weights=list(near.values()))
        error = network.coupling.loss.mean(target, network.task.plausible(guess))
        check_finite(label, error)
        first = network.models[next(iter(near))] if model is None else model
        wave = Ripple(network, near, tol)
        fitted, network.said[label], network.alone[label] = fit_newcomer(
            network, label, first, rows, near
        )
        network.models[label], network.rows[label] = fitted, rows
        network.connect(label, near)
        wave.fitted(label)
        wave.spread(label)
        if network.least_squares.serves(label):
            wave.add(label)
        network.given[label] = dict(near)
        found: dict[str, Any] = {"neighbours": near, "rows": len(target), "errors": {label: error}}
        return _finished(network, wave, start, what="join", nodes=(label,), error=error, **found)


def unplug(network: LivingNetwork, label: Label, tol: float | None = None) -> Change:
    """Forget a node: its model, answers, rows and edges; its neighbours are refitted without it."""
    start = time.perf_counter()
    if not network.knows(label):
        raise FedRelaxError(
            f"node {label!r} is not in the network{did_you_mean(label, network.models)}"
        )
    if len(network.models) < 2 and label in network.models:
        raise FedRelaxError(f"node {label!r} is the last one with a model; it cannot be unplugged")
    with network.changing():
        near = network.neighbours_of(label) if label in network.models else {}
        wave = Ripple(network, near, tol)
        network.forget(label)
        for other in near:
            wave.add(other)
        return _finished(network, wave, start, what="leave", nodes=(label,))


def update(
    network: LivingNetwork,
    new: Mapping[Label, OwnRows],
    keep: int | None = None,
    tol: float | None = None,
) -> Change:
    """Predict new rows, learn them, and let the others follow."""
    start = time.perf_counter()
    if keep is not None:
        check_count("keep", keep, least=1)
    for label in new:
        if label not in network.models:
            hint = did_you_mean(label, network.models)
            raise FedRelaxError(f"node {label!r} has no model in this network{hint}")
    with network.changing():
        errors = {label: _error_before(network, label, rows) for label, rows in new.items()}
        count = sum(len(y) for _, y in new.values())
        total = sum(errors[label] * len(y) for label, (_, y) in new.items())
        wave = Ripple(network, new, tol)
        without = [label for label in new if label not in network.rows]
        for label, (X, y) in new.items():
            if label in without:
                network.refit(label, (X, y))
                wave.fitted(label)
                continue
            old = network.rows[label]
            X, y = np.concatenate([old[0], X]), np.concatenate([old[1], y])
            rows = network.rows[label] = (X, y) if keep is None else (X[-keep:], y[-keep:])
            if network.can_refit(label) and network.least_squares.serves(label):
                wave.add(label)
                continue
            if network.can_refit(label):
                network.refit(label)
            else:
                network.models[label], network.said[label], _ = fit_newcomer(
                    network, label, network.models[label], rows, network.links[label]
                )
            wave.fitted(label)
        for label in new:
            wave.spread(label)
        note = (
            f"the old rows of {len(without)} of these nodes are not available; their earlier answers "
            "stand in for them"
        )
        found = {"rows": count, "error": total / count, "errors": errors}
        notes = (note,) if without else ()
        return _finished(network, wave, start, notes, what="update", nodes=tuple(new), **found)


def _finished(
    network: LivingNetwork, wave: Ripple, start: float, notes: tuple[str, ...] = (), **found: Any
) -> Change:
    """Let others follow, and add the change to the story, with what followed and the time it took."""
    wave.run()
    done = Change(
        refitted=tuple(wave.refits),
        refits=sum(wave.refits.values()),
        waiting=tuple(wave.waiting),
        movement=wave.movement,
        notes=wave.notes + notes,
        seconds=time.perf_counter() - start,
        **found,
    )
    network.story.append(done)
    return done


# The neighbours of a newcomer


def _checked(
    network: LivingNetwork, label: Label, neighbours: Mapping[Label, float] | Iterable[Label]
) -> Near:
    if not isinstance(neighbours, Mapping):
        neighbours = dict.fromkeys(neighbours, network.usual_weight)
    near = {other: float(weight) for other, weight in neighbours.items()}
    for other, weight in near.items():
        if other not in network.models:
            hint = did_you_mean(other, network.models)
            raise FedRelaxError(
                f"neighbours of node {label!r}: {other!r} has no model in this network{hint}"
            )
        if not (np.isfinite(weight) and weight > 0):
            raise FedRelaxError(
                f"neighbours of node {label!r}: the weight of {other!r} is {weight}; give a number "
                "above 0"
            )
    return near


def _nearest(network: LivingNetwork, label: Label, here: FloatArray) -> Near:
    """Return the nearest nodes with a model, as many as nodes usually have neighbours."""
    graph = network.graph
    if graph.positions is None:
        raise FedRelaxError(
            f"node {label!r} has a position, but the network's graph has none; give neighbours="
        )
    if here.shape != graph.positions.shape[1:] or not np.isfinite(here).all():
        raise FedRelaxError(
            f"position={here.tolist()!r} of node {label!r} must be {graph.positions.shape[1]} finite "
            "numbers"
        )
    known = dict(zip(graph.labels, graph.positions, strict=True)) | dict(network.positions)
    labels = [other for other in known if other in network.models]
    points = np.array([*(known[other] for other in labels), here])
    if graph.geographic:
        points = on_the_sphere(points, [*labels, label])
    apart = np.linalg.norm(points[:-1] - points[-1], axis=1)
    order = np.argsort(apart, kind="stable")[: network.neighbourhood_size]
    return {labels[k]: network.usual_weight for k in order}


# New rows


def _error_before(network: LivingNetwork, label: Label, rows: OwnRows) -> float:
    """Return a node's mean loss on rows that it has not learned."""
    model = network.models[label]
    try:
        predicted = model.predict(rows[0])
    except ValueError as error:  # a model may refuse values that are too large
        raise NodeFitError(
            f"node {label!r}: {model.name} cannot predict its new rows "
            f"({in_one_line(error, kind=False)}); correct them or leave them out"
        ) from error
    loss = network.coupling.loss.mean(network.task.encode(rows[1]), predicted)
    check_finite(label, loss)
    return loss
