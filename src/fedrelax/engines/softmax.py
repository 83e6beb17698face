"""The engine for networks of softmax models on one common public set: arrays instead of sites."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from fedrelax.engines.batch import BatchEngine, discrepancies
from fedrelax.engines.linear.network import unsupported_models, unsupported_shape
from fedrelax.linear.arrays import nonzero, softmax, with_constant
from fedrelax.linear.softmax import MOST_WEIGHTS, SoftmaxNodes, minimise_softmax, nodes_at_once
from fedrelax.losses import Log
from fedrelax.models import SoftmaxModel
from fedrelax.network import Network
from fedrelax.runtime import Settings
from fedrelax.runtime.site import levelled
from fedrelax.typing import AnyArray, FloatArray, Model, SparseMatrix


class SoftmaxEngine(BatchEngine):
    """Weights W (n, d, K), probabilities ``p_i(x) = softmax(W_i' x)``, updates of all nodes at once.

    ``min sum_r CE(y_r, p_i(x_r)) + ridge_i |coef|^2 + alpha deg_i m_i / m_pub sum_x CE(t_i(x), p_i(x))``
    from the last weights, with t_i the weighted mean of the messages of i's neighbours.
    """

    name, rank = "softmax", 2
    task, loss, common = "classification", Log(), True
    needs: ClassVar[Mapping[str, Any]] = {**BatchEngine.needs, "objective": "paper"}

    def __init__(self, given: Network, settings: Settings) -> None:
        super().__init__(given, settings.coupling(given.kind))
        network = self.network
        d, K = network.n_weights, network.task.n_outputs
        self.models = self.alone = network.per_node(lambda model: model.last_weights((d, K)))
        self._public = with_constant(network.public, network.intercept)
        self._counts = network.own.counts
        self._ridge = np.zeros((len(network.labels), d))
        self._ridge[:, : network.public.shape[1]] = network.ridge
        most = nodes_at_once(d, K, int(self._counts.max()) + len(self._public))
        self.own = list(network.node_rows(network.own).groups(most))
        self.held = list(network.node_rows(network.validation).groups(most))

    @classmethod
    def unsupported_network(cls, network: Network, settings: Settings) -> str | None:
        """Support ``SoftmaxModel`` on few features."""
        models, first = network.distinct_models, next(iter(network))
        reason = unsupported_models(models, _reason_in_model, "classification")
        reason = reason or unsupported_shape(network)
        if reason is not None:
            return reason
        weights = (first.X.shape[1] + bool(first.model.fit_intercept)) * network.task.n_outputs
        if weights > MOST_WEIGHTS:
            return (
                f"node {first.label!r}: its model has {weights} weights, more than {MOST_WEIGHTS}"
            )
        return None

    def start(self) -> None:
        """Train every node alone."""
        self.models = self.alone = self._fitted()

    def refit(self) -> FloatArray:
        """Minimise against the neighbours' mean answers."""
        coupling, degree = self.coupling, np.asarray(self.edges.sum(axis=1), dtype=float)
        if coupling.alpha == 0:
            return self._fitted()
        sums = (self.edges @ self.sent.reshape(len(degree), -1)).reshape(self.sent.shape)
        mean = sums / nonzero(degree)[:, None, None]
        weight = coupling.alpha * self._counts / len(self._public) * degree
        return self._fitted(levelled(mean, self.answers, coupling.level, classes=True), weight)

    def _fitted(
        self, taught: FloatArray | None = None, strength: FloatArray | None = None
    ) -> FloatArray:
        """Return the minimisers for these targets on public rows, or for own rows alone."""
        W = np.empty_like(self.models)
        if taught is None or strength is None:
            taught, strength = np.zeros((len(W), 0, W.shape[2])), np.zeros(len(W))
        public = self._public[: taught.shape[1]]
        for group in self.own:
            nodes = group.nodes
            near = np.broadcast_to(public, (len(nodes), *public.shape))
            weights = np.broadcast_to(strength[nodes, None], near.shape[:2])
            data = SoftmaxNodes(
                rows=np.concatenate([group.rows, near], axis=1),
                labels=np.concatenate([group.targets, taught[nodes]], axis=1),
                weights=np.concatenate([group.mask, weights], axis=1),
                ridge=self._ridge[nodes],
            )
            W[nodes] = minimise_softmax(data, self.models[nodes])
        return W

    def _predict(self, rows: AnyArray, models: AnyArray) -> FloatArray:
        return softmax(rows @ models)

    def _answers_of(self, models: FloatArray) -> FloatArray:
        return self._predict(self._public, models)

    def _mean_squares(self, values: FloatArray) -> FloatArray:
        return np.asarray(np.einsum("nrk,nrk->n", values, values) / values[0].size)

    def embedding(self) -> FloatArray:
        """Return every node's messages as a row."""
        return self.sent.reshape(len(self.sent), -1)

    def discrepancies(self, edges: SparseMatrix) -> FloatArray:
        """Return d(i, j) for every stored entry of a CSR matrix, in its order."""
        return discrepancies(edges, self.answers, self.sent, self.loss, self.coupling.level, True)


def _reason_in_model(model: Model) -> str | None:
    if type(model) is not SoftmaxModel:
        return f"the task is classification, and {type(model).__name__} is not SoftmaxModel"
    if not (isinstance(model.ridge, Real) and 0 < float(model.ridge) < math.inf):
        return f"SoftmaxModel has ridge={model.ridge!r}, not one number above 0"
    return None
