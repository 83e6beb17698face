"""What the JSON and CSV files of a result must hold, checked before any of it is used."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from io import BytesIO
from typing import Any

import numpy as np

from fedrelax.runtime.history import TOTALS
from fedrelax.storage.checking import damage, reading
from fedrelax.storage.labels import check_labels
from fedrelax.typing import Label

LABEL_COLUMNS = ("node", "source", "target")
TEXT_COLUMNS = ("model", "wiring", "missed")
COLUMNS: dict[str, tuple[str, ...]] = {
    "nodes.csv": ("node",),
    "edges.csv": ("source", "target", "weight", "discrepancy", "discrepancy_back", "used"),
    "history.csv": TOTALS,
    "history_nodes.csv": ("round", "node", "local_loss", "gtv", "validation_loss"),
    "alphas.csv": (),
    "positions.csv": ("node",),
}
"""The columns that each table must have."""

LONGEST_NUMBER = 18
"""Most digits of a whole number that is read as an integer."""


def _is_number(value: Any) -> bool:
    real = isinstance(value, int | float) and not isinstance(value, bool)
    return real and math.isfinite(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_classes(value: Any) -> bool:
    kinds = (str, int, float, bool)
    return value is None or (isinstance(value, list) and all(type(v) in kinds for v in value))


def _is_promises(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, dict)
        and all(_is_number(one.get(name)) for name in ("epsilon", "delta"))
        and all(isinstance(one.get(name), str) for name in ("protects", "says"))
        for one in value
    )


ABOUT: dict[str, tuple[Callable[[Any], bool], str]] = {
    "made": (lambda v: isinstance(v, str), "a time"),
    "versions": (lambda v: isinstance(v, dict), "versions of packages"),
    "task": (lambda v: v in ("regression", "classification"), "regression or classification"),
    "outputs": (lambda v: _is_count(v) and v > 0, "a number of outputs"),
    "classes": (_is_classes, "a list of classes"),
    "classes_are_objects": (lambda v: isinstance(v, bool), "true or false"),
    "feature_names": (lambda v: _is_texts(v) and bool(v), "a list of names"),
    "features_by_name": (lambda v: isinstance(v, bool), "true or false"),
    "graph_nodes": (lambda v: isinstance(v, list) and bool(v), "a list of nodes"),
    "geographic": (lambda v: isinstance(v, bool), "true or false"),
    "alpha": (lambda v: _is_number(v) and v >= 0, "a number of at least 0"),
    "wiring": (lambda v: isinstance(v, str), "a name"),
    "rounds": (_is_count, "a number of rounds"),
    "exchanges": (_is_count, "a number of rounds"),
    "reason": (lambda v: isinstance(v, str), "a text"),
    "public": (
        lambda v: (
            isinstance(v, dict) and _is_count(v.get("rows")) and isinstance(v.get("how"), str)
        ),
        "how the public rows were made, and how many",
    ),
    "node_column": (lambda v: v is None or isinstance(v, str | int), "a column"),
    "target_column": (lambda v: v is None or isinstance(v, str), "a column"),
    "types_to_trust": (_is_texts, "a list of types"),
    "files": (lambda v: isinstance(v, dict), "the checksums of the other files"),
}
"""What ``result.json`` says, and how each entry is checked."""

LATER: dict[str, tuple[Callable[[Any], bool], str]] = {
    "promises": (_is_promises, "a list of promises, each with epsilon, delta and words"),
}
"""Entries that results of earlier versions do not have."""

LINE: dict[str, Callable[[Any], bool]] = {
    "node": lambda v: isinstance(v, str | int | float),
    "file": lambda v: isinstance(v, str),
    "format": lambda v: isinstance(v, str),
    "type": lambda v: isinstance(v, str),
    "rows": lambda v: v in ("encoded", "coded", "frame"),
    "answers": lambda v: isinstance(v, bool),
}
"""What an entry of ``models.json`` says besides size and checksum."""


def read_json(content: bytes, file: str, kind: type) -> Any:
    """Return the content of a JSON file; its outermost value must be of this kind."""
    with reading(file):
        found = json.loads(content)
    if not isinstance(found, kind):
        raise damage(file, f"holds a {type(found).__name__} where a {kind.__name__} is needed")
    return found


def check_about(about: Mapping[str, Any], file: str) -> None:
    """Refuse a description in which an entry is missing or of the wrong kind."""
    later = {name: rule for name, rule in LATER.items() if name in about}
    for name, (fits, what) in {**ABOUT, **later}.items():
        if name not in about or not fits(about[name]):
            found = repr(about[name])[:60] if name in about else "nothing"
            raise damage(file, f"has {found} under {name!r} where {what} is needed")
    with reading(file):
        check_labels(about["graph_nodes"])
    known = 0 if about["classes"] is None else len(about["classes"])
    if known != (about["outputs"] if about["task"] == "classification" else 0):
        raise damage(file, f"has {known} classes but {about['outputs']} outputs")


def check_lines(lines: list[Any], nodes: Iterable[Label]) -> None:
    """Refuse a ``models.json`` in which an entry is incomplete, or a node is unknown or named twice."""
    file, known, seen = "models.json", set(nodes), set()
    for number, line in enumerate(lines, start=1):
        wrong = [name for name, fits in LINE.items() if not fits(_entry(line, name))]
        if wrong:
            raise damage(file, f"has no {wrong[0]!r} in entry {number}, or one of the wrong kind")
        if line["node"] not in known or line["node"] in seen:
            raise damage(file, f"names the node {line['node']!r}, which is unknown or named twice")
        seen.add(line["node"])
    if not lines:
        raise damage(file, "names no model")


def _entry(line: Any, name: str) -> Any:
    return line.get(name) if isinstance(line, dict) else None


def read_frame(content: bytes, file: str, labels: Mapping[str, Label]) -> Any:
    """Return one of our CSV files as a DataFrame; columns that hold nodes get their labels back."""
    import pandas as pd

    with reading(file):
        frame = pd.read_csv(BytesIO(content), dtype=str, keep_default_na=False)
    missing = [column for column in COLUMNS[file] if column not in frame.columns]
    if missing:
        raise damage(file, f"has no column {missing[0]!r}")
    for column in frame.columns:
        texts = frame[column].tolist()
        if not all(isinstance(text, str) for text in texts):
            raise damage(file, "ends in the middle of a line")
        if column in LABEL_COLUMNS:
            strange = [text for text in texts if text not in labels]
            if strange:
                raise damage(file, f"names the node {strange[0]!r}, which is not in the graph")
            found = np.empty(len(frame), dtype=object)
            found[:] = [labels[text] for text in texts]
            frame[column] = found
        elif column not in TEXT_COLUMNS:
            frame[column] = _numbers(texts, file, column)
    if file in ("nodes.csv", "positions.csv") and frame["node"].duplicated().any():
        raise damage(file, "names a node twice")
    return frame


def _numbers(texts: list[str], file: str, column: str) -> Any:
    """Return integers if all texts are whole numbers, else exactly the floats that were written."""
    digits = [text.removeprefix("-") for text in texts]
    if all(text.isascii() and text.isdecimal() and len(text) <= LONGEST_NUMBER for text in digits):
        return np.array([int(text) for text in texts], dtype=np.int64)
    try:
        return np.array([float(text or "nan") for text in texts])
    except ValueError as error:
        if column not in COLUMNS[file]:
            return np.array(texts, dtype=object)
        raise damage(file, f"has something other than numbers in column {column!r}") from error
