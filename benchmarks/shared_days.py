"""Stations with the same days: the error estimated on held-out rows, and the error on new days.

``python -m benchmarks.shared_days [SEEDS] [DAYS]`` prints, for maps of 60 stations with 30 days each, the
error (RMSE) that the choice estimates with folds of whole days and with random folds, the error of each
choice on 300 new days, and those of training alone and of one model for all. Settings were fixed before the
first run: levels and slopes smooth on the map, a daily shock that is smooth on the map as well, and noise.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd

from fedrelax import FedRelaxRegressor, Graph
from fedrelax.typing import FloatArray

STATIONS, DAYS, NEW = 60, 30, 300


def draw(seed: int, days: int = DAYS) -> tuple[Graph, Any, Any]:
    """Return the map, and (rows, targets, stations, days) of training and of new days."""
    rng = np.random.default_rng(seed)
    places = rng.uniform(size=(STATIONS, 2))
    waves = rng.normal(size=(6, 2)) * 2.0

    def smooth(many: int) -> FloatArray:
        phase = places @ waves.T + rng.uniform(0, 6.3, size=6)
        return np.asarray(np.cos(phase) @ rng.normal(size=(6, many)) / np.sqrt(3.0))

    levels, slopes = 5.0 * smooth(1)[:, 0], 1.0 + smooth(3)

    def rows(many: int) -> tuple[FloatArray, FloatArray, Any, Any]:
        node, day = np.repeat(np.arange(STATIONS), many), np.tile(np.arange(many), STATIONS)
        weather = rng.normal(size=(many, 3))[day] + 0.3 * rng.normal(size=(len(day), 3))
        shock = (2.0 * rng.normal(size=many) + smooth(many))[node, day]
        noise = 0.5 * rng.normal(size=len(day))
        y = levels[node] + (weather * slopes[node]).sum(axis=1) + shock + noise
        return weather, y, node, day

    graph = Graph.from_coordinates(dict(enumerate(places.tolist())), k=4)
    return graph, rows(days), rows(NEW)


def main(seeds: int = 6, days: int = DAYS) -> None:
    """Print a line per seed, and the means."""
    lines = []
    for seed in range(seeds):
        graph, (X, y, node, day), (T, t, at, _) = draw(seed, days)

        def error(model: Any, T: Any = T, t: Any = t, at: Any = at) -> float:
            return float(np.sqrt(np.mean((model.predict(T, nodes=at) - t) ** 2)))

        by_day = FedRelaxRegressor(graph=graph).fit(X, y, nodes=node, groups=day)
        blind = FedRelaxRegressor(graph=graph).fit(X, y, nodes=node)
        assert by_day.default_ is not None and blind.default_ is not None
        found = by_day.default_.pooled
        alone = np.concatenate([found.alone[i].predict(T[at == i]) for i in range(STATIONS)])
        lines.append(
            {
                "promised by days": np.sqrt(found.left_out["together"]),
                "new days": error(by_day),
                "alpha": by_day.alpha_,
                "promised at random": np.sqrt(blind.default_.pooled.left_out["together"]),
                "new days, chosen at random": error(blind),
                "alpha at random": blind.alpha_,
                "alone": float(np.sqrt(np.mean((alone - t[np.argsort(at, kind="stable")]) ** 2))),
                "one model": float(np.sqrt(np.mean((found.pooled.predict(T) - t) ** 2))),
            }
        )
    table = pd.DataFrame(lines)
    table.loc["mean"] = table.mean()
    print(table.round(3).to_string())


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
