"""Dates and times: how they are read from text, and how models see them, as a trend and as cycles."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from fedrelax.typing import FloatArray

if TYPE_CHECKING:
    import pandas as pd

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


def read_dates(column: pd.Series, order: str) -> FloatArray:
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
    found = moments.dt.tz_localize(None).to_numpy(dtype="datetime64[us]")
    seconds = found.astype("int64") / 1e6
    return np.asarray(np.where(np.isnat(found), np.nan, seconds))


def order_of(column: pd.Series) -> tuple[Order, bool]:
    """Return the way that reads most values, and whether another one reads as many but differently."""
    values = column.dropna()
    read = {order: read_dates(values, order) for order in FORMATS}
    counts = {order: int(np.isfinite(found).sum()) for order, found in read.items()}
    best = max(FORMATS, key=lambda order: counts[order])
    if best == "iso":
        return best, False
    month, day = read["month first"], read["day first"]
    if counts["month first"] != counts["day first"]:
        return best, False
    # Both ways are lenient; a text such as 31/12/2023 tells how the others are meant.
    strict = {order: _strict(values, order) for order in FORMATS[1:]}
    best = max(strict, key=lambda order: strict[order])
    return best, len(set(strict.values())) == 1 and not np.array_equal(month, day)


def _strict(values: pd.Series, order: str) -> int:
    """Return how many texts of the form a/b/year have a possible month where the order puts it."""
    parts = values.astype(str).str.extract(r"^\s*(\d{1,2})[-/.](\d{1,2})[-/.]\d{2,4}").astype(float)
    month = parts[0 if order == "month first" else 1]
    return int((month <= 12).sum())


def cycles_of(seconds: FloatArray) -> tuple[Cycle, ...]:
    """Return the cycles that a column's times go through often enough to be learned.

    >>> cycles_of(np.arange(96) * 3600.0), cycles_of(np.arange(60) * DAY)
    (('hour',), ('weekday',))
    """
    known = seconds[np.isfinite(seconds)]
    if not len(known):
        return ()
    span = float(np.ptp(known))
    found: list[Cycle] = []
    if span > DAY and len(np.unique(known % DAY)) > 2:
        found.append("hour")
    if span >= 2 * WEEK and len(np.unique((known // DAY) % 7)) > 2:
        found.append("weekday")
    if span >= 300 * DAY:
        found.append("season")
    return tuple(found)


def waves(seconds: FloatArray, cycle: Cycle) -> FloatArray:
    """Return the sine and cosine columns of a cycle, (rows, 2 * waves)."""
    period, count = CYCLES[cycle]
    at = seconds - SUNDAY if cycle == "weekday" else seconds
    if cycle == "weekday":
        at = np.floor(at / DAY) * DAY
    angle = 2 * np.pi * np.outer(at / period, np.arange(1, count + 1))
    return np.column_stack([np.sin(angle), np.cos(angle)])


def wave_names(name: str, cycle: Cycle) -> list[str]:
    """Return the names of the columns of ``waves``."""
    count = CYCLES[cycle][1]
    if count == 1:
        return [f"{name} {cycle} sine", f"{name} {cycle} cosine"]
    numbers = range(1, count + 1)
    return [f"{name} {cycle} {wave} {k}" for wave in ("sine", "cosine") for k in numbers]
