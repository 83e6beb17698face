"""Pooled with the node as a category: all rows in one place, and a column for every node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from fedrelax.baselines.base import Baseline, Run
from fedrelax.baselines.grouped import FACTORS, penalty_of, with_penalty
from fedrelax.baselines.pooled import Pooled
from fedrelax.models import LinearModel, LocalModel, Rows, SoftmaxModel
from fedrelax.models.criteria import last_step
from fedrelax.models.keras import is_keras
from fedrelax.models.registry import is_net
from fedrelax.network import Network
from fedrelax.typing import AnyArray, FloatArray, Model

MOST_NODES = 500
MOST_NUMBERS = 20_000_000
"""In all the nodes' columns together."""


@dataclass(frozen=True)
class PooledNode(Baseline):
    """h = argmin over all rows (x, e_i) of all nodes i, e_i = 1 in the column of node i and else 0.

    As in ``Pooled``, a network of one kind of model trains a single one.

    factor : multiplies the penalty of Ridge, LinearModel, LogisticRegression and SoftmaxModel, for
        which several are candidates.
    """

    name = "pooled+node"

    factor: float = 1.0

    def refusal(self, network: Network) -> str | None:
        """Return which node's rows or model cannot take more columns."""
        first = next(iter(network))
        if first.X.ndim != 2:
            return f"node {first.label!r}: its rows have the shape {first.X.shape[1:]}"
        for label, model in network.distinct_models.items():
            if is_net(model) or is_keras(model):
                return f"node {label!r}: its net cannot take more columns, one per node"
        return None

    def too_large(self, network: Network) -> str | None:
        """Return a reason for very many nodes: each has a column of all rows."""
        nodes = len(network)
        if nodes <= MOST_NODES and nodes * len(network.own_rows.X) <= MOST_NUMBERS:
            return None
        return f"it has a column for every node, which takes too long for {nodes:,} of them"

    def candidates(self, network: Network) -> Sequence[PooledNode]:
        """Return several penalties if some node's model has one."""
        if not any(penalty_of(model)[1] for model in network.distinct_models.values()):
            return [self]
        return [replace(self, factor=self.factor * factor) for factor in FACTORS]

    def run(self, network: Network, *, seed: int = 0, n_jobs: int | None = None) -> Run:
        """Fit one model per kind to the rows with the nodes' columns."""
        n = len(network)
        models = {id(m): with_columns(m, n, self.factor) for m in network.distinct_models.values()}
        wide = Network(network.graph, network.kind)
        for place, node in enumerate(network):
            held = node.validation and (with_node(node.validation[0], place, n), node.validation[1])
            model = models[id(node.model)]
            wide.add(node.label, with_node(node.X, place, n), node.y, model, validation=held)
        fitted = Pooled().run(wide, seed=seed, n_jobs=n_jobs).models
        return Run({i: NodeModel(fitted[i], place, n) for place, i in enumerate(network.labels)})


class NodeModel(LocalModel):
    """A model of rows with ``n`` nodes' columns, which it fills in for the node at ``place``."""

    def __init__(self, model: LocalModel, place: int, n: int) -> None:
        self.task, self._model, self._place, self._n = model.task, model, place, n

    @property
    def estimator(self) -> Model:
        """The estimator of all nodes, whose rows include the nodes' columns."""
        return self._model.estimator

    def fit(self, terms: Sequence[Rows], *, seed: int, continued: bool = False) -> NodeModel:
        """Return a model of this node's rows."""
        wide = [replace(term, X=with_node(term.X, self._place, self._n)) for term in terms]
        return NodeModel(
            self._model.fit(wide, seed=seed, continued=continued), self._place, self._n
        )

    def predict(self, X: AnyArray) -> FloatArray:
        """Return predictions for rows of this node."""
        return self._model.predict(with_node(X, self._place, self._n))


def with_node(X: AnyArray, place: int, n: int) -> FloatArray:
    """Return the rows with ``n`` more columns, 1 in that of the node at ``place``.

    >>> with_node(np.array([[5.0], [6.0]]), 1, 3)
    array([[5., 0., 1., 0.],
           [6., 0., 1., 0.]])
    """
    columns = np.zeros((len(X), n))
    columns[:, place] = 1.0
    return np.hstack([X, columns])


def with_columns(model: Model, n: int, factor: float) -> Any:
    """Return a model for ``n`` more columns, its penalty multiplied by ``factor``.

    >>> from sklearn.linear_model import LogisticRegression, Ridge
    >>> with_columns(Ridge(2.0), 3, 0.1), with_columns(LogisticRegression(), 3, 0.1)
    (Ridge(alpha=0.2), LogisticRegression(C=10.0))
    """
    model, step = with_penalty(model, factor), last_step(model)
    scale = getattr(step, "scale", None) if isinstance(step, LinearModel | SoftmaxModel) else None
    if scale is None:
        return model
    changed = clone(model)
    last_step(changed).set_params(scale=[*scale, *[1.0] * n])
    return changed
