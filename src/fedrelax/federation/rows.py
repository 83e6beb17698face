"""A site's own rows, split into those to train on and those held out, and what is made from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.federation.sitefile import SiteFile
from fedrelax.linear.arrays import centre_and_spread
from fedrelax.models.linear import LinearModel, SoftmaxModel
from fedrelax.models.names import model_by_name
from fedrelax.models.viewed import form_of, seen
from fedrelax.public import draw_like
from fedrelax.schema import Preparation
from fedrelax.schema.view import View
from fedrelax.selection.search import TRIES
from fedrelax.splits import TEST_STREAM, hold_out
from fedrelax.typing import FloatArray, IntArray

PUBLIC_STREAM, FOLD_STREAM, VALIDATION_STREAM = 1, 3, 4
"""Keep a site's draws of public rows, folds and validation rows apart under one seed."""


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
