"""What checkpoints cost: the time of a run with one after every round, after every tenth, and with none.

    python -m benchmarks.checkpoints

Networks of 300 nodes with 20 rows each, six neighbours and 200 public rows. Times are the shortest of three
runs, with the three ways in turn.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

from fedrelax import FedRelax, Graph, Network
from fedrelax.storage import Checkpoint

NODES, ROWS, COLUMNS, PUBLIC, TIMES = 300, 20, 5, 200, 3
RUNS = {
    "linear": (Ridge(), 200),
    "trees": (DecisionTreeRegressor(max_depth=5), 50),
    "sites": (Ridge(), 5),
}


def network_of(model: Any) -> Network:
    """Return a network on a map, with one model for all nodes."""
    rng = np.random.default_rng(0)
    graph = Graph.from_coordinates(rng.uniform(size=(NODES, 2)), k=6)
    network = Network(graph, public=rng.normal(size=(PUBLIC, COLUMNS)))
    for label in graph.labels:
        X = rng.normal(size=(ROWS, COLUMNS))
        network.add(label, X, X @ rng.normal(size=COLUMNS) + rng.normal(size=ROWS), model)
    return network


def seconds(network: Network, engine: str, rounds: int, every: int | None) -> tuple[float, int]:
    """Return how long a run takes, and the size of its last checkpoint in bytes."""
    home = Path(tempfile.mkdtemp())
    try:
        kept = [] if every is None else [Checkpoint(home, every)]
        begin = time.perf_counter()
        FedRelax(alpha=0.5, rounds=rounds, tol=0.0, damping=0.2, engine=engine).solve(network, kept)
        taken = time.perf_counter() - begin
        return taken, sum(path.stat().st_size for path in home.iterdir())
    finally:
        shutil.rmtree(home)


def main() -> None:
    """Print a line for every engine."""
    print("engine    a round    ratio, every=1    every=10    size of a checkpoint")
    for name, (model, rounds) in RUNS.items():
        network = network_of(model)
        found = [
            [seconds(network, name, rounds, every) for every in (None, 1, 10)] for _ in range(TIMES)
        ]
        plain, each, tenth = (min(run[k][0] for run in found) for k in range(3))
        size = found[0][1][1] / 1e6
        print(
            f"{name:8}  {1000 * plain / rounds:6.1f} ms    {each / plain:14.2f}    "
            f"{tenth / plain:8.2f}    {size:8.2f} MB"
        )


if __name__ == "__main__":
    main()
