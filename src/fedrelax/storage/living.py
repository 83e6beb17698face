"""What a result keeps so that its network can go on: public rows, answers, coupling and story.

Answers are stored in parts, each one array (nodes, public rows, outputs): a result that grew out of
another has the parts of its ancestor and one more for what is new. Later parts override earlier ones.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from fedrelax.combining import as_combine
from fedrelax.errors import FedRelaxError
from fedrelax.living import Change, LivingNetwork
from fedrelax.living.origin import Origin
from fedrelax.living.past import Past
from fedrelax.losses import get_loss
from fedrelax.network.columns import public_rows
from fedrelax.runtime import Coupling, Distillation
from fedrelax.schema import Preparation
from fedrelax.storage.checking import damage, reading
from fedrelax.typing import FloatArray, Label

LIVING, PUBLIC, ANSWERS = "living.json", "public.npy", "answers.npy"


def living_of(network: LivingNetwork, task: str) -> dict[str, Any] | None:
    """Return ``living.json`` without answers and story; None if a file cannot express the coupling."""
    coupling = network.coupling
    plain = {
        "alpha": coupling.alpha,
        "loss": coupling.loss.name,
        "discrepancy": coupling.discrepancy.name,
        "symmetric": coupling.symmetric,
        "weighting": coupling.weighting,
        "level": coupling.level,
        "collapse": coupling.collapse,
        "distillation": None if coupling.distillation is None else asdict(coupling.distillation),
        "continued": coupling.continued,
        "damping": coupling.damping,
        "combine": coupling.combine.name,
    }
    try:
        known = _coupling(plain, task) == coupling
    except FedRelaxError:  # a loss of the user's own
        known = False
    if not known:  # a loss or a way to combine with settings of its own
        return None
    return {
        "coupling": plain,
        "found_together": network.found_together,
        "wired": network.wired,
        "seed": network.seed,
        "stayed": [label for label in network.models if label in network.stayed],
        "past": [{"node": label, **past.to_dict()} for label, past in network.past.items()],
    }


def write_first(draft: Path, network: LivingNetwork, about: dict[str, Any]) -> dict[str, Any]:
    """Write public rows and all answers, and return the content of ``living.json``."""
    assert network.public.common is not None
    labels = list(network.models)
    write_array(draft / PUBLIC, network.public.common)
    part = write_part(draft / ANSWERS, network, labels)
    return {**about, "answers": [part], "story": told(network.story), "ancestors": []}


def write_part(path: Path, network: LivingNetwork, labels: Sequence[Label]) -> dict[str, Any]:
    """Write the answers of some nodes, and return the entry about the file."""
    write_array(path, np.stack([network.said[label] for label in labels]))
    return {
        "file": path.name,
        "nodes": list(labels),
        "rows": [network.count_of(label) for label in labels],
    }


def told(story: Sequence[Change]) -> list[dict[str, Any]]:
    """Return changes as plain values."""
    return [change.to_dict() for change in story]


def write_array(path: Path, array: FloatArray) -> None:
    """Write numbers as .npy, which holds no objects."""
    with open(path, "wb") as file:
        np.save(file, np.ascontiguousarray(array, dtype=np.float64), allow_pickle=False)


def read_array(content: bytes, file: str, dimensions: int | None = None) -> FloatArray:
    """Return the numbers of an .npy file, whose header must match what the file holds."""
    with reading(file):
        stream = io.BytesIO(content)
        version = np.lib.format.read_magic(stream)
        if version != (1, 0):
            raise FedRelaxError(f"it has version {version} of the .npy format")
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        if dtype != np.float64 or stream.tell() + 8 * math.prod(shape) != len(content):
            raise FedRelaxError(f"its header says {dtype} of shape {shape}")
        if dimensions is not None and len(shape) != dimensions:
            raise FedRelaxError(f"it has the shape {shape}")
        stream.seek(0)
        return np.asarray(np.load(stream, allow_pickle=False))


def check_living(said: Mapping[str, Any], nodes: Sequence[Label]) -> None:
    """Refuse a ``living.json`` that is incomplete or names unknown nodes."""
    kinds: dict[str, type | tuple[type, ...]] = {
        "coupling": dict,
        "found_together": bool,
        "wired": bool,
        "seed": int,
        "stayed": list,
        "past": list,
        "answers": list,
        "story": list,
        "ancestors": list,
    }
    for name, kind in kinds.items():
        if not isinstance(said.get(name), kind):
            raise damage(LIVING, f"has no {name!r}, or one of the wrong kind")
    known = set(nodes)
    for line in said["answers"]:
        whole = isinstance(line, dict) and isinstance(line.get("file"), str)
        if not whole or not all(isinstance(line.get(name), list) for name in ("nodes", "rows")):
            raise damage(LIVING, "has a part of the answers without file, nodes and rows")
        if len(line["nodes"]) != len(line["rows"]) or not known.issuperset(line["nodes"]):
            raise damage(LIVING, f"names nodes for {line['file']} that are unknown or not counted")
    for line in (*said["story"], *said["ancestors"]):
        if not isinstance(line, dict):
            raise damage(LIVING, "has an entry in its story or ancestors that is not an object")


def origin_of(
    said: Mapping[str, Any],
    read: Any,
    labels: Sequence[Label],
    task: Any,
    preparation: Preparation | None,
    width: int,
) -> Origin:
    """Return what a network needs to go on; ``read`` returns the content of a file of the result."""
    public = read_array(read(PUBLIC), PUBLIC)
    if public.ndim < 2 or not len(public) or (public.ndim == 2 and public.shape[1] != width):
        raise damage(PUBLIC, f"has the shape {public.shape} where rows of {width} are needed")
    shape = (len(public), task.n_outputs)
    place = {label: k for k, label in enumerate(labels)}
    answers = np.full((len(labels), *shape), np.nan)
    counts: dict[Label, int] = {}
    for line in said["answers"]:
        part = read_array(read(line["file"]), line["file"], 3)
        if part.shape != (len(line["nodes"]), *shape):
            raise damage(line["file"], f"has the shape {part.shape}")
        for label, answer, rows in zip(line["nodes"], part, line["rows"], strict=True):
            if label in place:
                answers[place[label]] = answer
                counts[label] = rows
    if not np.isfinite(answers).all():
        raise damage(LIVING, "does not give the answers of all nodes")
    with reading(LIVING):
        return Origin(
            public=public_rows(preparation, common=public),
            coupling=_coupling(said["coupling"], task.kind),
            found_together=said["found_together"],
            wired=said["wired"],
            seed=said["seed"],
            answers=answers,
            counts=counts,
            past={line["node"]: Past.from_dict(line) for line in said["past"]},
        )


def _coupling(said: Mapping[str, Any], task: str) -> Coupling:
    echo = said["distillation"]
    return Coupling(
        alpha=float(said["alpha"]),
        loss=get_loss(said["loss"], task),
        discrepancy=get_loss(said["discrepancy"], task),
        symmetric=bool(said["symmetric"]),
        weighting=str(said["weighting"]),
        level=float(said["level"]),
        collapse=bool(said["collapse"]),
        distillation=None if echo is None else Distillation(int(echo["rows"]), str(echo["draw"])),
        continued=bool(said["continued"]),
        damping=float(said["damping"]),
        combine=as_combine(said["combine"]),
    )
