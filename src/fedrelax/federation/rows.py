"""A site's own rows: read from its table, parted into those to train on and those held out.

Columns are numbers, told by their names; what turns text, dates and gaps into numbers is agreed in the
handshake and comes in here, in ``read_rows``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedrelax.datasets import read_table
from fedrelax.errors import FedRelaxError, listing
from fedrelax.federation.sitefile import SiteFile
from fedrelax.models.linear import LinearModel, SoftmaxModel
from fedrelax.models.names import model_by_name
from fedrelax.public import draw_like
from fedrelax.schema.kinds import find_column, first_text, kind_of, to_numbers, where
from fedrelax.selection.search import TRIES
from fedrelax.splits import TEST_STREAM, hold_out
from fedrelax.typing import AnyArray, FloatArray, IntArray

PUBLIC_STREAM, FOLD_STREAM, VALIDATION_STREAM = 1, 3, 4
"""Keep a site's draws of public rows, folds and validation rows apart under one seed."""


@dataclass(frozen=True)
class SiteRows:
    """All rows of a site."""

    X: FloatArray
    y: AnyArray
    features: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.X)


@dataclass(frozen=True)
class Parts:
    """The numbers of the rows of a site: to train on, and to test on."""

    train: IntArray
    test: IntArray


def read_rows(site: SiteFile) -> SiteRows:
    """Return the rows of a site's table; every column that is used holds finite numbers."""
    source = f"site {site.name!r}: {site.data}"
    frame = read_table(site.path(site.data))
    target = _column(frame, site.target, source)
    names = site.features
    if names is None:
        names = tuple(
            str(c) for c in frame.columns if c != target and kind_of(frame[c]) == "numbers"
        )
    if not names:
        raise FedRelaxError(f"{source} has no column of numbers beside the target")
    X = np.column_stack([_numbers(frame, name, source) for name in names])
    if site.task == "regression":
        y: AnyArray = _numbers(frame, site.target, source)
    else:
        y = _classes(frame[target], source)
    if len(X) == 0:
        raise FedRelaxError(f"{source} has no rows")
    return SiteRows(X, y, tuple(names))


def read_public(site: SiteFile, features: tuple[str, ...]) -> FloatArray:
    """Return the public rows of the file that all sites have."""
    frame = read_table(site.path(site.public))
    source = f"site {site.name!r}: the public rows {site.public}"
    return np.column_stack([_numbers(frame, name, source) for name in features])


def model_of(site: SiteFile, rows: FloatArray) -> Any:
    """Return the unfitted model of a site; our linear models are told the spread of its columns."""
    try:
        model = model_by_name(site.model, site.task)
    except FedRelaxError as error:
        raise FedRelaxError(f"site {site.name!r}: {error}") from None
    if isinstance(model, LinearModel | SoftmaxModel):
        spread = rows.std(axis=0)
        model.set_params(scale=np.where(spread > 0, spread, 1.0).tolist())
    return model


def parts_of(rows: int, test_share: float, seed: int) -> Parts:
    """Return which rows are for training; a draw by the site's own seed."""
    return Parts(*hold_out(rows, test_share, np.random.default_rng([seed, TEST_STREAM])))


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


def draw_own(how: str, X: FloatArray, rows: int, seed: int) -> FloatArray:
    """Return public rows that are drawn from a site's own training rows."""
    return draw_like(how, X, rows, np.random.default_rng([seed, PUBLIC_STREAM]))


def _column(frame: Any, name: str, source: str) -> Any:
    try:
        return find_column(frame, name)
    except FedRelaxError as error:
        raise FedRelaxError(f"{source}: {error}") from None


def _numbers(frame: Any, name: str, source: str) -> FloatArray:
    column = frame[_column(frame, name, source)]
    kind = kind_of(column)
    if kind != "numbers":
        place, value = (0, "") if kind == "nothing" else first_text(column)[:2]
        such = f" such as {value!r} on {where(frame.index, place)}" if kind != "nothing" else ""
        raise FedRelaxError(f"{source}: column {name!r} holds {kind}{such}, and numbers are needed")
    values = to_numbers(column)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise FedRelaxError(
            f"{source}: column {name!r} has {len(bad)} missing or infinite values, the first on "
            f"{where(frame.index, int(bad[0]))}; fill them in or leave these rows out"
        )
    return values


def _classes(column: Any, source: str) -> AnyArray:
    if column.isna().any():
        place = int(column.isna().to_numpy().argmax())
        raise FedRelaxError(
            f"{source}: column {column.name!r} has no class on {where(column.index, place)}; fill it "
            "in or leave the row out"
        )
    values = column.tolist()
    if kind_of(column) == "numbers":
        return np.asarray(values)
    strange = [value for value in values if not isinstance(value, str)]
    if strange:
        raise FedRelaxError(
            f"{source}: column {column.name!r} mixes text with other values, such as "
            f"{listing(strange, most=1)}; write all classes alike"
        )
    return np.asarray(values, dtype=object)
