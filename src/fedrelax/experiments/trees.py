"""The paper's tree experiment: decision trees of depth 5 on clustered and on non-i.i.d. nodes.

``python -m fedrelax.experiments.trees`` prints the validation error after every round, divided by
that of training alone (alpha = 0) on the same data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedrelax.datasets import SyntheticNetwork, clustered, mixture
from fedrelax.network import Network
from fedrelax.runtime import Distillation
from fedrelax.solvers import FedRelax
from fedrelax.typing import FloatArray

DEPTH = 5
ROUNDS = 4
SETTINGS: dict[str, Any] = {"clustered": clustered, "noniid": mixture}


def tree_network(data: SyntheticNetwork) -> Network:
    """Return the nodes of a synthetic network with a decision tree each."""
    from sklearn.tree import DecisionTreeRegressor

    network = Network(data.graph)
    for i, label in enumerate(data.graph.labels):
        network.add(
            label,
            data.X[i],
            data.y[i],
            DecisionTreeRegressor(max_depth=DEPTH),
            public=data.public[i],
            validation=(data.X_val[i], data.y_val[i]),
        )
    return network


def tree_curve(
    setting: str,
    alpha: float,
    seeds: Sequence[int],
    *,
    d: int = 10,
    sigma: float = 0.0,
    first_exchange: str = "models",
    n_jobs: int = 2,
) -> FloatArray:
    """Return the mean validation error after 0..4 rounds, with the paper's weights and distillation."""
    solver = FedRelax(
        alpha=alpha,
        rounds=ROUNDS,
        tol=0.0,
        weighting="rows",
        distillation=Distillation(100, draw="standard"),
        first_exchange=first_exchange,
        n_jobs=n_jobs,
    )
    curves = []
    for seed in seeds:
        data = SETTINGS[setting](m=10, d=d, sigma=sigma, random_state=seed)
        curves.append(solver.solve(tree_network(data)).history["validation_loss"])
    return np.asarray(np.mean(curves, axis=0))


def main() -> None:
    """Print the ratios for both settings."""
    for setting in SETTINGS:
        alone = tree_curve(setting, 0.0, range(3))
        for alpha in (0.001, 1.0):
            ratio = tree_curve(setting, alpha, range(3)) / alone
            print(
                f"{setting:10} alpha {alpha:<6g}", *(f"{value:.3f}" for value in ratio), flush=True
            )


if __name__ == "__main__":
    main()
