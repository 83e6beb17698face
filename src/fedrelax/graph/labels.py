"""Node labels: hashable, distinct, never missing; numpy scalars become plain Python values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from fedrelax.errors import FedRelaxError, did_you_mean, listing
from fedrelax.typing import Label

_PLAIN = {str, int, bool}  # types that need no cleaning


def clean_label(label: object, where: str = "") -> Label:
    """Return a label as a plain Python value; refuse a missing or unhashable one.

    >>> clean_label(np.int64(3))
    3
    """
    if isinstance(label, np.generic) and not isinstance(label, np.datetime64 | np.timedelta64):
        label = label.item()
    try:
        hash(label)
    except TypeError:
        raise FedRelaxError(
            f"{where}node label {label!r} is of type {type(label).__name__} and cannot be hashed; "
            "use text, numbers or tuples of them"
        ) from None
    if _is_missing(label):
        raise FedRelaxError(f"{where}node label {label!r} is a missing value; name every node")
    return label


def clean_all(labels: Iterable[object]) -> list[Label]:
    """Return all labels cleaned; quick if all are already plain text or whole numbers."""
    found = list(labels)
    if set(map(type, found)) <= _PLAIN:
        return found
    return [clean_label(label) for label in found]


def clean_labels(labels: Iterable[object] | None, n_nodes: int | None = None) -> tuple[Label, ...]:
    """Return the distinct labels of ``n_nodes`` nodes; ``None`` stands for 0, 1, 2, ...

    >>> clean_labels(np.array(["a", "b"]), n_nodes=2)
    ('a', 'b')
    """
    if labels is None:
        labels = range(n_nodes or 0)
    if isinstance(labels, str | bytes | set | frozenset):
        raise FedRelaxError(
            f"labels is a {type(labels).__name__}, which gives the nodes no order; "
            "give a list with one label per node"
        )
    if not isinstance(labels, Iterable):
        raise FedRelaxError(f"labels is {labels!r}; give a list with one label per node")
    found = clean_all(labels)
    if n_nodes is not None and len(found) != n_nodes:
        raise FedRelaxError(
            f"{len(found)} labels were given for {n_nodes} nodes; give one label per node"
        )
    if not found:
        raise FedRelaxError("the graph has no nodes; give at least one")
    if len(set(found)) < len(found):
        repeated = [label for label, count in Counter(found).items() if count > 1]
        raise FedRelaxError(
            f"node labels must differ, but these are given more than once: {listing(repeated)}"
        )
    return tuple(found)


def unknown_node(label: object, known: Sequence[Label], where: str = "") -> FedRelaxError:
    """Return the error for a label that is not a node, suggesting the nearest known label if any.

    >>> print(unknown_node("3", [1, 2, 3]))
    unknown node '3'; did you mean 3 (a number, not text)?
    """
    hint = did_you_mean(label, known) or f"; the graph has {listing(known)}"
    return FedRelaxError(f"{where}unknown node {label!r}{hint}")


def _is_missing(label: object) -> bool:
    if label is None:
        return True
    try:
        return bool(label != label)  # NaN and NaT differ from themselves
    except (TypeError, ValueError):  # pandas.NA has no truth value
        return type(label).__name__ == "NAType"
