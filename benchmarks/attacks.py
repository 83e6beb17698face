"""What can liars do? The paper's benchmark (fig. 1c) with a fifth of the nodes lying.

``python -m benchmarks.attacks [ROUNDS] [SEEDS]`` prints the error of the honest nodes' weights: 5 clusters
of 30 nodes, 10 rows and 50 features each, joined with probability 0.8 inside a cluster and 0.2 across, one
common public set. The columns are the graph as given and the graph that rewires itself, each undefended and
with the recommended defence, and in brackets the ratio to the undefended value without an attack.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from fedrelax import FedRelax, LinearModel, Network
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
from fedrelax.wiring import Rewire, Wiring

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
}
SETTINGS: dict[str, tuple[Combine, Wiring | None]] = {
    "given graph, mean": (Mean(), None),
    "given graph, nearest": (Nearest(), None),
    "rewired, mean": (Mean(), Rewire()),
    "rewired, nearest": (Nearest(share=0.5), Rewire()),
}


def network_of(data: SyntheticNetwork) -> Network:
    """Return the nodes with one common public set."""
    network = Network(data.graph, public=data.public[0])
    for i in range(len(data.X)):
        network.add(i, data.X[i], data.y[i], LinearModel(fit_intercept=False))
    return network


def error(data: SyntheticNetwork, attack: str, setting: str, rounds: int) -> float:
    """Return the mean squared error of the honest nodes' weights."""
    network, layer = network_of(data), ATTACKS[attack]
    liars = SignFlipped().attackers(network.labels)
    if attack == "labels flipped":
        network = flip_labels(network, liars)
    combine, wiring = SETTINGS[setting]
    solver = FedRelax(
        alpha=ALPHA,
        rounds=rounds,
        tol=0,
        engine="sites",
        exchange=layer,
        combine=combine,
        wiring=wiring,
    )
    with np.errstate(all="ignore"):
        result = solver.solve(network)
    honest = [i for i in range(len(data.X)) if i not in liars]
    W: Any = np.stack([result.models[i].coef_ for i in honest])
    return float(np.square(W - data.true_weights[honest]).mean())


def main(rounds: int = 60, seeds: int = 1) -> None:
    """Print one line per attack."""
    drawn = [clustered((30,) * 5, m=10, d=50, random_state=seed) for seed in range(seeds)]
    free: dict[str, float] = {}
    print(f"{'':15}" + "".join(f"{name:>24}" for name in SETTINGS))
    for attack in ATTACKS:
        cells = []
        for setting in SETTINGS:
            with threadpool_limits(1):
                found = float(np.mean([error(data, attack, setting, rounds) for data in drawn]))
            graph = setting.split(",")[0]
            free.setdefault(graph, found)
            cells.append(f"{found:12.4g} ({found / free[graph]:8.3g})")
        print(f"{attack:15}" + "".join(f"{cell:>24}" for cell in cells), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
