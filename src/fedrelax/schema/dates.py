"""Dates and times: how they are read from text, and how models see them, as a trend and as cycles."""

from __future__ import annotations

import warnings
from typing import Literal, get_args

import numpy as np

from fedrelax.typing import FloatArray, Series

DAY = 86400.0
WEEK = 7 * DAY
YEAR = 365.2425 * DAY
SUNDAY = 3 * DAY
"""1 January 1970 was a Thursday; three days later, a week ended."""

Cycle = Literal["hour", "weekday", "season"]
CYCLES: dict[Cycle, tuple[float, int]] = {
    "hour": (DAY, 1),
    "weekday": (WEEK, 3),
    "season": (YEAR, 1),
}
"""The period of each cycle and its number of sine waves; three of them tell all seven weekdays apart."""

Order = Literal["iso", "month first", "day first"]
FORMATS: tuple[Order, ...] = get_args(Order)
"""Ways of reading dates from text, in the order in which they are tried."""


def read_dates(column: Series, order: str) -> FloatArray:
    """Return seconds since 1970 (UTC), NaN where no date can be read; a period counts from its start.

    >>> import pandas as pd
    >>> read_dates(pd.Series(["1970-01-02", "3/1/1970", None]), "iso").tolist()
    [86400.0, nan, nan]
    >>> read_dates(pd.Series(["1/3/1970"]), "day first").tolist()
    [5097600.0]
    """
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if pd.api.types.is_timedelta64_dtype(column):
            return np.asarray(column.dt.total_seconds().to_numpy(dtype=float))
        if isinstance(column.dtype, pd.PeriodDtype):
            column = column.dt.to_timestamp()
        if pd.api.types.is_datetime64_any_dtype(column):
            moments = pd.to_datetime(column, utc=True)
        elif order == "iso":
            moments = pd.to_datetime(column, format="ISO8601", errors="coerce", utc=True)
        else:
            moments = pd.to_datetime(
                column, format="mixed", dayfirst=order == "day first", errors="coerce", utc=True
            )
    instants = moments.dt.tz_localize(None).to_numpy(dtype="datetime64[us]")
    seconds = instants.astype("int64") / 1e6
    return np.asarray(np.where(np.isnat(instants), np.nan, seconds))


def order_of(column: Series) -> tuple[Order, bool]:
    """Return the way that reads most values, and whether another one reads as many but differently."""
    values = column.dropna()
    read = {order: read_dates(values, order) for order in FORMATS}
    counts = {order: int(np.isfinite(seconds).sum()) for order, seconds in read.items()}
    best = max(FORMATS, key=lambda order: counts[order])
    if best == "iso" or counts["month first"] != counts["day first"]:
        return best, False
    # Both ways are lenient; a text such as 31/12/2023 tells how the others are meant.
    pattern = r"^\s*(\d{1,2})[-/.](\d{1,2})[-/.]\d{2,4}"
    first, second = (values.astype(str).str.extract(pattern).astype(float) <= 12).sum().tolist()
    same = np.array_equal(read["month first"], read["day first"])
    return "month first" if first >= second else "day first", first == second and not same


def cycles_of(seconds: FloatArray) -> tuple[Cycle, ...]:
    """Return the cycles that a column's times, without gaps, go through often enough to be learned.

    >>> cycles_of(np.arange(96) * 3600.0), cycles_of(np.arange(60) * DAY)
    (('hour',), ('weekday',))
    """
    if not len(seconds):
        return ()
    span = float(np.ptp(seconds))
    cycles: list[Cycle] = []
    if span > DAY and len(np.unique(seconds % DAY)) > 2:
        cycles.append("hour")
    if span >= 2 * WEEK and len(np.unique((seconds // DAY) % 7)) > 2:
        cycles.append("weekday")
    if span >= 300 * DAY:
        cycles.append("season")
    return tuple(cycles)


def waves(seconds: FloatArray, cycle: Cycle) -> FloatArray:
    """Return the sine and cosine columns of a cycle, (rows, 2 * waves)."""
    period, count = CYCLES[cycle]
    at = np.floor((seconds - SUNDAY) / DAY) * DAY if cycle == "weekday" else seconds
    angle = 2 * np.pi * np.outer(at / period, np.arange(1, count + 1))
    return np.column_stack([np.sin(angle), np.cos(angle)])


def wave_names(name: str, cycle: Cycle) -> list[str]:
    """Return the names of the columns of ``waves``."""
    count = CYCLES[cycle][1]
    numbers = [f" {k}" * (count > 1) for k in range(1, count + 1)]
    return [f"{name} {cycle} {wave}{k}" for wave in ("sine", "cosine") for k in numbers]
