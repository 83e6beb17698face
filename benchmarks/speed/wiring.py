"""What wiring costs: the same number of rounds with a fixed graph and with a rewired one."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from fedrelax.graph import Graph
from fedrelax.models import LinearModel
from fedrelax.network import Network
from fedrelax.solvers import FedRelax
from fedrelax.wiring import Rewire, Wiring

ROWS, PUBLIC_ROWS = 10, 50


def cost(
    nodes: int = 10_000, features: int = 10, degree: int = 10, rounds: int = 200, repeats: int = 3
) -> dict[str, Any]:
    """Return the seconds of a run with each wiring, and their ratio: the median over pairs of runs."""
    rng = np.random.default_rng(0)
    places = rng.uniform(size=(nodes, 2))
    graph = Graph.from_coordinates(dict(enumerate(map(tuple, places.tolist()))), k=degree)
    network = Network(graph, public=rng.standard_normal((PUBLIC_ROWS, features)))
    truth = rng.standard_normal((2, features))
    model = LinearModel(ridge=0.1)
    for i in range(nodes):
        X = rng.standard_normal((ROWS, features))
        y = X @ truth[int(places[i, 0] > 0.5)] + 0.5 * rng.standard_normal(ROWS)
        network.add(i, X, y, model)
    with threadpool_limits(1):
        pairs = [
            (_seconds(network, None, rounds), _seconds(network, Rewire(), rounds))
            for _ in range(repeats)
        ]
    fixed, rewired = np.median(pairs, axis=0)
    return {
        "nodes": nodes,
        "edges": graph.n_edges,
        "rounds": rounds,
        "fixed_seconds": float(fixed),
        "rewire_seconds": float(rewired),
        "ratio": float(np.median([b / a for a, b in pairs])),
    }


def _seconds(network: Network, wiring: Wiring | None, rounds: int) -> float:
    start = time.perf_counter()
    settings = FedRelax(alpha=0.05, rounds=rounds, tol=0.0, wiring=wiring, engine="linear")
    settings.solve(network)
    return time.perf_counter() - start
