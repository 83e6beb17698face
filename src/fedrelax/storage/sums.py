"""Sums of two models on disk: a zip of both files, each in the format of its kind."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fedrelax.errors import FedRelaxError
from fedrelax.models.archive import (
    classes_in,
    closed,
    described_classes,
    json_member,
    member,
    opened,
)
from fedrelax.models.class_difference import SumClassifier
from fedrelax.models.difference import SumRegressor
from fedrelax.storage.checking import Untrusted

ABOUT, PARTS = "about.json", ("consensus", "difference")


def is_sum(model: Any) -> bool:
    """Whether a model is a sum of two."""
    return isinstance(model, SumRegressor | SumClassifier)


def to_bytes(model: Any) -> bytes:
    """Return a fitted sum as a zip file."""
    from fedrelax.storage.formats import format_of

    parts = [model.consensus_, model.difference_]
    formats = [format_of(part) for part in parts]
    about = {"share": float(model.share), "formats": [form.name for form in formats]}
    if isinstance(model, SumClassifier):
        about |= {"how": model.how, **described_classes(model.classes_)}
    files = [form.module.to_bytes(part) for form, part in zip(formats, parts, strict=True)]
    return closed({ABOUT: json.dumps(about).encode(), **dict(zip(PARTS, files, strict=True))})


def parts_in(data: bytes) -> list[Any]:
    """Return the files of both parts with their formats; a part is not a sum itself."""
    from fedrelax.storage.formats import Packed, format_named

    members = opened(data)
    names = json_member(members, ABOUT).get("formats")
    if not isinstance(names, list) or len(names) != len(PARTS) or "sum" in names:
        raise FedRelaxError("its file does not hold two models")
    files = [member(members, part) for part in PARTS]
    return [Packed(format_named(name), file) for name, file in zip(names, files, strict=True)]


def from_bytes(data: bytes, trust: Sequence[str]) -> Any:
    """Return the sum in a zip file; all types of both parts must be trusted."""
    from fedrelax.storage.formats import model_in

    models: list[Any] = []
    types: set[str] = set()
    for part in parts_in(data):
        try:
            models.append(model_in(part.format, part.data, trust))
        except Untrusted as error:
            types |= set(error.types)
    if types:
        raise Untrusted((), types)
    about = json_member(opened(data), ABOUT)
    share = float(about["share"])
    if "how" not in about:
        return SumRegressor.of(models[0], models[1], share)
    classes: Any = classes_in(about)
    return SumClassifier.of(models[0], models[1], share, str(about["how"]), classes)
