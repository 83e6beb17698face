"""Hourly temperatures of weather stations: a regression task whose nodes have a place on the map.

Made for the open data of the Finnish Meteorological Institute, read from a CSV file with the
columns Latitude, Longitude, Timestamp, temp and name.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedrelax.datasets.files import read_table
from fedrelax.errors import FedRelaxError
from fedrelax.schema.kinds import find_column, where
from fedrelax.typing import AnyArray, FloatArray

if TYPE_CHECKING:
    import pandas as pd

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
    coordinates: pd.DataFrame
    """``latitude`` and ``longitude`` in degrees, one row per station, indexed by its name."""
    feature_names: tuple[str, ...] = FEATURES


def load_weather(path: str | Path) -> Weather:
    """Read a file of hourly temperatures and build the features of a daily curve with a trend.

    Time runs from -1 at the first hour of the file to 1 at the last; the sine and cosine have a
    period of one day. Rows without a temperature are left out and repeated readings of one station
    and hour are averaged. Two stations of one name at different places stay apart: their coordinates
    are added to their names.
    """
    import pandas as pd

    frame = read_table(path)
    columns = ("Latitude", "Longitude", "Timestamp", "temp", "name")
    frame = frame[[find_column(frame, column) for column in columns]]
    frame.columns = list(columns)
    frame["Timestamp"] = pd.to_datetime(frame["Timestamp"], errors="coerce", format="ISO8601")
    for column in ("Latitude", "Longitude", "temp"):
        numbers = pd.to_numeric(frame[column], errors="coerce")
        _refuse(
            frame, column, numbers.isna() & frame[column].notna(), "something other than a number"
        )
        frame[column] = numbers.astype(np.float64)
    for column in ("Latitude", "Longitude", "Timestamp", "name"):
        _refuse(frame, column, frame[column].isna(), "nothing usable")
    frame = frame[np.isfinite(frame["temp"])]
    if frame.empty:
        raise FedRelaxError(f"{path} holds no temperature; fill in the column 'temp'")

    frame = frame.assign(name=frame["name"].astype(str).str.strip())
    places = frame[["name", "Latitude", "Longitude"]].drop_duplicates()
    namesakes = frame["name"].isin(places.loc[places["name"].duplicated(), "name"])
    place = "(" + frame["Latitude"].astype(str) + ", " + frame["Longitude"].astype(str) + ")"
    frame["name"] = frame["name"].where(~namesakes, frame["name"] + " " + place)
    frame = frame.groupby(["name", "Timestamp"], as_index=False).mean()

    coordinates = frame.groupby("name")[["Latitude", "Longitude"]].first()
    coordinates.index = pd.Index(coordinates.index.tolist(), dtype=object, name="station")
    return Weather(
        X=_daily_curve(frame["Timestamp"]),
        y=frame["temp"].to_numpy(np.float64),
        stations=np.array(frame["name"].tolist(), dtype=object),
        timestamps=frame["Timestamp"].to_numpy(),
        coordinates=coordinates.rename(columns=str.lower),
    )


def _daily_curve(timestamps: pd.Series) -> FloatArray:
    """Time in [-1, 1], its square, and the sine and cosine of the hour of the day."""
    since = (timestamps - timestamps.min()).dt.total_seconds().to_numpy(np.float64)
    time = 2 * since / max(since.max(), 1.0) - 1
    of_day = (timestamps - timestamps.dt.normalize()).dt.total_seconds().to_numpy(np.float64)
    angle = 2 * np.pi * of_day / 86400
    return np.column_stack([time, time**2, np.sin(angle), np.cos(angle)])


def _refuse(frame: pd.DataFrame, column: str, bad: pd.Series, found: str) -> None:
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise FedRelaxError(
            f"column {column!r} holds {found} in {int(bad.sum())} rows, first on "
            f"{where(frame.index, row)}; correct or remove these rows"
        )
