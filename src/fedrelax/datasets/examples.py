"""Tables to try things on: digits by writer, weather of stations, a made-up one; and a split of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedrelax.datasets.synthetic import largest_remainder
from fedrelax.errors import FedRelaxError
from fedrelax.schema.kinds import find_column
from fedrelax.schema.reading import read_table
from fedrelax.typing import AnyArray, DataFrame, FloatArray, IntArray
from fedrelax.validation import RandomState, check_count

WRITER_STARTS = (
    *(0, 130, 256, 386, 516, 646, 776),
    *(906, 1029, 1157, 1287, 1415, 1545, 1667),
)
"""The first row of each writer.

The data do not name the writers. Everyone copied the same preprinted form of 130 digits, of which
some images are missing, and the rows keep the order of the form: a writer starts where the form
starts again. That gives 14 forms, although the description of the data speaks of 13 people.
"""


@dataclass(frozen=True, eq=False)
class DigitsByWriter:
    """The 1797 images of 8 x 8 pixels that come with scikit-learn, with the writer of each."""

    X: FloatArray
    """Pixels in [0, 1], (1797, 64)."""
    y: IntArray
    """The digit, (1797,)."""
    writers: AnyArray
    """The writer, ``"writer 01"`` to ``"writer 14"``, (1797,)."""


def digits_by_writer() -> DigitsByWriter:
    """Load the digits that come with scikit-learn, split by writer; nothing is downloaded.

    Each of the 14 writers gave about 130 images, close to balanced over the ten digits.

    >>> digits = digits_by_writer()
    >>> digits.X.shape, len(set(digits.writers))
    ((1797, 64), 14)
    """
    from sklearn.datasets import load_digits

    pixels, digit = load_digits(return_X_y=True)
    writer = np.searchsorted(WRITER_STARTS, np.arange(len(digit)), side="right")
    names = np.array([f"writer {k:02d}" for k in range(len(WRITER_STARTS) + 1)], dtype=object)
    return DigitsByWriter(
        X=np.asarray(pixels, dtype=np.float64) / 16.0,
        y=np.asarray(digit, dtype=np.int64),
        writers=names[writer],
    )


FEATURES = ("time", "time squared", "daily sine", "daily cosine")


@dataclass(frozen=True, eq=False)
class Weather:
    """One row per station and hour, ordered by station and time."""

    X: FloatArray
    """The features named in ``feature_names``, (rows, 4)."""
    y: FloatArray
    """Temperature, (rows,)."""
    stations: AnyArray
    """The station of each row, (rows,)."""
    timestamps: AnyArray
    """The hour of each row as ``datetime64``, (rows,)."""
    coordinates: DataFrame
    """``latitude`` and ``longitude`` in degrees, one row per station, indexed by its name."""
    feature_names: tuple[str, ...] = FEATURES


def load_weather(path: str | Path) -> Weather:
    """Read a file of hourly temperatures and build the features of a daily curve with a trend.

    Time runs from -1 at the first hour of the file to 1 at the last; the sine and cosine have a
    period of one day. Rows without a time, a place or a temperature are left out, and repeated readings of
    one station and hour are averaged.
    """
    import pandas as pd

    frame, numeric = read_table(path), ("Latitude", "Longitude", "temp")
    columns = (*numeric, "Timestamp", "name")
    given = frame[[find_column(frame, column) for column in columns]].set_axis(columns, axis=1)
    frame = given.assign(
        Timestamp=pd.to_datetime(given["Timestamp"], errors="coerce", format="ISO8601"),
        **{name: pd.to_numeric(given[name], errors="coerce").astype(float) for name in numeric},
    ).dropna()
    frame = frame[np.isfinite(frame["temp"])]
    if frame.empty:
        raise FedRelaxError(f"{path} holds no temperature; fill in the column 'temp'")

    frame = frame.assign(name=frame["name"].astype(str).str.strip())
    frame = frame.groupby(["name", "Timestamp"], as_index=False).mean()

    timestamps = frame["Timestamp"]
    since = (timestamps - timestamps.min()).dt.total_seconds().to_numpy(np.float64)
    time = 2 * since / max(since.max(), 1.0) - 1
    of_day = (timestamps - timestamps.dt.normalize()).dt.total_seconds().to_numpy(np.float64)
    angle = 2 * np.pi * of_day / 86400

    coordinates = frame.groupby("name")[["Latitude", "Longitude"]].first()
    coordinates.index = pd.Index(coordinates.index.tolist(), dtype=object, name="station")
    return Weather(
        X=np.column_stack([time, time**2, np.sin(angle), np.cos(angle)]),
        y=frame["temp"].to_numpy(np.float64),
        stations=np.array(frame["name"].tolist(), dtype=object),
        timestamps=timestamps.to_numpy(),
        coordinates=coordinates.rename(columns=str.lower),
    )


SITES, ROWS, GAPS = 24, 12, 0.04
NORTH, EAST = (59.0, 66.0), (21.0, 30.0)
"""The part of the map that holds the sites, in degrees."""


def example_table(random_state: int = 0) -> DataFrame:
    """Return made-up rows: the load of buildings, which depends on the weather, the day and the place.

    Neighbouring sites are similar, and no two are the same: a case for learning together.

    >>> table = example_table()
    >>> list(table.columns), table["site"].nunique()
    (['site', 'lat', 'lon', 'date', 'building', 'temperature', 'wind', 'load'], 24)
    """
    import pandas as pd

    rng = np.random.default_rng(random_state)
    lat, lon = rng.uniform(*NORTH, SITES), rng.uniform(*EAST, SITES)
    place = np.repeat(np.arange(SITES), ROWS)
    rows = len(place)
    day = pd.Timestamp("2025-01-06") + pd.to_timedelta(rng.integers(0, 120, rows), unit="D")
    building = rng.choice(["school", "office", "hall"], rows)
    north = (lat[place] - NORTH[0]) / (NORTH[1] - NORTH[0])
    east = (lon[place] - EAST[0]) / (EAST[1] - EAST[0])
    temperature = rng.normal(-2.0 - 8.0 * north, 6.0)
    wind = rng.gamma(3.0, 2.0, rows)
    load = 60.0 + 15.0 * east - (1.0 + 1.5 * north) * temperature + 0.8 * east * wind
    load += 12.0 * (building == "office") - 10.0 * (day.day_of_week.to_numpy() >= 5)
    load += rng.normal(0.0, 5.0, rows)
    table = pd.DataFrame(
        {
            "site": [f"site {k + 1:02d}" for k in place],
            "lat": lat[place].round(3),
            "lon": lon[place].round(3),
            "date": day.strftime("%Y-%m-%d"),
            "building": building,
            "temperature": temperature.round(1),
            "wind": wind.round(1),
            "load": load.round(1),
        }
    )
    table.loc[rng.random(rows) < GAPS, "wind"] = np.nan
    return table


def labelled_split(
    nodes: Sequence[object] | AnyArray,
    per_node: int = 20,
    random_state: RandomState = 0,
    stratify: Sequence[object] | AnyArray | None = None,
) -> npt.NDArray[np.bool_]:
    """Choose ``per_node`` rows of every node at random; return the mask of the chosen rows.

    ``nodes`` names the node of each row. With ``stratify`` (usually the class of each row) every
    node's choice follows its own class proportions, rounded. A node must keep at least one row
    outside the choice, so one with ``per_node`` rows or fewer is an error, not a smaller choice.

    >>> labelled_split(["a"] * 3 + ["b"] * 4, per_node=2).sum()
    np.int64(4)
    """
    import pandas as pd

    check_count("per_node", per_node, least=1)
    labels, node = np.unique(_column("nodes", nodes), return_inverse=True)
    group = np.zeros(len(node), dtype=np.int64)
    if stratify is not None:
        group = np.unique(_column("stratify", stratify), return_inverse=True)[1]
        if len(group) != len(node):
            raise FedRelaxError(
                f"stratify has {len(group)} entries and nodes has {len(node)}; give one per row"
            )
    counts = np.zeros((len(labels), group.max() + 1), dtype=np.int64)
    np.add.at(counts, (node, group), 1)
    rows = counts.sum(axis=1)
    short = np.flatnonzero(rows <= per_node)
    if len(short):
        raise FedRelaxError(
            f"node {labels.tolist()[short[0]]!r} has {rows[short[0]]} rows, so {per_node} labelled "
            f"rows leave none for testing; lower per_node or leave the node out"
            + (f" ({len(short)} nodes are this small)" if len(short) > 1 else "")
        )
    rng = np.random.default_rng(random_state)
    wanted = largest_remainder(counts / rows[:, None], int(per_node), rng)
    place = pd.Series(rng.random(len(node))).groupby([node, group]).rank(method="first")
    return np.asarray(place <= wanted[node, group])


def _column(name: str, values: Sequence[object] | AnyArray) -> AnyArray:
    column = np.asarray(values)
    if column.ndim != 1 or not len(column):
        raise FedRelaxError(
            f"{name} has shape {column.shape}; give one entry per row, at least one row"
        )
    return column
