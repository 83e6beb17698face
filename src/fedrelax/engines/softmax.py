"""The engine for networks of softmax models on one common public set: arrays instead of sites."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.special import xlogy

from fedrelax.engines.answers import discrepancies, learners_of
from fedrelax.engines.base import UnsupportedNetworkError
from fedrelax.engines.batch import BatchEngine
from fedrelax.engines.linear.checks import unsupported_models, unsupported_shape
from fedrelax.engines.linear.network import LinearNetwork
from fedrelax.errors import FedRelaxError
from fedrelax.linear.arrays import nonzero, softmax, with_constant
from fedrelax.linear.gram import Group, NodeRows
from fedrelax.linear.memory import require_memory
from fedrelax.linear.softmax import MOST_WEIGHTS, SoftmaxNodes, minimise_softmax, nodes_at_once
from fedrelax.losses import Log
from fedrelax.losses.classification import SMALLEST
from fedrelax.models import LocalModel, SoftmaxModel
from fedrelax.network import Network, StackedRows
from fedrelax.runtime import Settings
from fedrelax.runtime.site import levelled
from fedrelax.typing import FloatArray, Label, Model, SparseMatrix

LOSS = Log()


class SoftmaxEngine(BatchEngine):
    """Weights W (n, d, K), probabilities ``p_i(x) = softmax(W_i' x)``, updates of all nodes at once.

    ``min sum_r CE(y_r, p_i(x_r)) + ridge_i |coef|^2 + alpha deg_i m_i / m_pub sum_x CE(t_i(x), p_i(x))``
    from the last weights, with t_i the weighted mean of the messages of i's neighbours.
    """

    name, rank = "softmax", 2
    task, losses, common = "classification", (Log,), True
    needs: ClassVar[Mapping[str, Any]] = {
        "objective": "paper",
        "order": "simultaneous",
        "weighting": "mean",
        "first_exchange": "models",
        "distillation": None,
    }

    def __init__(self, given: Network, settings: Settings) -> None:
        network = LinearNetwork.of(given)
        _check_memory(network)
        d, K = network.n_weights, network.task.n_outputs
        self.models = self.alone = network.per_node(lambda model: model.last_weights((d, K)))
        self._network = network
        self._public = with_constant(network.public, network.intercept)
        self._ridge = np.zeros((len(network.labels), d))
        self._ridge[:, : network.public.shape[1]] = network.ridge
        counts, held = network.own.counts, network.validation
        most = nodes_at_once(d, K, int(counts.max()) + len(self._public))
        self._own, self._held = (_groups(rows, network, most) for rows in (network.own, held))
        self.validation_rows = np.zeros(len(counts)) if held is None else held.counts
        coupling = settings.coupling(network.task.kind)
        super().__init__(network.labels, network.graph.adjacency, coupling)

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

    @classmethod
    def of(cls, network: Network, settings: Settings) -> SoftmaxEngine:
        """Stack the nodes' rows, if they fit into memory."""
        return cls(network, settings)

    def start(self) -> None:
        """Train every node alone."""
        self.models = self.alone = self._fitted()

    def rewire(self, edges: SparseMatrix) -> None:
        """Continue on another graph."""
        super().rewire(edges)
        self._degree = np.asarray(edges.sum(axis=1), dtype=float)

    def refit(self) -> FloatArray:
        """Minimise against the neighbours' mean answers."""
        coupling = self.coupling
        if coupling.alpha == 0:
            return self._fitted()
        mean = self._near(self.sent) / nonzero(self._degree)[:, None, None]
        weight = coupling.alpha * self._network.counts / len(self._public) * self._degree
        return self._fitted(levelled(mean, self.answers, coupling.level, classes=True), weight)

    def _near(self, answers: FloatArray) -> FloatArray:
        """Return ``sum_j A_ij v_j`` of answers v (n, rows, K)."""
        flat = self.edges @ answers.reshape(len(answers), -1)
        return np.asarray(flat).reshape(answers.shape)

    def _fitted(
        self, taught: FloatArray | None = None, strength: FloatArray | None = None
    ) -> FloatArray:
        """Return the minimisers for these targets on public rows, or for own rows alone."""
        W = np.empty_like(self.models)
        if taught is None or strength is None:
            taught, strength = np.zeros((len(W), 0, W.shape[2])), np.zeros(len(W))
        public = self._public[: taught.shape[1]]
        for group in self._own:
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

    def answers_of(self, models: FloatArray) -> FloatArray:
        """Return probabilities on the public rows."""
        return softmax(np.matmul(self._public, models))

    def mean_squares(self, values: FloatArray) -> FloatArray:
        """Return every node's mean square of probabilities, or of their differences."""
        return np.asarray(np.einsum("nrk,nrk->n", values, values) / values[0].size)

    def variations(self) -> tuple[FloatArray, FloatArray]:
        """Return each node's part of GTV, twice: it is the coupling term as well.

        No single edge is visited: ``sum_j A_ij d(i, j) = sum_j A_ij v_j' log v_j - heard_i' log p_i``, with
        ``heard_i = sum_j A_ij v_j``. With a level below 1, targets differ from edge to edge, so every edge
        is.
        """
        edges, sent = self.edges, self.sent
        if self.coupling.level < 1.0:
            values = edges.data * self.discrepancies(edges)
            gtv = np.bincount(learners_of(edges), values, len(sent)).astype(np.float64)
        else:
            entropy = xlogy(sent, sent).sum(axis=2).mean(axis=1)
            likely = np.log(np.clip(self.answers, SMALLEST, 1.0))
            cross = (self._near(sent) * likely).sum(axis=2).mean(axis=1)
            gtv = np.asarray(np.maximum(edges @ entropy - cross, 0.0))
        return gtv, gtv

    def embedding(self) -> FloatArray:
        """Return every node's messages as a row."""
        return self.sent.reshape(len(self.sent), -1)

    def discrepancies(self, edges: SparseMatrix) -> FloatArray:
        """Return d(i, j) for every stored entry of a CSR matrix, in its order."""
        return discrepancies(edges, self.answers, self.sent, LOSS, self.coupling.level, True)

    def mean_losses(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean log losses on own rows and on validation rows."""
        own, held = (np.full(len(self.models), np.nan) for _ in range(2))
        for losses, groups in ((own, self._own), (held, self._held)):
            for group in groups:
                losses[group.nodes] = log_losses(group, self.models)
        return own, held

    def own_losses(self, edges: SparseMatrix) -> FloatArray:
        """Return node i's log loss on its own rows under neighbour j's model.

        Answers on public rows determine a softmax model, so i can tell what j would predict on its rows.
        """
        values = np.empty(edges.nnz)
        for group in self._own:
            for k, i in enumerate(group.nodes):
                part = slice(edges.indptr[i], edges.indptr[i + 1])
                scores = softmax(group.rows[k] @ self.models[edges.indices[part]])
                losses = LOSS.per_row(group.targets[k], scores)
                values[part] = (losses * group.mask[k]).sum(axis=-1) / group.mask[k].sum()
        return values

    def plain_models(self, models: FloatArray) -> Mapping[Label, LocalModel]:
        """Return ``SoftmaxModel`` objects, made on demand."""
        return self._network.fitted(models)


def _check_memory(network: LinearNetwork) -> None:
    """Refuse a problem that does not fit into memory before any of it is built."""
    n, d, K = len(network.labels), network.n_weights, network.task.n_outputs
    held = 0 if network.validation is None else len(network.validation.X)
    rows = 2 * (len(network.own.X) + held)  # Padding at most doubles them.
    numbers = rows * (d + K) + 8 * n * len(network.public) * K + 6 * n * d * K
    try:
        require_memory(8 * numbers, n=n, d=d, common=True)
    except FedRelaxError as error:
        raise UnsupportedNetworkError("softmax", str(error)) from None


def log_losses(group: Group, W: FloatArray) -> FloatArray:
    """Return the mean log loss of a group's nodes under their models; W is (n, d, K)."""
    values = LOSS.per_row(group.targets, softmax(group.rows @ W[group.nodes]))
    return np.asarray((values * group.mask).sum(axis=1) / group.mask.sum(axis=1))


def _groups(rows: StackedRows | None, network: LinearNetwork, most: int) -> list[Group]:
    if rows is None:
        return []
    return list(NodeRows(rows.X, rows.y, rows.offsets, intercept=network.intercept).groups(most))


def _reason_in_model(model: Model) -> str | None:
    if type(model) is not SoftmaxModel:
        return f"the task is classification, and {type(model).__name__} is not SoftmaxModel"
    if not (isinstance(model.ridge, Real) and 0 < float(model.ridge) < math.inf):
        return f"SoftmaxModel has ridge={model.ridge!r}, not one number above 0"
    return None
