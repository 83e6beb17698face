"""Where fits run: threads, processes, Dask and Ray on this machine, by the same public calls.

    python -m benchmarks.clusters

Two networks in which every node is fitted by itself. One has heavy fits, whose time workers can share.
In the other, fits take next to no time, so that a round shows the cost of the backend; overhead is its time
per round minus that of one process.
"""

from __future__ import annotations

import argparse
import time
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import Ridge

from fedrelax import FedRelax, FedRelaxRegressor, Graph
from fedrelax.runtime import Callback, Record
from fedrelax.typing import AnyArray

BACKENDS = ("threads", "processes", "dask", "ray")
PACKAGES = {"dask": "distributed", "ray": "ray"}
ROWS, FEATURES, PUBLIC, ROUNDS = 200, 10, 100, 5


class Clock(Callback):
    """Records when each round ended."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def after_round(self, record: Record) -> None:
        """Record the time."""
        self.times.append(time.perf_counter())

    @property
    def seconds(self) -> float:
        """The time of the fastest round after the first: other work on the machine only adds to it."""
        return float(np.diff(self.times)[1:].min())


def run(model: Any, nodes: int, backend: str, jobs: int) -> tuple[float, AnyArray]:
    """Return seconds per round, and predictions."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(nodes * ROWS, FEATURES))
    y, labels = X[:, 0] * X[:, 1] + rng.normal(size=len(X)), np.repeat(np.arange(nodes), ROWS)
    graph = Graph.from_edges([(i, (i + k) % nodes) for i in range(nodes) for k in (1, 2)])
    clock = Clock()
    made = FedRelaxRegressor(
        model,
        graph,
        alpha=0.3,
        rounds=ROUNDS,
        public_rows=PUBLIC,
        solver=FedRelax(engine="sites", tol=0.0),
        callbacks=[clock],
        n_jobs=jobs,
        backend=backend,
    ).fit(X, y, nodes=labels)
    return clock.seconds, made.predict(X, nodes=labels)


def table(name: str, model: Any, nodes: int, jobs: int) -> None:
    """Print a line for every backend."""
    alone, expected = run(model, nodes, "threads", 1)
    print(f"\n{name}: {nodes} nodes of {ROWS} rows, {jobs} workers")
    print(f"{'':10}{'s/round':>9}{'overhead':>10}")
    print(f"{'one':10}{alone:9.3f}")
    for backend in BACKENDS:
        if backend in PACKAGES and find_spec(PACKAGES[backend]) is None:
            print(f"{backend:10} not installed: pip install 'fedrelax[{backend}]'")
            continue
        seconds, found = run(model, nodes, backend, jobs)
        assert np.array_equal(found, expected), f"{backend} gives a different result"
        print(f"{backend:10}{seconds:9.3f}{seconds - alone:+10.3f}")


def main() -> None:
    """Measure both networks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--nodes", type=int, default=40)
    given = parser.parse_args()
    table("heavy fits", GradientBoostingRegressor(n_estimators=20), given.nodes, given.jobs)
    table("light fits", Ridge(), given.nodes, given.jobs)
    print("\nall results equal to the last digit")


if __name__ == "__main__":
    main()
