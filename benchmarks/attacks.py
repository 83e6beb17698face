"""What can liars do? The paper's benchmark (fig. 1c) with a fifth of the nodes lying.

``python -m benchmarks.attacks [ROUNDS] [SEEDS] [FIRST SEED]`` prints the error of the honest nodes'
weights: 5 clusters of 30 nodes, 10 rows and 50 features each, joined with probability 0.8 inside a cluster
and 0.2 across, one common public set. The columns are the graph as given and a graph that wires itself,
each undefended and with the recommended defence.

In brackets are two ratios to the undefended value without an attack on the same kind of graph: that of the
means over the seeds, and the largest of the single seeds. These data have no noise, so the error of a
network that has found its clusters goes to zero, and a ratio says how far apart two runs are after the
same number of rounds. "liars not there" is what a defence that knew the liars would reach: the honest
nodes alone, who have to do without a fifth of the rows.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from fedrelax import FedRelax, Graph, LinearModel, Network
from fedrelax.attacks import (
    Attack,
    Colluding,
    Constant,
    Drifting,
    NotANumber,
    Random,
    Scaled,
    SignFlipped,
    flip_labels,
)
from fedrelax.combining import Combine, Mean, Nearest
from fedrelax.datasets import SyntheticNetwork, clustered
from fedrelax.typing import FloatArray
from fedrelax.wiring import Guarded, Rewire, Wiring

ALPHA = 0.05
ATTACKS: dict[str, Attack | None] = {
    "no attack": None,
    "constant": Constant(value=10.0),
    "sign-flipped": SignFlipped(),
    "scaled": Scaled(),
    "random": Random(),
    "not a number": NotANumber(),
    "colluding": Colluding(),
    "slow drift": Drifting(),
    "labels flipped": None,
    "liars not there": None,
}
SETTINGS: dict[str, tuple[Combine, Wiring | None]] = {
    "given graph, mean": (Mean(), None),
    "given graph, nearest": (Nearest(), None),
    "rewired, mean": (Mean(), Rewire()),
    "guarded, nearest": (Nearest(times=4.0), Guarded()),
}


def network_of(data: SyntheticNetwork, without: tuple[Any, ...] = ()) -> Network:
    """Return the network with one common public set; the nodes in ``without`` have no neighbours."""
    A = data.graph.adjacency.toarray()
    A[list(without)] = A[:, list(without)] = 0
    network = Network(Graph.from_matrix(A), public=data.public[0])
    for i in range(len(data.X)):
        network.add(i, data.X[i], data.y[i], LinearModel(fit_intercept=False))
    return network


def error(data: SyntheticNetwork, attack: str, setting: str, rounds: int) -> float:
    """Return the mean squared error of the honest nodes' weights."""
    liars = SignFlipped().attackers(tuple(range(len(data.X))))
    network = network_of(data, liars if attack == "liars not there" else ())
    if attack == "labels flipped":
        network = flip_labels(network, liars)
    combine, wiring = SETTINGS[setting]
    with np.errstate(all="ignore"):
        result = FedRelax(
            alpha=ALPHA,
            rounds=rounds,
            tol=0.0,
            engine="sites",
            exchange=ATTACKS[attack],
            wiring=wiring,
            combine=combine,
        ).solve(network)
    honest = [i for i in range(len(data.X)) if i not in liars]
    W = np.stack([result.models[i].coef_ for i in network.labels])
    return float(np.square(W[honest] - data.true_weights[honest]).mean())


def main(rounds: int = 60, seeds: int = 1, first: int = 0) -> None:
    """Print one line per attack."""
    drawn = [
        clustered((30,) * 5, m=10, d=50, random_state=seed) for seed in range(first, first + seeds)
    ]
    free: dict[bool, FloatArray] = {}
    print(f"{'':15}" + "".join(f"{name:>28}" for name in SETTINGS))
    for attack in ATTACKS:
        cells = []
        for setting, (_, wiring) in SETTINGS.items():
            with threadpool_limits(1):
                found = np.array([error(data, attack, setting, rounds) for data in drawn])
            usual = free.setdefault(wiring is None, found)
            ratio, worst = found.mean() / usual.mean(), (found / usual).max()
            cells.append(f"{found.mean():.4g} ({ratio:.3g}; {worst:.3g})")
        print(f"{attack:15}" + "".join(f"{cell:>28}" for cell in cells), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
