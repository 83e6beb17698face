"""Learning together helps where it should, with every setting chosen on training rows."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.real_data import errors
from benchmarks.tasks import digits_task, weather_task


def mean_errors(tasks):
    found = [errors(task) for task in tasks]
    return {way: float(np.mean([line[way] for line in found])) for way in found[0]}


@pytest.mark.figures
def test_digits_by_writer_beat_alone_and_pooled():
    mean = mean_errors(digits_task(split) for split in range(1))
    assert mean["together"] < mean["alone"]
    assert mean["together"] < mean["pooled"]


@pytest.mark.figures
def test_weather_stations_gain_a_quarter(weather_file):
    mean = mean_errors(weather_task(weather_file, split) for split in range(3))
    assert mean["together"] <= 0.75 * min(mean["alone"], mean["pooled"])
