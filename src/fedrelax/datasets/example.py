"""A small table to begin with: the load of sites on a map, with text, dates and gaps as in real life."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

SITES, ROWS, GAPS = 24, 12, 0.04
NORTH, EAST = (59.0, 66.0), (21.0, 30.0)
"""The part of the map that holds the sites, in degrees."""


def example_table(random_state: int = 0) -> pd.DataFrame:
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
