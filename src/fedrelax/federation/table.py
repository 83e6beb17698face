"""A site's own rows: the columns to learn from, the target, the split, and what is made from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from fedrelax.datasets import read_table
from fedrelax.datasets.tables import as_quantities, class_labels, missing, quantities
from fedrelax.errors import FedRelaxError
from fedrelax.federation.settings import SiteFile
from fedrelax.linear.arrays import centre_and_spread
from fedrelax.models.linear import LinearModel, SoftmaxModel
from fedrelax.models.names import model_by_name
from fedrelax.models.viewed import form_of, seen
from fedrelax.schema import Preparation, Schema
from fedrelax.schema.kinds import find_column
from fedrelax.schema.preparation import View
from fedrelax.selection.search import TRIES
from fedrelax.splits import TEST_STREAM, deal_own, hold_out
from fedrelax.typing import AnyArray, DataFrame, FloatArray, IntArray, Model


@dataclass(frozen=True)
class SiteTable:
    """All rows of a site, as they stand in its file, which messages call ``source``."""

    features: DataFrame
    """The columns to learn from."""
    y: AnyArray
    source: str
    notes: tuple[str, ...] = ()
    """What was decided about the target, one sentence each."""

    def __len__(self) -> int:
        return len(self.y)

    def coded(self, schema: Schema) -> FloatArray:
        """Return all rows as numbers, by the schema that all sites agreed on."""
        return schema.code(self.features, self.source)


def read_site_table(site: SiteFile) -> SiteTable:
    """Return the site's rows, with the columns that its file names, else all."""
    source = f"site {site.name!r}: {site.data}"
    frame = read_table(site.path(site.data))
    try:
        return _site_table(site, frame, source)
    except FedRelaxError as error:
        raise FedRelaxError(f"{source}: {error}") from None


def _site_table(site: SiteFile, frame: DataFrame, source: str) -> SiteTable:
    target, notes = find_column(frame, site.target), list[str]()
    chosen = site.features or [c for c in frame.columns if c != target]
    features = frame[[find_column(frame, name) for name in chosen]].set_axis(
        [str(name) for name in chosen], axis=1
    )
    if not chosen:
        raise FedRelaxError("there is no column besides the target")
    aim = frame[target]
    if site.task == "regression":
        aim = as_quantities(aim, notes)
    gone = missing(aim)
    if gone.all():
        raise FedRelaxError(f"target column {target!r} has no value in any row; fill it in")
    if gone.any():
        notes.append(
            f"{int(gone.sum())} of {len(frame)} rows are left out: target column {target!r} is "
            "missing there."
        )
        features, aim = features[~gone], aim[~gone]
    y = quantities(aim) if site.task == "regression" else class_labels(aim)
    return SiteTable(features, y, source, tuple(notes))


# Splits and models


def model_of(site: SiteFile, rows: FloatArray, ready: Preparation) -> Model:
    """Return the unfitted model of a site: our linear models are told the spread of its columns.

    Where sites share rows with gaps and categories in them, each model has its own view of them.
    """
    model = model_by_name(site.model, site.task)
    if not ready.encoded:
        columns = tuple(range(len(ready.schema.columns)))
        return seen(model, View(ready.schema, columns, form_of(model)))
    if isinstance(model, LinearModel | SoftmaxModel):
        model.set_params(scale=centre_and_spread(rows)[1].tolist())
    return model


def parts_of(site: SiteFile, rows: int) -> tuple[IntArray, IntArray]:
    """Return the rows to train on and to test on; the same in all runs while the table is the same."""
    rng = np.random.default_rng([crc32(site.name.encode()), TEST_STREAM])
    return hold_out(rows, site.test_share, rng)


def held_out(rows: Mapping[str, int], folds: int, fold: int) -> IntArray:
    """Return how many rows every site holds out in a fold."""
    return np.array([len(range(fold, m, folds)) if m > 1 else 0 for m in rows.values()])


def own_folds(train: IntArray, folds: int, seed: int) -> list[tuple[IntArray, IntArray]]:
    """Return the rows to train on and to hold out, fold by fold; a single row is never held out."""
    dealt = deal_own(len(train), folds, seed)
    return [(train[dealt != part], train[dealt == part]) for part in range(min(folds, TRIES))]
