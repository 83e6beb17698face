"""The engine for networks of softmax models on one common public set: arrays instead of sites."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from fedrelax.engines.answers import discrepancies, mean_square, variations
from fedrelax.engines.base import Engine, Settings, Unsuited, of_shape, reason_in_settings
from fedrelax.engines.linear.checks import reason_in_models
from fedrelax.engines.linear.network import LinearNetwork
from fedrelax.errors import FedRelaxError
from fedrelax.linear.arrays import nonzero, softmax, with_constant
from fedrelax.linear.gram import Group, NodeRows
from fedrelax.linear.memory import require_memory
from fedrelax.linear.problem import NeighbourSums
from fedrelax.linear.softmax import MOST_WEIGHTS, SoftmaxNodes, minimise_softmax, nodes_at_once
from fedrelax.losses import Log
from fedrelax.models import LocalModel, SoftmaxModel
from fedrelax.network import Network, StackedRows
from fedrelax.runtime import NodeMeasures
from fedrelax.runtime.site import levelled
from fedrelax.typing import FloatArray, Label, Model, SparseMatrix

LOSS = Log()
ONLY = {
    "objective": "paper",
    "order": "simultaneous",
    "weighting": "mean",
    "first_exchange": "models",
}
"""The settings that the softmax engine supports."""


class SoftmaxEngine(Engine):
    """Weights W (n, d, K), probabilities ``p_i(x) = softmax(W_i' x)``, updates of all nodes at once.

    ``min sum_r CE(y_r, p_i(x_r)) + ridge_i |coef|^2 + alpha deg_i m_i / m_pub sum_x CE(t_i(x), p_i(x))``
    from the last weights, with t_i the weighted mean of the messages of i's neighbours. A message is
    ``v <- (1 - damping) p + damping v`` on the public rows.
    """

    name, rank = "softmax", 2

    def __init__(
        self, network: LinearNetwork, alpha: float, damping: float = 0.0, level: float = 1.0
    ) -> None:
        d, K = network.n_weights, network.task.n_outputs
        self.labels = network.labels
        start = network.per_node(lambda model: model.last_weights((d, K)))
        self.W = self.alone = start
        self._network, self._alpha, self._damping = network, alpha, damping
        self._level = level
        self.given = network.graph.adjacency
        self._width = len(network.public) * K
        self._join(self.given)
        self._public = with_constant(network.public, network.intercept)
        self._ridge = np.zeros(start.shape[:2])
        self._ridge[:, : network.public.shape[1]] = network.ridge
        self._counts = network.own.counts
        most = nodes_at_once(d, K, int(self._counts.max()) + len(self._public))
        held = network.validation
        self._own, self._held = (_groups(rows, network, most) for rows in (network.own, held))
        self._held_rows = np.zeros(len(start)) if held is None else held.counts.astype(float)
        self._messages: FloatArray | None = None
        self._moved = np.full(len(start), np.inf)

    @classmethod
    def refusal(cls, network: Network, settings: Settings) -> str | None:
        """Support the log loss, ``SoftmaxModel``, few features and one common public set."""
        reason = refusal_of(network.kind, network.distinct_models, settings)
        return reason or reason_in_rows(network)

    @classmethod
    def of(cls, network: Network, settings: Settings) -> SoftmaxEngine:
        """Stack the nodes' rows, if they fit into memory."""
        stacked = LinearNetwork.of(network)
        _check_memory(stacked)
        return cls(stacked, float(settings.alpha), float(settings.damping), float(settings.level))

    def start(self) -> None:
        """Train every node alone."""
        self._refit(None)
        self.alone = self.W

    def share(self, round: int) -> None:
        """Let every node send its probabilities on the public rows."""
        old = self._messages
        self._answers = new = softmax(np.matmul(self._public, self.W))
        if old is not None and self._damping:
            new = (1 - self._damping) * new + self._damping * old
        self._moved = np.full(len(new), np.inf) if old is None else mean_square(new - old)
        self._messages = new
        self._heard = self._exchange(new, np.empty_like(new))

    def measure(self) -> NodeMeasures:
        """Return the measures of the current models."""
        assert self._messages is not None
        gtv = variations(
            self.edges, self._answers, self._messages, self._heard, LOSS, self._level, classes=True
        )
        return NodeMeasures(
            local_loss=self._losses(self._own),
            gtv=gtv,
            pull=self._alpha / 2 * gtv,
            validation_loss=self._losses(self._held),
            validation_rows=self._held_rows,
            change=self._moved,
            size=mean_square(self._messages),
        )

    def update(self, round: int) -> int:
        """Minimise at every node; W is replaced, never modified in place."""
        taught = None
        if self._alpha > 0:
            taught = self._heard / nonzero(self._degree)[:, None, None]
            taught = levelled(taught, self._answers, self._level, classes=True)
        self._refit(taught)
        return 1

    def snapshot(self) -> tuple[Any, FloatArray]:
        """Return the graph and the models."""
        return self.edges, self.W

    def restore(self, state: tuple[Any, FloatArray]) -> None:
        """Return to earlier models and their graph, and share their predictions."""
        edges, self.W = state
        self._join(edges)
        self._messages = None
        self.share(-1)

    def state(self) -> dict[str, Any]:
        """Return models, messages and the graph."""
        return {
            "edges": self.as_given(self.edges),
            "models": self.W,
            "messages": self._messages,
            "moved": self._moved,
        }

    def resume(self, state: Any, round: int) -> None:
        """Restore models, messages and the graph."""
        self._join(self.edges_from(state["edges"]))
        self.W = of_shape(state["models"], self.W.shape, "models")
        self._answers = softmax(np.matmul(self._public, self.W))
        self._messages = of_shape(state["messages"], self._answers.shape, "messages")
        self._moved = of_shape(state["moved"], self._moved.shape, "changes", finite=False)
        self._heard = self._exchange(self._messages, np.empty_like(self._messages))

    def unpacked(self, values: Any, round: int) -> tuple[Any, FloatArray]:
        """Return the graph and the models."""
        edges, models = super().unpacked(values, round)
        return edges, of_shape(models, self.W.shape, "best models")

    def _join(self, edges: SparseMatrix) -> None:
        self.edges = edges
        self._degree = np.asarray(edges.sum(axis=1), dtype=float).reshape(-1)
        self._exchange = NeighbourSums(edges, self._width)

    def settle(self, round: int) -> None:
        """Do nothing: these models converge from any start."""

    def rewire(self, edges: SparseMatrix) -> None:
        """Continue on another graph."""
        assert self._messages is not None
        self._join(edges)
        self._heard = self._exchange(self._messages, np.empty_like(self._messages))

    def embedding(self) -> FloatArray:
        """Return every node's messages as a row."""
        assert self._messages is not None
        return self._messages.reshape(len(self._messages), -1)

    def own_losses(self, edges: SparseMatrix) -> FloatArray:
        """Return node i's log loss on its own rows under neighbour j's model.

        Answers on public rows determine a softmax model, so i can tell what j would predict on its rows.
        """
        values = np.empty(edges.nnz)
        for group in self._own:
            for k, i in enumerate(group.nodes):
                part = slice(edges.indptr[i], edges.indptr[i + 1])
                scores = softmax(group.rows[k] @ self.W[edges.indices[part]])
                losses = LOSS.per_row(group.targets[k], scores)
                values[part] = (losses * group.mask[k]).sum(axis=-1) / group.mask[k].sum()
        return values

    def discrepancies(self, edges: SparseMatrix) -> FloatArray:
        """Return d(i, j) for every stored entry of a CSR matrix, in its order."""
        assert self._messages is not None
        return discrepancies(edges, self._answers, self._messages, LOSS, self._level, classes=True)

    def _losses(self, groups: list[Group]) -> FloatArray:
        losses = np.full(len(self.W), np.nan)
        for group in groups:
            losses[group.nodes] = log_losses(group, self.W)
        return losses

    def _refit(self, taught: FloatArray | None) -> None:
        """Minimise against the neighbours' mean answers, or alone."""
        W = np.empty_like(self.W)
        public = self._public if taught is not None else self._public[:0]
        strength = self._alpha * self._degree * self._counts / len(self._public)
        for group in self._own:
            nodes = group.nodes
            heard = np.zeros((len(nodes), 0, W.shape[2])) if taught is None else taught[nodes]
            data = SoftmaxNodes(
                rows=group.rows,
                labels=group.targets,
                weights=group.mask.astype(float),
                public=public,
                taught=heard,
                strength=strength[nodes],
                ridge=self._ridge[nodes],
            )
            W[nodes] = minimise_softmax(data, self.W[nodes])
        self.W = W

    @property
    def local_models(self) -> Mapping[Label, LocalModel]:
        """The current models, made on demand."""
        return self._network.fitted(self.W)

    @property
    def alone_models(self) -> Mapping[Label, LocalModel]:
        """The models of round 0, made on demand."""
        return self._network.fitted(self.alone)


def _check_memory(network: LinearNetwork) -> None:
    """Refuse a problem that does not fit into memory before any of it is built."""
    n, d, K = len(network.labels), network.n_weights, network.task.n_outputs
    held = 0 if network.validation is None else len(network.validation.X)
    rows = 2 * (len(network.own.X) + held)  # Padding at most doubles them.
    numbers = rows * (d + K) + 8 * n * len(network.public) * K + 6 * n * d * K
    try:
        require_memory(8 * numbers, n=n, d=d, common=True)
    except FedRelaxError as error:
        raise Unsuited("softmax", str(error)) from None


def log_losses(group: Group, W: FloatArray) -> FloatArray:
    """Return the mean log loss of a group's nodes under their models; W is (n, d, K)."""
    values = LOSS.per_row(group.targets, softmax(group.rows @ W[group.nodes]))
    return np.asarray((values * group.mask).sum(axis=1) / group.mask.sum(axis=1))


def _groups(rows: StackedRows | None, network: LinearNetwork, most: int) -> list[Group]:
    if rows is None:
        return []
    return list(NodeRows(rows.X, rows.offsets).groups(rows.y, network.intercept, most))


def refusal_of(kind: str, models: Mapping[Label, Model], settings: Settings) -> str | None:
    """Return which setting or which node's model the engine does not support, or None."""
    reason = reason_in_settings(settings, kind, "classification", Log)
    if reason is not None:
        return reason
    for name, value in ONLY.items():
        if getattr(settings, name) != value:
            return f"it needs {name}={value!r}, not {getattr(settings, name)!r}"
    return reason_in_models(models, _reason_in_model, "classification")


def reason_in_rows(network: Network) -> str | None:
    """Return what about the rows, alike at all nodes, or the public rows is not supported, or None."""
    first = next(iter(network))
    if first.X.ndim != 2:
        return f"node {first.label!r}: its rows have the shape {first.X.shape[1:]}"
    weights = (first.X.shape[1] + bool(first.model.fit_intercept)) * network.task.n_outputs
    if weights > MOST_WEIGHTS:
        return f"node {first.label!r}: its model has {weights} weights, more than {MOST_WEIGHTS}"
    if network.public.common is None:
        return "it needs one common set of public rows"
    return None


def _reason_in_model(model: Model) -> str | None:
    if type(model) is not SoftmaxModel:
        return f"the task is classification, and {type(model).__name__} is not SoftmaxModel"
    if not (isinstance(model.ridge, Real) and 0 < float(model.ridge) < math.inf):
        return f"SoftmaxModel has ridge={model.ridge!r}, not one number above 0"
    return None
