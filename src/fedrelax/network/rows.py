"""The rows of nodes: checked, stacked, and with named columns, of which each node may have only some."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from fedrelax.errors import FedRelaxError, counted, did_you_mean
from fedrelax.models.viewed import Seen, form_of, seen
from fedrelax.public import PublicRows
from fedrelax.schema import Preparation, Schema, schema_of
from fedrelax.schema.kinds import as_frame, is_frame
from fedrelax.schema.preparation import View
from fedrelax.typing import AnyArray, DataFrame, FloatArray, IntArray, Label, Model
from fedrelax.validation import are_usable, check_sizes

T = TypeVar("T")

MANY = 20
"""More nodes than these are counted in texts, not listed."""


@dataclass(frozen=True)
class StackedRows:
    """The rows of all nodes, stacked: node i owns rows offsets[i]:offsets[i + 1]."""

    X: AnyArray
    y: AnyArray
    offsets: IntArray

    @classmethod
    def of(cls, X: list[AnyArray], y: list[AnyArray]) -> StackedRows:
        """Stack the arrays of all nodes."""
        offsets = np.cumsum([0, *map(len, X)], dtype=np.int64)
        return cls(np.concatenate(X), np.concatenate(y), offsets)

    @property
    def counts(self) -> IntArray:
        """The number of rows of every node."""
        return np.diff(self.offsets)

    def part(self, i: int) -> tuple[AnyArray, AnyArray]:
        """Return the rows of node number i, without a copy."""
        own = slice(self.offsets[i], self.offsets[i + 1])
        return self.X[own], self.y[own]


class Lookup(Mapping[Label, T]):
    """A mapping whose values are made when they are first asked for; ``labels`` has the keys."""

    def __init__(self, labels: Collection[Label], make: Callable[[Label], T]) -> None:
        self._labels, self._make = labels, make
        self._made: dict[Label, T] = {}

    def __getitem__(self, label: Label) -> T:
        if label not in self._made:
            if label not in self._labels:
                raise KeyError(label)
            self._made[label] = self._make(label)
        return self._made[label]

    def __contains__(self, label: object) -> bool:
        return label in self._labels

    def __iter__(self) -> Iterator[Label]:
        return iter(self._labels)

    def __len__(self) -> int:
        return len(self._labels)

    def __repr__(self) -> str:
        return f"<one for each of {len(self):,} nodes>" if len(self) > MANY else repr(dict(self))


def distinct(labels: Iterable[Label], models: Collection[Model]) -> dict[Label, Model]:
    """Return the distinct model objects, each under the first node that has it."""
    left = set(map(id, models))
    found: dict[Label, Model] = {}
    for label, model in zip(labels, models, strict=True):
        if not left:
            break
        if id(model) in left:
            left.remove(id(model))
            found[label] = model
    return found


def width_of(X: AnyArray) -> str:
    """Return the number of features, or the shape of a row, for messages."""
    return str(X.shape[1]) if X.ndim == 2 else f"shape {X.shape[1:]}"


def numbers_of(values: object, what: str, gaps: bool = False) -> FloatArray:
    """Return a float array; refuse infinity and, unless ``gaps``, NaN."""
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise FedRelaxError(f"{what} has an entry that is not a number ({error})") from error
    if are_usable(array):
        return array
    bad = np.argwhere(np.isinf(array) if gaps else ~np.isfinite(array))
    if len(bad):
        row = int(bad[0][0]) if array.ndim else 0
        raise FedRelaxError(
            f"{what} has {counted(len(bad), 'NaN or infinite value')}, the first in row {row}; "
            "fill them in or leave out the rows"
        )
    check_sizes(array, what)
    return array


def public_rows_of(values: object, what: str, gaps: bool = False) -> FloatArray:
    """Return public rows as a float array with at least one row."""
    rows = numbers_of(values, f"public rows of {what}", gaps)
    if rows.ndim < 2 or len(rows) == 0:
        raise FedRelaxError(
            f"the public rows of {what} have shape {rows.shape}; give at least one row "
            "(rows x features)"
        )
    return rows


def named_rows(public: object, columns: Sequence[str] | None) -> tuple[Preparation, FloatArray]:
    """Return what the columns of the public rows mean, and the rows coded as one number per column."""
    if public is None:
        raise FedRelaxError(
            "columns= names the columns of the common public rows; pass public= too"
        )
    frame = _named(public, columns, "the public rows")
    own, _ = schema_of(frame, named=True)
    # Nodes' rows may lie beyond the public ones, so these set no limits.
    schema = Schema(tuple(replace(column, low=None, high=None) for column in own.columns))
    return Preparation(schema, encoded=False), schema.code(frame, "public")


def coded_rows(
    ready: Preparation, X: object, columns: Sequence[str] | None, what: str
) -> tuple[FloatArray, tuple[int, ...]]:
    """Return a node's rows in the network's columns, NaN in those it lacks, and the columns it has."""
    names = ready.schema.column_names
    frame = _named(X, names if columns is None else columns, what)
    strange = [str(name) for name in frame.columns if str(name) not in names]
    if strange:
        hint = did_you_mean(strange[0], names)
        raise FedRelaxError(
            f"{what} has a column {strange[0]!r}, which the public rows do not have{hint}; leave it out, "
            "or add it to the public rows"
        )
    coded = ready.schema.code(frame, what, absent=set(names) - set(frame.columns))
    return coded, tuple(k for k, name in enumerate(names) if name in frame.columns)


def seen_by(ready: Preparation, model: Model, has: tuple[int, ...]) -> Model:
    """Return the model with a view of these columns; a full set of plain numbers needs no view."""
    if ready.schema.is_plain and len(has) == len(ready.schema.columns):
        return model
    return seen(model, View(ready.schema, has, form_of(model)))


def seen_like(ready: Preparation | None, model: Model, before: Model) -> Model:
    """Return a model that takes the place of another one at its node, with a view of the same columns."""
    if ready is None or isinstance(model, Seen):
        return model
    has = before.view.columns if isinstance(before, Seen) else range(len(ready.schema.columns))
    return seen_by(ready, model, tuple(has))


def public_rows(ready: Preparation | None, **sets: Any) -> PublicRows:
    """Return public rows that carry what their columns mean."""
    if ready is None or ready.is_plain:
        return PublicRows(**sets)
    numbers = None if ready.encoded else ready.schema.encode
    return PublicRows(**sets, pieces=ready.pieces, numbers=numbers)


def _named(X: object, columns: Sequence[str] | None, what: str) -> DataFrame:
    """Return rows as a DataFrame: as they are if they are one, else with these names of columns."""
    import pandas as pd

    if is_frame(X):
        return as_frame(X)
    rows, names = numbers_of(X, what, gaps=True), [] if columns is None else list(columns)
    if rows.ndim != 2 or rows.shape[1] != len(names):
        raise FedRelaxError(
            f"{what} has shape {rows.shape}, but {len(names)} columns are named; name each column once"
        )
    return pd.DataFrame(rows, columns=names)
