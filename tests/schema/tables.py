"""Tables of mixed kinds for the tests."""

from __future__ import annotations

import numpy as np
import pandas as pd

NOISE = 2.0


def shops(seed: int = 0, apart: bool = False) -> pd.DataFrame:
    """24 shops of three types, 3 to 40 days each, whose sales follow type, price, promotion and weekends.

    A twentieth of the prices is missing. With ``apart``, the types also follow them in ways of their own.
    """
    rng = np.random.default_rng(seed)
    level = {"kiosk": 20, "market": 50, "mall": 90}
    slope = dict(zip(level, (-0.5, -3.0, 2.0) if apart else (-1.5,) * 3, strict=True))
    worth = dict(zip(level, (1.0, 4.0, 9.0) if apart else (4.0,) * 3, strict=True))
    lines = []
    for i in range(24):
        kind = list(level)[i % 3]
        for _ in range(int(rng.integers(3, 41))):
            day = pd.Timestamp("2024-01-01") + pd.Timedelta(days=int(rng.integers(0, 180)))
            promotion = str(rng.choice(["none", "flyer", "radio"], p=[0.6, 0.25, 0.15]))
            price = rng.normal(10, 1.5)
            effect = worth[kind] * ["none", "flyer", "radio"].index(promotion)
            weekend = 6 * (day.day_of_week >= 5)
            sales = level[kind] + slope[kind] * (price - 10) + effect + weekend
            sales += rng.normal(0, NOISE)
            when = day.date().isoformat()
            lines.append((f"shop {i:02d}", kind, when, promotion, round(price, 2), round(sales, 2)))
    names = ["shop", "type", "date", "promotion", "price", "sales"]
    frame = pd.DataFrame(lines, columns=names)
    frame.loc[rng.random(len(frame)) < 0.05, "price"] = np.nan
    return frame


def mixed(rows: int = 90, nodes: int = 6, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """A small table of every kind of column, with gaps, and its target; the nodes are in "site"."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "site": np.resize([f"s{k}" for k in range(nodes)], rows),
            "size": rng.normal(5, 2, rows),
            "kind": rng.choice(["a", "b", "c"], rows),
            "open": rng.random(rows) < 0.5,
            "day": pd.Timestamp("2024-01-01")
            + pd.to_timedelta(rng.integers(0, 60, rows), unit="D"),
        }
    )
    y = frame["size"] + 2.0 * (frame["kind"] == "b") + frame["open"] + 0.1 * rng.normal(size=rows)
    frame.loc[rng.random(rows) < 0.1, "size"] = np.nan
    frame.loc[rng.random(rows) < 0.1, "kind"] = None
    return frame, y.to_numpy()
