"""A site's own rows: the columns to learn from, the target, the split, and what is made from them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np

from fedrelax.datasets import read_table
from fedrelax.datasets.tables import as_quantities
from fedrelax.errors import FedRelaxError, counted, listing
from fedrelax.federation.settings import SiteFile
from fedrelax.files import TABLE, read_file
from fedrelax.linear.arrays import centre_and_spread
from fedrelax.models.linear import LinearModel, SoftmaxModel
from fedrelax.models.names import model_by_name
from fedrelax.models.viewed import form_of, seen
from fedrelax.public import draw_like
from fedrelax.schema import Preparation, Schema
from fedrelax.schema.kinds import find_column, first_text, kind_of, to_numbers, where
from fedrelax.schema.preparation import View
from fedrelax.selection.search import TRIES
from fedrelax.splits import TEST_STREAM, hold_out
from fedrelax.typing import AnyArray, FloatArray, IntArray

PUBLIC_STREAM, FOLD_STREAM, VALIDATION_STREAM = 1, 3, 4
"""Keep a site's draws of public rows, folds and validation rows apart under one seed."""


@dataclass(frozen=True)
class SiteTable:
    """All rows of a site, as they stand in its file, which messages call ``source``."""

    features: Any
    """The columns to learn from, a DataFrame."""
    y: AnyArray
    source: str
    notes: tuple[str, ...] = ()
    """What was decided about the target, one sentence each."""

    def __len__(self) -> int:
        return len(self.y)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns to learn from."""
        return tuple(map(str, self.features.columns))

    def part(self, rows: IntArray) -> Any:
        """Return some rows of the columns to learn from."""
        return self.features.iloc[rows]

    def coded(self, schema: Schema) -> FloatArray:
        """Return all rows as numbers, by the schema that all sites agreed on."""
        return schema.code(self.features, self.source)


def read_site_table(site: SiteFile) -> SiteTable:
    """Return the site's rows, with the columns that its file names, else all."""
    source = f"site {site.name!r}: {site.data}"
    frame = read_table(site.path(site.data))
    target = _column(frame, site.target, source)
    chosen = site.features or [c for c in frame.columns if c != target]
    columns = [_column(frame, name, source) for name in chosen]
    if not columns:
        raise FedRelaxError(f"{source} has no column besides the target")
    if not len(frame):
        raise FedRelaxError(f"{source} has no rows")
    notes: list[str] = []
    aim = frame[target]
    if site.task == "regression":
        aim = as_quantities(aim, notes)
    there = aim.notna().to_numpy()
    if not there.any():
        raise FedRelaxError(f"{source}: target column {target!r} is empty; fill it in")
    if not there.all():
        notes.append(
            f"{int((~there).sum())} of {len(frame)} rows are left out: target column {target!r} is "
            "missing there."
        )
        frame, aim = frame[there], aim[there]
    y = _numbers(aim, source) if site.task == "regression" else _classes(aim, source)
    features = frame[columns].set_axis([str(name) for name in chosen], axis=1)
    return SiteTable(features, y, source, tuple(notes))


def read_public(site: SiteFile, ready: Preparation) -> FloatArray:
    """Return the public rows in the file that all sites have, in the form that sites share."""
    frame = read_table(site.path(site.public))
    source = f"site {site.name!r}: the public rows {site.public}"
    return ready.rows(ready.schema.code(frame, source), {})


def public_file(site: SiteFile) -> tuple[str, int]:
    """Return the fingerprint of the file of public rows, and how many there are."""
    path = site.path(site.public)
    rows = len(read_table(path))
    return hashlib.sha256(read_file(path, TABLE)).hexdigest(), rows


def _column(frame: Any, name: str, source: str) -> Any:
    try:
        return find_column(frame, name)
    except FedRelaxError as error:
        raise FedRelaxError(f"{source}: {error}") from None


def _numbers(column: Any, source: str) -> AnyArray:
    kind = kind_of(column)
    if kind != "numbers":
        place, value, _ = first_text(column)
        raise FedRelaxError(
            f"{source}: column {column.name!r} holds {kind} such as {value!r} on "
            f"{where(column.index, place)}, but numbers are needed"
        )
    values = to_numbers(column)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise FedRelaxError(
            f"{source}: column {column.name!r} is infinite in {counted(len(bad), 'row')}, first on "
            f"{where(column.index, int(bad[0]))}; fill these in or leave them out"
        )
    return values


def _classes(column: Any, source: str) -> AnyArray:
    values = column.tolist()
    if kind_of(column) == "numbers":
        return np.asarray(values)
    strange = [value for value in values if not isinstance(value, str)]
    if strange:
        raise FedRelaxError(
            f"{source}: column {column.name!r} mixes text with other values, such as "
            f"{listing(strange, most=1)}; write all classes as text or all as numbers"
        )
    return np.asarray(values, dtype=object)


# Splits and models


@dataclass(frozen=True)
class Parts:
    """The indices of a site's rows: to train on, and to test on."""

    train: IntArray
    test: IntArray


def named_model(site: SiteFile) -> Any:
    """Return the unfitted model that a site's file names."""
    try:
        return model_by_name(site.model, site.task)
    except FedRelaxError as error:
        raise FedRelaxError(f"site {site.name!r}: {error}") from None


def model_of(site: SiteFile, rows: FloatArray, ready: Preparation) -> Any:
    """Return the unfitted model of a site: our linear models are told the spread of its columns.

    Where sites share rows with gaps and categories in them, each model has its own view of them.
    """
    model = named_model(site)
    if not ready.encoded:
        columns = tuple(range(len(ready.schema.columns)))
        return seen(model, View(ready.schema, columns, form_of(model)))
    if isinstance(model, LinearModel | SoftmaxModel):
        model.set_params(scale=centre_and_spread(rows)[1].tolist())
    return model


def parts_of(site: SiteFile, rows: int) -> Parts:
    """Return which rows are for training; the same in all runs, as long as the table stays the same."""
    rng = np.random.default_rng([crc32(site.name.encode()), TEST_STREAM])
    return Parts(*hold_out(rows, site.test_share, rng))


def own_folds(train: IntArray, folds: int, seed: int) -> list[tuple[IntArray, IntArray]]:
    """Return the rows to train on and to hold out, fold by fold; a single row is never held out."""
    if len(train) < 2:
        return [(train, train[:0])] * TRIES
    rng = np.random.default_rng([seed, FOLD_STREAM])
    dealt = rng.permutation(np.arange(len(train)) % folds)
    return [(train[dealt != part], train[dealt == part]) for part in range(min(folds, TRIES))]


def validation_of(train: IntArray, share: float, seed: int) -> tuple[IntArray, IntArray]:
    """Return the rows to train on and those that tell when to stop."""
    rng = np.random.default_rng([seed, VALIDATION_STREAM])
    own, held = hold_out(len(train), share, rng)
    return train[own], train[held]


def draw_own(site: SiteFile, X: FloatArray, ready: Preparation, seed: int) -> FloatArray:
    """Return public rows drawn from a site's own training rows."""
    rng = np.random.default_rng([seed, PUBLIC_STREAM])
    return draw_like(site.public, X, site.public_rows, rng, ready.pieces)
