"""Does a natural graph help? ``python -m benchmarks.league.natural [WEATHER.csv]``: borders, and maps.

For the league's regression tables with such a graph, and the weather stations if their file is given, the
error (RMSE, mean over three splits) of the defaults without a graph and with it, and of ``Ridge(0.01)``
with alpha chosen: without a graph, with the graph as given, and with discovered neighbours. Errors are
ratios to the first.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import Ridge

from benchmarks.league.running import known_rows, parts
from benchmarks.league.tables import TABLES, Data, Table
from fedrelax import FedRelaxRegressor, Graph
from fedrelax.datasets import labelled_split
from fedrelax.datasets.examples import load_weather

HERE = Path(__file__).parent


def borders() -> Graph:
    """Return the graph of states that share a border, by lower-case names and by lower-case codes."""
    with (HERE / "borders.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    names = {line["code"]: line["name"].lower() for line in lines}
    pairs = [(line["code"], other) for line in lines for other in line["neighbours"].split()]
    edges = {tuple(sorted(pair)) for pair in pairs}
    by_name = {tuple(sorted((names[a], names[b]))) for a, b in edges}
    small = {tuple(sorted((a.lower(), b.lower()))) for a, b in edges}
    return Graph.from_edges([*by_name, *small])


def graph_of(table: Table, data: Data) -> Graph:
    """Return a table's natural graph, with nodes numbered as the league numbers groups."""
    groups = np.unique(data.groups)
    if table.graph != ("borders",):
        return Graph.from_coordinates(
            {i: tuple(data.places[name]) for i, name in enumerate(groups)}, k=4
        )
    known, plain = borders(), [name.lower().replace("_", " ") for name in groups.tolist()]
    places = {name: i for i, name in enumerate(plain)}
    edges = [(places[u], places[v]) for u, v, _ in known.edges() if u in places and v in places]
    return Graph.from_edges(edges, labels=range(len(groups)))


def errors(X: Any, y: Any, g: Any, T: Any, t: Any, h: Any, graph: Graph) -> dict[str, float]:
    """Return the error of each way on one split."""
    ways = {
        "no graph": FedRelaxRegressor(),
        "graph": FedRelaxRegressor(graph=graph),
        "ridge, no graph": FedRelaxRegressor(Ridge(0.01), wiring="fixed"),
        "ridge, graph": FedRelaxRegressor(Ridge(0.01), graph, wiring="fixed"),
        "ridge, self-found": FedRelaxRegressor(Ridge(0.01), wiring="discover"),
    }
    found = {}
    for name, model in ways.items():
        answer = model.fit(X, y, nodes=g).predict(T, nodes=h)
        found[name] = float(np.sqrt(np.mean((answer - t) ** 2)))
    return found


def main(words: list[str]) -> None:
    """Print a line per table: ratios to the first way."""
    for table in TABLES:
        if not table.graph or table.kind != "regression":
            continue
        data = table.load()
        graph = graph_of(table, data)
        splits = [
            errors(*parts(data, known_rows(table, data, seed, False)), graph) for seed in range(3)
        ]
        _tell(table.name, graph, splits)
    for path in words:
        weather = load_weather(path)
        graph = Graph.from_coordinates(weather.coordinates, k=5)
        splits = []
        for seed in range(3):
            known = labelled_split(weather.stations, per_node=6, random_state=seed)
            X, y, at = weather.X, weather.y, weather.stations
            rows = (X[known], y[known], at[known], X[~known], y[~known], at[~known])
            splits.append(errors(*rows, graph))
        _tell("weather", graph, splits)


def _tell(name: str, graph: Graph, splits: list[dict[str, float]]) -> None:
    means = {way: np.mean([split[way] for split in splits]) for way in splits[0]}
    first = means["no graph"]
    words = ", ".join(f"{way} {value / first:.3f}" for way, value in means.items())
    print(f"{name} ({graph.n_edges} edges, error without a graph {first:.4g}): {words}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
