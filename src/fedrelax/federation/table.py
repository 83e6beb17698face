"""A site's own table: the columns to learn from, which the handshake describes, and its target."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedrelax.datasets import read_table
from fedrelax.datasets.tables import as_quantities
from fedrelax.errors import FedRelaxError, counted, listing
from fedrelax.federation.sitefile import SiteFile
from fedrelax.files import TABLE, read_file
from fedrelax.schema import Preparation, Schema
from fedrelax.schema.kinds import find_column, first_text, kind_of, to_numbers, where
from fedrelax.typing import AnyArray, FloatArray, IntArray


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
