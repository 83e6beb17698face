"""Node labels on disk: plain values, told apart by their text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from fedrelax.errors import FedRelaxError
from fedrelax.typing import Label

KINDS = (str, int, float, bool)
UNSAFE = re.compile("[\\r\\x00\\ud800-\\udfff]")
"""A carriage return, which ends a line of a CSV file even in quotes, and what is no text."""


def check_labels(labels: Iterable[Label]) -> None:
    """Refuse labels that a text file cannot hold, or that are the same as text."""
    seen: dict[str, Label] = {}
    for label in labels:
        if type(label) not in KINDS or (isinstance(label, float) and not math.isfinite(label)):
            raise FedRelaxError(
                f"node {label!r} has a label of type {type(label).__name__}, which cannot be saved; "
                "use text, numbers or true/false as labels"
            )
        if isinstance(label, str) and UNSAFE.search(label):
            raise FedRelaxError(
                f"node {label!r} has a label with a character that text files cannot hold; rename it"
            )
        if str(label) in seen:
            raise FedRelaxError(
                f"the nodes {seen[str(label)]!r} and {label!r} are the same as text, so they cannot be "
                "saved; give them labels that differ as text"
            )
        seen[str(label)] = label


def by_text(labels: Iterable[Label]) -> dict[str, Label]:
    """Return the label that each text stands for."""
    return {str(label): label for label in labels}


def find_label(value: object, known: Mapping[str, Label]) -> Label | None:
    """Return the known label that a value in a table stands for, or None.

    >>> find_label(7.0, {"7": 7}), find_label(" a ", {"a": "a"}), find_label("b", {"a": "a"})
    (7, 'a', None)
    """
    texts = [str(value), str(value).strip()]
    if isinstance(value, float) and value.is_integer():
        texts.append(str(int(value)))
    if isinstance(value, int) and not isinstance(value, bool):
        texts.append(str(float(value)))
    return next((known[text] for text in texts if text in known), None)
