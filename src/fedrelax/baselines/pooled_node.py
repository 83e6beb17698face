"""Pooled with the node as a category: all rows in one place, and a column for every node."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np
from sklearn.base import clone

from fedrelax.baselines.base import Run
from fedrelax.baselines.grouped import Pooled
from fedrelax.engines.linear.network import unsupported_shape
from fedrelax.models import LinearModel, SoftmaxModel
from fedrelax.models.criteria import last_step
from fedrelax.models.keras import is_keras
from fedrelax.models.registry import is_net
from fedrelax.models.viewed import Viewed
from fedrelax.network import Network
from fedrelax.typing import AnyArray, FloatArray, Model

FACTORS = (1.0, 0.001, 0.1, 10.0)
"""Factors of the usual penalty, of which one is chosen."""
MOST_NODES = 500
MOST_NUMBERS = 20_000_000
"""In all the nodes' columns together."""


@dataclass(frozen=True)
class PooledNode(Pooled):
    """h = argmin over all rows (x, e_i) of all nodes i, e_i = 1 in the column of node i and else 0.

    As in ``Pooled``, a network of one kind of model trains a single one.
    """

    name = "pooled+node"

    factors: tuple[float, ...] = field(default=FACTORS, kw_only=True)

    def unsupported_reason(self, network: Network) -> str | None:
        """Return which node's rows or model cannot take more columns, or that there are too many nodes."""
        nodes = len(network)
        if nodes > MOST_NODES or nodes * len(network.own_rows.X) > MOST_NUMBERS:
            return f"it has a column for every node, which takes too long for {nodes:,} of them"
        reason = unsupported_shape(network)
        if reason is not None:
            return reason
        for label, model in network.distinct_models.items():
            if is_net(model) or is_keras(model):
                return f"node {label!r}: its net cannot take more columns, one per node"
        return None

    def run(self, network: Network, *, seed: int = 0, n_jobs: int | None = None) -> Run:
        """Fit one model per kind to the rows with the nodes' columns."""
        n = len(network)
        models = {id(m): with_columns(m, n) for m in network.distinct_models.values()}
        wide = Network(network.graph, network.kind)
        for i, node in enumerate(network):
            wide.add(node.label, with_node(node.X, i, n), node.y, models[id(node.model)])
        fitted = super().run(wide, seed=seed, n_jobs=n_jobs).models
        return Run(
            {
                label: Viewed(fitted[label], partial(with_node, i=i, n=n))
                for i, label in enumerate(network.labels)
            }
        )


def with_node(X: AnyArray, i: int, n: int) -> FloatArray:
    """Return the rows with ``n`` more columns, 1 in that of node number ``i``.

    >>> with_node(np.array([[5.0], [6.0]]), 1, 3)
    array([[5., 0., 1., 0.],
           [6., 0., 1., 0.]])
    """
    columns = np.zeros((len(X), n))
    columns[:, i] = 1.0
    return np.hstack([X, columns])


def with_columns(model: Model, n: int) -> Model:
    """Return a model for ``n`` more columns: one that is told the spread of its columns gets 1 for each.

    >>> with_columns(LinearModel(scale=[2.0]), 2).scale
    [2.0, 1.0, 1.0]
    """
    step = last_step(model)
    scale = getattr(step, "scale", None) if isinstance(step, LinearModel | SoftmaxModel) else None
    if scale is None:
        return model
    changed = clone(model)
    last_step(changed).set_params(scale=[*scale, *[1.0] * n])
    return changed
