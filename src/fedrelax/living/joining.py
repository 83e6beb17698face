"""Nodes join and leave."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError, did_you_mean
from fedrelax.graph.nearest import on_the_sphere
from fedrelax.living.changelog import JOIN, LEAVE, Change, now
from fedrelax.living.neighbourhood import error_of_neighbours, find_neighbours, fit_newcomer
from fedrelax.living.network import LivingNetwork, OwnRows, overflow
from fedrelax.living.overlay import Near, join
from fedrelax.living.propagation import Propagation
from fedrelax.models import LocalModel
from fedrelax.solvers.base import USUAL_TOL
from fedrelax.typing import FloatArray, Label

RESTLESS_TOL = 0.1
"""The change that counts as converged where models never quite converge, such as trees."""
TOGETHER = (
    "the models of this network were found for all nodes together, so the others stay as they are; fit "
    "again with all rows to let them follow"
)


def plug_in(
    network: LivingNetwork,
    label: Label,
    rows: OwnRows | None,
    model: LocalModel | None = None,
    neighbours: Mapping[Label, float] | Iterable[Label] | None = None,
    position: Any = None,
    ripple: int | None = None,
    tol: float | None = None,
) -> Change:
    """Let a newcomer find its neighbours, fit, and take its place; then let the others follow."""
    start = time.perf_counter()
    if label in network.models:
        raise FedRelaxError(
            f"node {label!r} is in the network already; pass its new rows to update(), or unplug() it first"
        )
    near = _given_neighbours(network, label, neighbours, position)
    if rows is None and not near:
        raise FedRelaxError(
            f"node {label!r} has neither rows nor neighbours; give one or the other: X and y, "
            "neighbours= or position="
        )
    with network.changing():
        network.numbers[label] = len(network.numbers.base) + sum(
            k not in network.numbers.base for k in network.numbers.changed
        )
        if position is not None:
            network.positions[label] = np.asarray(position, dtype=float)
        if rows is None:
            network.given[label] = dict(near)
            change = Change(JOIN, (label,), now(), neighbours=near)
        else:
            change = _with_rows(network, label, rows, model, near, ripple, tol)
    return kept(network, change, start)


def _with_rows(
    network: LivingNetwork,
    label: Label,
    rows: OwnRows,
    model: LocalModel | None,
    near: Near,
    ripple: int | None,
    tol: float | None,
) -> Change:
    X, y = rows
    target = network.task.encode(y)

    def template(chosen: Mapping[Label, float]) -> LocalModel:
        return network.models[next(iter(chosen))] if model is None else model

    def answers(chosen: dict[Label, float]) -> FloatArray:
        return fit_newcomer(network, label, template(chosen), rows, chosen).answer

    weights = network.guesses.weights(X)
    if not np.isfinite(weights).all():
        raise overflow(label)
    if not near:
        near, _ = find_neighbours(network, label, X, target, answers)
    error = error_of_neighbours(network, weights, target, near)
    if not np.isfinite(error):
        raise overflow(label)
    fit = fit_newcomer(network, label, template(near), rows, near)
    join(network.links, label, near)
    network.given[label] = dict(near)
    network.rows[label], network.alone[label] = rows, fit.alone
    network.models[label], network.said[label] = fit.model, fit.answer
    wave = Propagation(network, tolerance(network, near, tol), ripple)
    wave.fitted(label, None)
    wave.spread(label)
    if wave.hops != 0 and network.least_squares.serves(label):
        wave.start([label])
    wave.run()
    return Change(
        JOIN,
        (label,),
        now(),
        neighbours=near,
        rows=len(y),
        error=error,
        errors={label: error},
        **told(network, wave),
    )


def unplug(
    network: LivingNetwork, label: Label, ripple: int | None = None, tol: float | None = None
) -> Change:
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
        wave = Propagation(network, tolerance(network, near, tol), ripple)
        network.forget(label)
        wave.start(near, distance=1)
        wave.run()
        change = Change(LEAVE, (label,), now(), **told(network, wave))
    return kept(network, change, start)


def _given_neighbours(
    network: LivingNetwork,
    label: Label,
    neighbours: Mapping[Label, float] | Iterable[Label] | None,
    position: Any,
) -> Near:
    """Return the neighbours given, or those by coordinates or by the graph; empty if to be found."""
    if neighbours is not None:
        near = (
            {j: float(a) for j, a in neighbours.items()}
            if isinstance(neighbours, Mapping)
            else dict.fromkeys(neighbours, network.usual_weight)
        )
        for j, weight in near.items():
            if j not in network.models:
                hint = did_you_mean(j, network.models)
                raise FedRelaxError(
                    f"neighbours of node {label!r}: {j!r} has no model in this network{hint}"
                )
            if not (np.isfinite(weight) and weight > 0):
                raise FedRelaxError(
                    f"neighbours of node {label!r}: the weight of {j!r} is {weight}; give a number "
                    "above 0"
                )
        return near
    if position is not None:
        return _nearest(network, label, position)
    return network.neighbours_of(label) if network.knows(label) else {}


def _nearest(network: LivingNetwork, label: Label, position: Any) -> Near:
    """Return the nearest nodes with a model, as many as nodes usually have neighbours."""
    graph = network.graph
    if graph.positions is None:
        raise FedRelaxError(
            f"node {label!r} has a position, but the network's graph has none; give neighbours="
        )
    here = np.asarray(position, dtype=float)
    if here.shape != graph.positions.shape[1:] or not np.isfinite(here).all():
        raise FedRelaxError(
            f"position={position!r} of node {label!r} must be {graph.positions.shape[1]} finite numbers"
        )
    places = {
        j: place
        for j, place in zip(graph.labels, graph.positions, strict=True)
        if j in network.models
    }
    places |= {j: place for j, place in network.positions.items() if j in network.models}
    points, names = np.array([*places.values(), here]), [*places, label]
    if graph.geographic:
        points = on_the_sphere(points, names)
    apart = np.linalg.norm(points[:-1] - points[-1], axis=1)
    order = np.argsort(apart, kind="stable")[: network.neighbourhood_size]
    return {names[k]: network.usual_weight for k in order}


def tolerance(network: LivingNetwork, near: Iterable[Label], tol: float | None) -> float:
    """Return the change of answers that counts as converged: as given, or as suits the models."""
    if tol is not None:
        if not tol >= 0:
            raise FedRelaxError(f"tol={tol!r} must be a number of at least 0")
        return float(tol)
    models = [network.models[j] for j in near if j in network.models]
    return USUAL_TOL if all(model.settles for model in models) else RESTLESS_TOL


def told(network: LivingNetwork, wave: Propagation) -> dict[str, Any]:
    """Return what a ripple did, for the entry in the story."""
    notes = []
    if network.found_together:
        notes.append(TOGETHER)
    elif wave.waiting:
        rows = [label for label in wave.waiting if label not in network.rows]
        if rows:
            notes.append(
                f"{staying(len(rows))}: their rows are not available, so they cannot be refitted"
            )
        if len(rows) < len(wave.waiting):
            beyond = len(wave.waiting) - len(rows)
            notes.append(f"{staying(beyond)}: the ripple stopped before them")
    return {
        "refitted": tuple(wave.refits),
        "refits": sum(wave.refits.values()),
        "waiting": tuple(wave.waiting),
        "movement": wave.movement,
        "notes": tuple(notes),
    }


def staying(count: int) -> str:
    """Say how many nodes do not follow.

    >>> staying(1), staying(2)
    ('1 neighbour stays as it is', '2 neighbours stay as they are')
    """
    return "1 neighbour stays as it is" if count == 1 else f"{count} neighbours stay as they are"


def kept(network: LivingNetwork, change: Change, start: float) -> Change:
    """Add a change to the story, with the time it took."""
    done = replace(change, seconds=time.perf_counter() - start)
    network.story.append(done)
    return done
