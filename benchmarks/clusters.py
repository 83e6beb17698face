"""Where fits run: threads, processes, Dask and Ray on this machine, by the same public calls.

    python -m benchmarks.clusters

Two networks in which every node is fitted by itself. One has heavy fits, whose time workers can share.
In the other, fits take next to no time, so that a round shows the cost of the backend; overhead is its time
per round minus that of one process. Bytes are those sent from this process to its workers: in round 0, in
which every node trains alone, and in rounds 1 and 2. The last column tells whether round 2 sent the nodes'
rows again.
"""

from __future__ import annotations

import argparse
import pickle
import time
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import Ridge

from fedrelax import FedRelax, FedRelaxRegressor, Graph
from fedrelax.runtime import Callback, Record, counting, running_on
from fedrelax.typing import AnyArray

BACKENDS = ("threads", "processes", "dask", "ray")
PACKAGES = {"dask": "distributed", "ray": "ray"}
ROWS, FEATURES, PUBLIC, ROUNDS = 200, 10, 100, 5
TRIP = 3
"""The number of the call, round 2, in which rows must not be sent again."""


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


def run(
    model: Any, nodes: int, backend: str, jobs: int
) -> tuple[float, Any, AnyArray, bool | None]:
    """Return seconds per round, the bytes of all calls, predictions, and whether rows were sent again."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(nodes * ROWS, FEATURES))
    y, labels = X[:, 0] * X[:, 1] + rng.normal(size=len(X)), np.repeat(np.arange(nodes), ROWS)
    graph = Graph.from_edges([(i, (i + k) % nodes) for i in range(nodes) for k in (1, 2)])
    clock, sent = Clock(), dict[int, list[bytes]]()
    with counting() as seen, running_on(backend):

        def watch(what: str, thing: Any) -> None:
            if what in ("placed", "sent"):
                sent.setdefault(len(seen.trips), []).append(pickle.dumps(thing))

        seen.watch = watch
        made = FedRelaxRegressor(
            model,
            graph,
            alpha=0.3,
            rounds=ROUNDS,
            public_rows=PUBLIC,
            solver=FedRelax(engine="sites", tol=0.0),
            callbacks=[clock],
            n_jobs=jobs,
        ).fit(X, y, nodes=labels)
    again = None
    if seen.trips:
        again = any(X[labels == 0].tobytes() in part for part in sent.get(TRIP, []))
    return clock.seconds, seen.trips, made.predict(X, nodes=labels), again


def table(name: str, model: Any, nodes: int, jobs: int) -> None:
    """Print a line for every backend."""
    alone, _, expected, _ = run(model, nodes, "threads", 1)
    print(f"\n{name}: {nodes} nodes of {ROWS} rows, {jobs} workers")
    print(
        f"{'':10}{'s/round':>9}{'overhead':>10}{'round 0':>12}{'round 1':>10}{'round 2':>10}  rows again"
    )
    print(f"{'one':10}{alone:9.3f}{'':10}{'-':>12}{'-':>10}{'-':>10}  no")
    for backend in BACKENDS:
        if backend in PACKAGES and find_spec(PACKAGES[backend]) is None:
            print(f"{backend:10} not installed: pip install 'fedrelax[{backend}]'")
            continue
        seconds, trips, found, again = run(model, nodes, backend, jobs)
        assert np.array_equal(found, expected), f"{backend} gives a different result"
        sizes = [f"{trip.placed + trip.sent:,}" for trip in trips[:3]] or ["-"] * 3
        over = seconds - alone
        print(
            f"{backend:10}{seconds:9.3f}{over:+10.3f}{sizes[0]:>12}{sizes[1]:>10}{sizes[2]:>10}"
            f"  {'yes' if again else 'no'}"
        )


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
