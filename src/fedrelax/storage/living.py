"""What a result keeps so that its network can go on: public rows, answers, coupling and story.

The answers are one array (nodes, public rows, outputs).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from fedrelax.errors import FedRelaxError
from fedrelax.files import from_npy, to_npy
from fedrelax.jsonfiles import Described, from_plain
from fedrelax.living import LivingNetwork
from fedrelax.living.changelog import Past
from fedrelax.living.network import Origin
from fedrelax.models import LocalModel, Task
from fedrelax.models.difference import DifferenceModel
from fedrelax.models.viewed import Viewed
from fedrelax.network.rows import public_rows
from fedrelax.runtime import Coupling, Settings
from fedrelax.schema import Preparation
from fedrelax.storage import described
from fedrelax.storage.checking import damage, reading
from fedrelax.storage.formats import keeps_unfitted
from fedrelax.typing import FloatArray, Label

LIVING, PUBLIC, ANSWERS = "living.json", "public.npy", "answers.npy"
RUNNING = ("wiring", "exchange", "engine", "n_jobs", "random_state")
"""Settings of the run that trained the network, which nodes that join, learn or leave do not need."""


def living_of(network: LivingNetwork) -> dict[str, Any] | None:
    """Return ``living.json`` without answers and story; None if a file cannot express the coupling."""
    try:
        plain = network.coupling.to_plain(without=RUNNING)
    except FedRelaxError:  # a loss or a way to combine that is not known by its name alone
        return None
    if network.coupling.update == "difference" and not all(
        keeps_unfitted(kind_of(model)) for model in network.models.values()
    ):
        return None
    return {
        "coupling": plain,
        "found_together": network.found_together,
        "wired": network.wired,
        "seed": network.seed,
        "stayed": [label for label in network.models if label in network.stayed],
        "past": [{"node": label, **asdict(past)} for label, past in network.past.items()],
    }


def kind_of(model: LocalModel) -> Any:
    """Return the unfitted model of a node that learns its difference."""
    inner = model.inner if isinstance(model, Viewed) else model
    return inner.kind if isinstance(inner, DifferenceModel) else inner.estimator


def with_answers(
    draft: Path,
    network: LivingNetwork,
    about: Mapping[str, Any],
    story: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Write all nodes' answers and return ``living.json``; ``story`` is what had happened before."""
    labels = list(network.models)
    answers = np.stack([network.said[label] for label in labels])
    (draft / ANSWERS).write_bytes(to_npy(answers.astype(float)))
    rows = [network.count_of(label) for label in labels]
    return {
        **about,
        "answers": [{"file": ANSWERS, "nodes": labels, "rows": rows}],
        "story": [*story, *(change.to_dict() for change in network.story)],
    }


def read_array(content: bytes, file: str) -> FloatArray:
    """Return the numbers of an .npy file, whose header must match what the file holds."""
    with reading(file):
        return from_npy(content)


class PastLine(Described):
    """The losses of a node's updates."""

    node: described.Label
    total: float
    rows: described.Count
    updates: described.Count
    recent: list[tuple[float, Annotated[int, Field(ge=1, le=described.MOST_COUNTED)]]]


class Part(Described):
    """A file of answers: whose they are, and how many rows each was trained on."""

    file: Literal["answers.npy"]
    nodes: list[described.Label]
    rows: list[described.Count]


class Move(Described):
    """A node that moved to other neighbours."""

    node: described.Label
    neighbours: list[described.Label]


class Entry(Described):
    """Nodes that joined, learned or left."""

    what: str
    when: str
    nodes: list[described.Label]
    neighbours: list[described.Label]
    rows: described.Count
    error: float | None
    refitted: described.Count
    drifting: list[described.Label]
    moves: list[Move]


class Living(Described):
    """What ``living.json`` says."""

    coupling: dict[str, Any]
    found_together: bool
    wired: bool
    seed: Annotated[int, Field(ge=0)]
    stayed: list[described.Label]
    past: list[PastLine]
    answers: Annotated[list[Part], Field(min_length=1, max_length=1)]
    story: list[Entry]


def check_living(living: Mapping[str, Any], nodes: Sequence[Label]) -> None:
    """Refuse a ``living.json`` that names unknown nodes."""
    known, (line,) = set(nodes), living["answers"]
    if len(line["nodes"]) != len(line["rows"]) or not known.issuperset(line["nodes"]):
        raise damage(LIVING, f"names nodes for {ANSWERS} that are unknown or not counted")
    named = {"stayed": living["stayed"], "past": [line["node"] for line in living["past"]]}
    for entry, labels in named.items():
        for label in labels:
            if label not in known:
                raise damage(
                    LIVING, f"names the node {label!r} under {entry!r}, which is not in the graph"
                )


def origin_of(
    living: Mapping[str, Any],
    read: Callable[[str], bytes],
    labels: Sequence[Label],
    task: Task,
    preparation: Preparation | None,
    width: int,
) -> Origin:
    """Return what a network needs to go on; ``read`` returns the content of a file of the result."""
    public = read_array(read(PUBLIC), PUBLIC)
    if public.ndim < 2 or not len(public) or (public.ndim == 2 and public.shape[1] != width):
        raise damage(PUBLIC, f"has the shape {public.shape} where rows of {width} are needed")
    gaps = preparation is not None and not preparation.encoded  # then NaN is a missing value
    if np.isinf(public).any() or (np.isnan(public).any() and not gaps):
        raise damage(PUBLIC, "holds NaN or infinite values")
    shape = (len(public), task.n_outputs)
    (line,), answers = living["answers"], read_array(read(ANSWERS), ANSWERS)
    if answers.shape != (len(line["nodes"]), *shape) or not np.isfinite(answers).all():
        raise damage(ANSWERS, f"has the shape {answers.shape}, or numbers that are not finite")
    place = {label: k for k, label in enumerate(line["nodes"])}
    if not place.keys() >= set(labels):
        raise damage(LIVING, "does not give the answers of all nodes")
    with reading(LIVING):
        return Origin(
            public=public_rows(preparation, common=public),
            coupling=_coupling(living["coupling"], task.kind),
            found_together=living["found_together"],
            wired=living["wired"],
            seed=living["seed"],
            answers=answers[[place[label] for label in labels]],
            counts=dict(zip(line["nodes"], line["rows"], strict=True)),
            past={line["node"]: from_plain(Past, line) for line in living["past"]},
        )


def _coupling(living: Mapping[str, Any], task: str) -> Coupling:
    values = dict(living)
    if values.pop("symmetric", False):  # as earlier versions wrote the objective
        values["objective"] = "gtvmin"
    return Settings.from_plain(values).coupling(task)
