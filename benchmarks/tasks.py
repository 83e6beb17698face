"""The two real tasks used in measurements: digits by writer and weather stations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedrelax.datasets import digits_by_writer, labelled_split, load_weather
from fedrelax.graph import Graph
from fedrelax.typing import AnyArray, FloatArray

LABELLED_DIGITS = 20
COMPONENTS = 15
LABELLED_HOURS = 6
NEAREST_STATIONS = 5


@dataclass(frozen=True)
class RealTask:
    """Training rows and test rows of one random split, with the graph over the nodes."""

    kind: str
    graph: Graph
    train: tuple[FloatArray, AnyArray, AnyArray]
    test: tuple[FloatArray, AnyArray, AnyArray]

    def error(self, answer: AnyArray) -> float:
        """Return the share of wrong answers on the test rows, or the root mean squared error."""
        if self.kind == "classification":
            return float(np.mean(answer != self.test[1]))
        return float(np.sqrt(np.mean((answer - self.test[1]) ** 2)))


def digits_task(split: int, labelled: int = LABELLED_DIGITS) -> RealTask:
    """Return digits by writer: a few labelled images each, as principal components.

    The components are fitted to the labelled rows only, so the test rows stay unseen.
    """
    from sklearn.decomposition import PCA

    data = digits_by_writer()
    known = labelled_split(data.writers, labelled, split)
    reduce = PCA(COMPONENTS, random_state=0).fit(data.X[known])
    X: Any = reduce.transform(data.X)
    graph = Graph.complete(dict.fromkeys(data.writers.tolist()))
    return RealTask(
        "classification",
        graph,
        (X[known], data.y[known], data.writers[known]),
        (X[~known], data.y[~known], data.writers[~known]),
    )


def weather_task(path: str | Path, split: int, labelled: int = LABELLED_HOURS) -> RealTask:
    """Return weather stations: a few labelled hours each, each station joined to its nearest."""
    data = load_weather(path)
    known = labelled_split(data.stations, labelled, split)
    graph = Graph.from_coordinates(data.coordinates, k=NEAREST_STATIONS)
    return RealTask(
        "regression",
        graph,
        (data.X[known], data.y[known], data.stations[known]),
        (data.X[~known], data.y[~known], data.stations[~known]),
    )
