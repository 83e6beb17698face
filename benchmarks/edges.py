"""Does the work of a round grow in proportion to the number of edges, as the paper says?

    python -m benchmarks.edges

For graphs with more and more edges over the same nodes: the processor time of a round, for linear models
all at once and for decision trees node by node, with one public set for all and with one per node. A
round's time is the difference between a long and a short run divided by the rounds between them, so
preparation does not count; the fastest of several repetitions is taken.
"""

from __future__ import annotations

import time
from typing import Any

from sklearn.tree import DecisionTreeRegressor

from benchmarks.speed.problems import make_problem, nearest_graph
from fedrelax import FedRelax, LinearModel, Network

DEGREES = (5, 10, 20, 40, 80)
ROWS, FEATURES, PUBLIC_ROWS = 10, 10, 100
REPETITIONS = 3


def network_of(nodes: int, degree: float, public: str, model: Any) -> Network:
    """Return a network on a nearest-neighbour graph of about this degree."""
    problem = make_problem(nearest_graph(nodes, degree), ROWS, FEATURES, public, PUBLIC_ROWS)
    common = problem.public if public == "common" else None
    network = Network(problem.graph, public=common)
    for place, label in enumerate(problem.graph.labels):
        own = None if public == "common" else problem.public[place]
        network.add(label, problem.X[place], problem.y[place], model, public=own)
    return network


def seconds_per_round(network: Network, engine: str, short: int, long: int) -> float:
    """Return the processor time of a round beyond the first ``short`` ones."""
    least = []
    for rounds in (short, long):
        # Damping makes linear models take their rounds one by one instead of solving for the end at once.
        solver = FedRelax(alpha=0.01, rounds=rounds, tol=0.0, damping=0.01, engine=engine)
        times = []
        for _ in range(REPETITIONS):
            start = time.process_time()
            solver.solve(network)
            times.append(time.process_time() - start)
        least.append(min(times))
    return (least[1] - least[0]) / (long - short)


def main() -> None:
    """Print a table: a line per setting, a column per mean degree."""
    tree = DecisionTreeRegressor(max_depth=5)
    settings: list[tuple[str, int, str, Any, tuple[int, int]]] = [
        ("linear", 5000, "common", LinearModel(ridge=0.1, fit_intercept=False), (5, 105)),
        ("linear", 5000, "per-node", LinearModel(ridge=0.1, fit_intercept=False), (5, 55)),
        ("sites", 100, "common", tree, (1, 4)),
        ("sites", 100, "per-node", tree, (1, 4)),
    ]
    print("| engine | nodes | public sets | " + " | ".join(f"degree {k}" for k in DEGREES) + " |")
    print("|---|---|---|" + "---|" * len(DEGREES))
    for engine, nodes, public, model, (short, long) in settings:
        found = []
        for degree in DEGREES:
            network = network_of(nodes, degree, public, model)
            found.append(1000 * seconds_per_round(network, engine, short, long))
        cells = " | ".join(f"{each:.2f} ms" for each in found)
        print(f"| {engine} | {nodes:,} | {public} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
