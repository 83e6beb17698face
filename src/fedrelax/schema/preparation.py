"""How each node's model sees the rows of a table: which columns it has, and in which form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.schema.schema import Schema
from fedrelax.typing import AnyArray, FloatArray, IntArray, Label

ENCODED, CODED, FRAME = "encoded", "coded", "frame"
"""Forms in which a model may see rows: numbers only, one number per column with gaps, or a DataFrame."""

RIDGE = 1e-3
"""The ridge penalty for filling in a column from the others, relative to their mean variance."""

Lacking = tuple[int, ...]
"""The positions of the columns that a node does not have."""


@dataclass(frozen=True)
class Preparation:
    """A schema, which columns each node lacks, and the form of rows that all nodes share.

    With ``encoded``, rows in a network are numbers that every model takes as they are; a column that a
    node lacks is predicted from the node's other columns (``fills``). Otherwise rows in a network are
    coded, and each model has its own ``View`` of them: the columns that its node has.
    """

    schema: Schema
    encoded: bool = True
    lacks: Mapping[Label, Lacking] = field(default_factory=dict)
    fills: Mapping[Lacking, FloatArray] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        schema: Schema,
        coded: FloatArray,
        rows: Mapping[Label, IntArray],
        encoded: bool = True,
        measure: bool = True,
    ) -> Preparation:
        """Return the preparation of training rows: a node lacks a column that is empty only there.

        With ``measure``, centres, scales, limits and gaps are measured on these rows.
        """
        missing = np.isnan(coded)
        somewhere = ~missing.all(axis=0)
        lacked = np.zeros(coded.shape, dtype=bool)  # missing, as their node has no such column
        lacks: dict[Label, Lacking] = {}
        for label, own in rows.items() if missing.any() else ():
            empty = missing[own].all(axis=0) & somewhere
            if empty.any():
                lacks[label] = tuple(np.flatnonzero(empty).tolist())
                lacked[own] = empty
        if measure:
            schema = schema.measured(coded, lacked)
        fills = {}
        if encoded and lacks:
            numbers = schema.encode(coded)
            for columns in sorted(set(lacks.values())):
                fills[columns] = _fill(schema, numbers, missing, columns)
        return cls(schema, encoded, lacks, fills)

    @property
    def width(self) -> int:
        """How many numbers a row in a network has."""
        return len(self.schema.names) if self.encoded else len(self.schema.columns)

    @property
    def is_plain(self) -> bool:
        """Whether models see the table's numbers as they are."""
        return self.schema.is_plain and not self.lacks

    @property
    def pieces(self) -> list[tuple[slice, bool]] | None:
        """Each column's slice of a row, and whether its values may be mixed; None if all may be."""
        pieces = self.schema.pieces(self.encoded)
        return None if all(mixed and p.stop - p.start == 1 for p, mixed in pieces) else pieces

    def rows(self, coded: FloatArray, rows: Mapping[Label, IntArray]) -> FloatArray:
        """Return coded rows in the form that the network shares; ``rows`` says which are each node's."""
        shared = self.schema.encode(coded) if self.encoded or self.is_plain else coded
        lacking = [label for label, own in rows.items() if label in self.lacks and len(own)]
        if lacking and shared is coded:
            shared = coded.copy()
        for label in lacking:
            columns, part = self.lacks[label], shared[rows[label]]
            if self.encoded:
                there, gone, flags = _places(self.schema, columns)
                part[:, flags] = 0.0
                part[:, gone] = (
                    np.column_stack([np.ones(len(part)), part[:, there]]) @ self.fills[columns]
                )
            else:
                part[:, columns] = np.nan
            shared[rows[label]] = part
        return shared

    def of_node(self, label: Label, coded: FloatArray) -> FloatArray:
        """Return coded rows of one node in the form that the network shares."""
        return self.rows(coded, {label: np.arange(len(coded))})

    def has(self, label: Label) -> list[int]:
        """Return the positions of the columns that a node has."""
        lacking = self.lacks.get(label, ())
        return [k for k in range(len(self.schema.columns)) if k not in lacking]

    def view(self, label: Label, form: str) -> View:
        """Return what a node's model sees of coded rows, in this form."""
        return View(self.schema, tuple(self.has(label)), form)

    def absent(self, labels: Iterable[Label]) -> set[str]:
        """Return the columns that none of these nodes has."""
        sets = [set(self.lacks.get(label, ())) for label in labels]
        common: set[int] = set.intersection(*sets) if sets else set()
        return {self.schema.columns[k].name for k in common}

    def __repr__(self) -> str:
        return f"Preparation({self.schema!r})"

    # Files

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for a file."""
        names = self.schema.column_names

        def named(columns: Lacking) -> list[str]:
            return [names[k] for k in columns]

        lacks = [{"node": label, "columns": named(own)} for label, own in self.lacks.items()]
        fills = [{"columns": named(own), "weights": w.tolist()} for own, w in self.fills.items()]
        rows = ENCODED if self.encoded else CODED
        lists = {"lacks": lacks, "fills": fills}
        return {**self.schema.to_dict(), "rows": rows, **{k: v for k, v in lists.items() if v}}

    @classmethod
    def from_dict(cls, values: object, what: str = "the schema") -> Preparation:
        """Return what ``to_dict`` described, checked; messages call it ``what``."""
        from fedrelax.jsonfiles import from_plain

        schema = Schema.from_dict(values, what)
        file = from_plain(_File, values, what)
        names = schema.column_names

        def positions(columns: tuple[str, ...]) -> Lacking:
            if not columns or not set(columns) <= set(names):
                raise FedRelaxError(f"the schema has no columns {list(columns)} that a node lacks")
            return tuple(sorted(map(names.index, columns)))

        lacks: dict[Label, Lacking] = {line.node: positions(line.columns) for line in file.lacks}
        fills = {}
        for line in file.fills:
            at = positions(line.columns)
            there, gone, _ = _places(schema, at)
            weights = np.array(line.weights, dtype=float).reshape(len(line.weights), -1)
            if weights.shape != (1 + len(there), len(gone)):
                raise FedRelaxError("the schema has weights of a fill that do not fit its columns")
            fills[at] = weights
        encoded = file.rows == ENCODED
        if encoded and not set(lacks.values()) <= set(fills):
            raise FedRelaxError(
                "the schema has a node that lacks columns for which there is no fill"
            )
        return cls(schema, encoded, lacks, fills)


@dataclass(frozen=True)
class _Lacks:
    node: str | int | float | bool
    columns: tuple[str, ...]


@dataclass(frozen=True)
class _Fill:
    __pydantic_config__: ClassVar[dict[str, Any]] = {"allow_inf_nan": False}

    columns: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class _File:
    """What a file says of a preparation besides the schema."""

    rows: Literal["encoded", "coded"] = "encoded"
    lacks: tuple[_Lacks, ...] = ()
    fills: tuple[_Fill, ...] = ()


def _places(schema: Schema, columns: Lacking) -> tuple[list[int], list[int], list[int]]:
    """Return positions in encoded rows: of the other columns, of these, and of these columns' gap flags."""
    there, gone, flags = [], [], []
    for k, (column, block) in enumerate(zip(schema.columns, schema.blocks, strict=True)):
        inside = list(range(block.start, block.stop))
        if k not in columns:
            there += inside
            continue
        gone += inside[: len(inside) - column.gaps]
        flags += inside[len(inside) - column.gaps :]
    return there, gone, flags


def _fill(schema: Schema, numbers: FloatArray, missing: AnyArray, columns: Lacking) -> FloatArray:
    """Return ridge weights that predict these columns from the others, fitted to rows that have them."""
    there, gone, _ = _places(schema, columns)
    whole = numbers[~missing[:, columns].any(axis=1)]
    if not len(whole):  # no row has them all: each is filled with its centre
        return np.zeros((1 + len(there), len(gone)))
    centre, target = whole[:, there].mean(axis=0), whole[:, gone].mean(axis=0)
    Z, T = whole[:, there] - centre, whole[:, gone] - target
    gram = Z.T @ Z / len(whole)
    gram[np.diag_indices(len(gram))] += RIDGE * max(
        float(np.trace(gram)) / max(len(gram), 1), 1e-12
    )
    slopes = np.linalg.solve(gram, Z.T @ T / len(whole)) if len(there) else np.zeros((0, len(gone)))
    return np.vstack([target - centre @ slopes, slopes])


@dataclass(frozen=True)
class View:
    """Some columns of coded rows, encoded, coded, or as a DataFrame."""

    schema: Schema
    columns: tuple[int, ...]
    form: str = ENCODED

    def __call__(self, coded: FloatArray) -> Any:
        """Return the rows as the model sees them."""
        if self.form == FRAME:
            return self.schema.frame(coded, self.columns)
        own = coded[:, self.columns]
        return own if self.form == CODED else self.part.encode(own)

    @property
    def part(self) -> Schema:
        """The schema of the columns in view."""
        if len(self.columns) == len(self.schema.columns):
            return self.schema
        return Schema(tuple(self.schema.columns[k] for k in self.columns))

    @property
    def names(self) -> list[str]:
        """The names of the columns that the model sees."""
        return self.part.names if self.form == ENCODED else self.part.column_names

    @property
    def categories(self) -> list[bool]:
        """Which of the columns in view are categories."""
        return [self.schema.columns[k].kind == "category" for k in self.columns]
