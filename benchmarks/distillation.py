"""Do trees gain from being reminded of what they knew?

A decision tree of scikit-learn is fitted afresh in every round and forgets; the paper gives it rows
labelled by its own last model (self-distillation). ``python -m benchmarks.distillation [SEEDS]
[NODES_PER_CLUSTER] [JOBS]`` compares trees with and without on the data of the paper's tree figure (three
clusters, 10 rows of 10 features each, no noise) and prints the validation error after every round, as a
mean over the seeds.
"""

from __future__ import annotations

import sys

import joblib
import numpy as np

from fedrelax.datasets import SyntheticNetwork, clustered
from fedrelax.paper.curves import (
    DISTILLATION,
    ROUNDS,
    ROWS,
    VALIDATION_ROWS,
    decision_tree,
    tree_network,
)
from fedrelax.solvers import FedRelax
from fedrelax.typing import FloatArray

FEATURES = 10
ALPHAS = (0.0, 0.001, 1.0)


WAYS = {"self-distillation": DISTILLATION, "no memory": None}


def draw(seed: int, each: int) -> SyntheticNetwork:
    """Return the data of the tree figure with ``each`` nodes per cluster (the paper has 50)."""
    return clustered((each,) * 3, m=ROWS, d=FEATURES, m_val=VALIDATION_ROWS, random_state=seed)


def curve(name: str, alpha: float, seed: int, each: int) -> FloatArray:
    """Return the validation error after each round, with the paper's weighting.

    A run ends early if no tree changes any more; the curve then repeats its last error.
    """
    data = draw(seed, each)
    solver = FedRelax(
        alpha=alpha, rounds=ROUNDS, tol=0.0, weighting="rows", distillation=WAYS[name]
    )
    errors = np.asarray(solver.solve(tree_network(data, decision_tree)).history["validation_loss"])
    return np.pad(errors, (0, ROUNDS + 1 - len(errors)), mode="edge")


def main(seeds: int = 3, each: int = 10, jobs: int = 1) -> None:
    """Print a line per way and alpha: the mean validation error after 0 to 4 rounds."""
    tasks = [(name, alpha, seed) for alpha in ALPHAS for name in WAYS for seed in range(seeds)]
    found = joblib.Parallel(n_jobs=jobs)(joblib.delayed(curve)(*task, each) for task in tasks)
    by_task = dict(zip(tasks, found, strict=True))
    print(f"validation MSE after each round, {3 * each} nodes, {seeds} seeds (last: spread)")
    print(
        f"{'alpha':>6} {'way':17} {'alone':>7} " + " ".join(f"{k:7d}" for k in range(1, ROUNDS + 1))
    )
    for alpha in ALPHAS:
        for name in WAYS:
            curves = np.array([by_task[name, alpha, seed] for seed in range(seeds)])
            numbers = " ".join(f"{value:7.2f}" for value in curves.mean(axis=0))
            print(f"{alpha:6g} {name:17} {numbers}  ({curves[:, -1].std():.2f})", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
