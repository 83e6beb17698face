"""The curves of decision trees: four rounds of FedRelax with any model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fedrelax.baselines import Oracle
from fedrelax.datasets import SyntheticNetwork
from fedrelax.network import Network
from fedrelax.paper.cells import Cell
from fedrelax.runtime import Distillation
from fedrelax.solvers import FedRelax
from fedrelax.typing import FloatArray

DEPTH = 5
ROUNDS = 4
DISTILLATION = Distillation(100, draw="standard")


def decision_tree() -> Any:
    """Return the paper's local model."""
    from sklearn.tree import DecisionTreeRegressor

    return DecisionTreeRegressor(max_depth=DEPTH)


def tree_network(data: SyntheticNetwork, tree: Callable[[], Any] = decision_tree) -> Network:
    """Return a synthetic network with a tree at every node."""
    network = Network(data.graph)
    for i, label in enumerate(data.graph.labels):
        network.add(
            label,
            data.X[i],
            data.y[i],
            tree(),
            public=data.public[i],
            validation=(data.X_val[i], data.y_val[i]),
        )
    return network


def tree_curve(cell: Cell, seed: int) -> FloatArray:
    """Return the validation error after 0 to 4 rounds, with the paper's weighting and distillation.

    The oracle has a single value: that of one tree per cluster, trained on all of the cluster's rows.
    """
    data = cell.draw(seed)
    network = tree_network(data)
    if cell.method == "oracle":
        models = Oracle(dict(enumerate(data.clusters.tolist()))).run(network, seed=seed).models
        errors = [
            np.square(models[i].predict(data.X_val[i])[:, 0] - data.y_val[i]).mean()
            for i in range(len(data.X))
        ]
        return np.array([np.mean(errors)])
    assert cell.alpha is not None
    solver = FedRelax(
        alpha=cell.alpha,
        rounds=ROUNDS,
        tol=0.0,
        weighting="rows",
        distillation=DISTILLATION,
        first_exchange=cell.first_exchange,
    )
    return np.asarray(solver.solve(network).history["validation_loss"])
