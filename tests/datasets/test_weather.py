from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedrelax.datasets import load_weather
from fedrelax.errors import FedRelaxError

FMI = Path(__file__).parents[3] / "shared" / "data" / "fmi_hourly.csv"
HEADER = "Latitude,Longitude,Timestamp,temp,name\n"
ROWS = (
    "60.1,24.9,2024-01-01 00:00:00,-1.0,Harbour\n"
    "60.1,24.9,2024-01-01 06:00:00,-2.0,Harbour\n"
    "61.5,23.8,2024-01-03 00:00:00,-7.5,Tower\n"
)


@pytest.fixture
def load(tmp_path):
    def write_and_load(rows, header=HEADER):
        path = tmp_path / "weather.csv"
        path.write_text(header + rows, encoding="utf-8")
        return load_weather(path)

    return write_and_load


def test_features_are_a_trend_and_a_daily_curve(load):
    weather = load(ROWS)
    # Six hours are an eighth of the two days; time runs from -1 to 1.
    time = np.array([-1, -1 + 2 / 8, 1])
    expected = np.column_stack([time, time**2, [0, 1, 0], [1, 0, 1]])
    np.testing.assert_allclose(weather.X, expected, atol=1e-12)
    assert weather.y.tolist() == [-1.0, -2.0, -7.5]
    assert weather.stations.tolist() == ["Harbour", "Harbour", "Tower"]
    assert len(weather.feature_names) == weather.X.shape[1]
    assert weather.timestamps[1] == np.datetime64("2024-01-01T06:00")


def test_coordinates_are_indexed_by_station(load):
    coordinates = load(ROWS).coordinates
    assert coordinates.loc["Tower"].to_dict() == {"latitude": 61.5, "longitude": 23.8}
    assert len(coordinates) == 2


def test_repeated_readings_are_averaged_and_missing_ones_left_out(load):
    weather = load(
        ROWS
        + "60.1,24.9,2024-01-01 00:00:00,-3.0,Harbour\n"
        + "60.1,24.9,2024-01-01 07:00:00,,Harbour\n"
    )
    assert weather.y.tolist() == [-2.0, -2.0, -7.5]


def test_a_missing_column_is_named(load):
    with pytest.raises(FedRelaxError, match=r"no column 'temp'.* did you mean 'tmp'"):
        load(ROWS, header=HEADER.replace("temp", "tmp"))


def test_no_temperature_at_all(load):
    with pytest.raises(FedRelaxError, match="no temperature"):
        load("60.1,24.9,2024-01-01 00:00:00,,Harbour\n")


@pytest.mark.skipif(not FMI.exists(), reason="needs ../shared/data/fmi_hourly.csv beside the repo")
def test_the_stations_of_finland():
    weather = load_weather(FMI)
    assert len(weather.coordinates) == 207
    assert set(weather.stations) == set(weather.coordinates.index)
    assert len(weather.X) == len(weather.y) == len(FMI.read_text("utf-8").splitlines()) - 1
    assert np.isfinite(weather.X).all()
    assert np.isfinite(weather.y).all()
    assert np.abs(weather.X).max() <= 1
    assert weather.coordinates["latitude"].between(59, 71).all()
    assert weather.coordinates["longitude"].between(19, 32).all()
