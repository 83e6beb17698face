"""Node labels, and tables with one row per node (coordinates, summaries, shares)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError, did_you_mean, listing, named
from fedrelax.typing import AnyArray, DataFrame, FloatArray, Label

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


def is_frame(data: object) -> bool:
    """Tell whether ``data`` is a pandas DataFrame, without importing pandas."""
    return hasattr(data, "columns") and hasattr(data, "iloc") and hasattr(data, "to_numpy")


def is_number(entry: object) -> bool:
    """Tell whether an entry is a real number of Python, numpy or the decimal module, and not text.

    >>> [is_number(entry) for entry in (1, np.float32(0.5), True, "1", None, 1j)]
    [True, True, True, False, False, False]
    """
    return isinstance(entry, Real | Decimal | np.bool_)


def as_array(rows: Any) -> AnyArray:
    """Return an array in which numbers stay numbers: one word must not turn all entries into text."""
    found: AnyArray = np.asarray(rows)
    return found if found.dtype.kind not in "US" else np.asarray(rows, dtype=object)


def frame_labels(frame: DataFrame, labels: Iterable[object] | None) -> tuple[Label, ...]:
    """Return the labels of a DataFrame's rows: its index, or ``labels`` if the index only counts rows."""
    if labels is None:
        return clean_labels(frame.index)
    given = clean_labels(labels, len(frame))
    index = tuple(frame.index)
    if frame.index.is_unique and given != index and index != tuple(range(len(frame))):
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
    columns: list[object] | None = None
    rows: Any
    if is_frame(data):
        frame: Any = data
        names = frame_labels(frame, labels)
        columns = list(frame.columns)
        rows = frame.to_numpy()
    elif isinstance(data, Mapping):
        by_label = {clean_label(label): row for label, row in data.items()}
        names = _order(by_label, labels)
        rows = [by_label[label] for label in names]
        _check_lengths(rows, names, what)
    elif isinstance(data, Iterable) and not isinstance(data, str):
        rows = data if isinstance(data, np.ndarray) else list(data)
        names = clean_labels(labels, len(rows))
        _check_lengths(rows, names, what)
    else:
        raise FedRelaxError(f"expected a table with one row of {what}s per node, found {data!r}")
    table = as_array(rows)
    if table.ndim != 2 or table.shape[1] == 0:
        raise FedRelaxError(
            f"expected a table with one row of {what}s per node, found shape {table.shape}"
        )
    return _as_finite(table, names, columns, what), names


def _order(by_label: dict[Label, Any], labels: Iterable[object] | None) -> tuple[Label, ...]:
    known = clean_labels(by_label)
    if labels is None:
        return known
    names = clean_labels(labels)
    for label in names:
        if label not in by_label:
            raise unknown_node(label, known, "labels: ")
    if len(names) < len(known):
        left = [label for label in known if label not in set(names)]
        raise FedRelaxError(f"labels leaves out {named('node', left)}; name every node")
    return names


def _check_lengths(rows: Any, names: tuple[Label, ...], what: str) -> None:
    lengths = [np.size(row) for row in rows]
    for name, length in zip(names, lengths, strict=True):
        if length != lengths[0]:
            raise FedRelaxError(
                f"node {name!r} has {length} {what}s and node {names[0]!r} has {lengths[0]}; "
                "give every node the same number"
            )


def _as_finite(
    table: AnyArray, names: tuple[Label, ...], columns: list[object] | None, what: str
) -> FloatArray:
    def bad(row: int, column: int) -> FedRelaxError:
        place = f"column {columns[column] if columns else column}"
        return FedRelaxError(
            f"node {names[row]!r} has the {what} {table[row, column]!s} ({place}); "
            "give a finite number, or leave the node out"
        )

    if table.dtype.kind not in "biuf":
        for row, column in np.ndindex(*table.shape):
            if not is_number(table[row, column]):
                raise bad(row, column)
    values: FloatArray = np.array(table, dtype=np.float64)
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        raise bad(*wrong[0])
    return values
