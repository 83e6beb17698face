"""Fewer digits and fewer rounds, where a picture cannot show more."""

from __future__ import annotations

from typing import Any

import numpy as np


def numbers(values: Any) -> list[float | int | None]:
    """Return plain numbers of five digits; what is not finite becomes None.

    >>> numbers([1 / 3, 2.0, float("nan")])
    [0.33333, 2, None]
    """
    found: list[float | int | None] = []
    for value in np.asarray(values, dtype=float).tolist():
        short = float(f"{value:.5g}")
        if not np.isfinite(short):
            found.append(None)
        else:
            found.append(int(short) if short.is_integer() and abs(short) < 1e15 else short)
    return found


def thinned(count: int, most: int) -> Any:
    """Return which of ``count`` rounds to show: all, or ``most`` with both ends, more of the first.

    >>> thinned(4, 10).tolist(), thinned(1000, 5).tolist()
    ([0, 1, 2, 3], [0, 62, 250, 562, 999])
    """
    if count <= most:
        return np.arange(count)
    spaced = (count - 1) * np.linspace(0.0, 1.0, most) ** 2
    return np.unique(np.round(spaced).astype(np.int64))


def decimals(usual: float | None) -> int:
    """Return how many decimals show about three digits of numbers of a usual size.

    >>> decimals(3.09), decimals(0.0123), decimals(2500.0), decimals(None)
    (2, 4, 0, 0)
    """
    if usual is None or not np.isfinite(usual) or usual <= 0:
        return 0
    return int(min(max(2 - np.floor(np.log10(usual)), 0), 12))
