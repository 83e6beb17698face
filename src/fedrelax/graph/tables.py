"""Node labels, and tables with one row per node (coordinates, summaries, shares)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError, did_you_mean, listing, named
from fedrelax.schema.kinds import as_frame, is_frame
from fedrelax.typing import DataFrame, FloatArray, Label

PLAIN = {str, int, bool}
"""Types of labels that need no cleaning."""


def clean_label(label: object) -> Label:
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
            f"node label {label!r} is of type {type(label).__name__} and cannot be hashed; "
            "use text, numbers or tuples of them"
        ) from None
    if label is None or (type(label) not in PLAIN and is_missing(label)):
        raise FedRelaxError(f"node label {label!r} is a missing value; name every node")
    return label


def is_missing(label: object) -> bool:
    """Tell whether a label is None, NaN, NaT or NA."""
    import pandas as pd

    return pd.isna(label) is True


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
    found = list(labels)
    if not set(map(type, found)) <= PLAIN:
        found = [clean_label(label) for label in found]
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


def unknown_node(label: object, nodes: Sequence[Label]) -> FedRelaxError:
    """Return the error for a label that is not a node, suggesting the nearest node's if any.

    >>> print(unknown_node("3", [1, 2, 3]))
    unknown node '3'; did you mean 3 (a number, not text)?
    """
    hint = did_you_mean(label, nodes) or f"; the graph has {listing(nodes)}"
    return FedRelaxError(f"unknown node {label!r}{hint}")


def frame_labels(frame: DataFrame, labels: Iterable[object] | None) -> tuple[Label, ...]:
    """Return the labels of a DataFrame's rows: its index, or ``labels`` if the index only counts rows."""
    if labels is None:
        return clean_labels(frame.index)
    given, index = clean_labels(labels, len(frame)), tuple(frame.index)
    if frame.index.is_unique and index not in (given, tuple(range(len(frame)))):
        raise FedRelaxError(
            f"the index of the DataFrame labels the rows {listing(index)}, but labels says "
            f"{listing(given)}; leave labels out, or reset the index"
        )
    return given


def read_table(
    data: object, labels: Iterable[object] | None, what: str
) -> tuple[FloatArray, tuple[Label, ...]]:
    """Return ``data`` as an array with one row per node, all finite, and the nodes' labels.

    ``what`` is what messages call an entry, for instance "coordinate".
    """
    rows: Any = data
    columns: Sequence[object] | None = None
    if is_frame(data):
        rows = as_frame(data)
        names, columns, rows = frame_labels(rows, labels), list(rows.columns), rows.to_numpy()
    elif isinstance(data, Mapping):
        by_label = {clean_label(label): row for label, row in data.items()}
        own = clean_labels(by_label)
        names = own if labels is None else clean_labels(labels)
        for label in names:
            if label not in by_label:
                raise FedRelaxError(f"labels: {unknown_node(label, own)}")
        left = [label for label in own if label not in set(names)]
        if left:
            raise FedRelaxError(f"labels leaves out {named('node', left)}; name every node")
        rows = [by_label[label] for label in names]
    elif isinstance(data, Iterable) and not isinstance(data, str):
        rows = data if isinstance(data, np.ndarray) else list(data)
        names = clean_labels(labels, len(rows))
    else:
        raise FedRelaxError(f"expected a table with one row of {what}s per node, found {data!r}")
    try:
        values = np.array(rows, dtype=np.float64)
    except (TypeError, ValueError):
        raise FedRelaxError(
            f"expected a table with one row of {what}s per node, all numbers and equally many"
        ) from None
    if values.ndim != 2 or values.shape[1] == 0:
        raise FedRelaxError(
            f"expected a table with one row of {what}s per node, found shape {values.shape}"
        )
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, column = bad[0]
        raise FedRelaxError(
            f"node {names[row]!r} has the {what} {values[row, column]} (column "
            f"{columns[column] if columns else column}); give a finite number, or leave the node out"
        )
    return values, names
