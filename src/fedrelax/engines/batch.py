"""The round of all engines that compute all nodes at once, written once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from fedrelax.combining import Mean, as_combine
from fedrelax.engines.base import Engine, of_shape
from fedrelax.engines.linear.network import LinearNetwork
from fedrelax.linear.problem import Group
from fedrelax.losses import Loss
from fedrelax.models import LocalModel
from fedrelax.network import Network
from fedrelax.runtime import Coupling, NodeMeasures, Settings
from fedrelax.runtime.site import distances
from fedrelax.typing import AnyArray, FloatArray, Label, SparseMatrix

AT_ONCE = 1 << 20
"""Numbers compared at a time, so that they stay in cache."""


class BatchEngine(Engine):
    """The round over the models of all nodes at once; a subclass says only how these are computed.

    ``models`` holds all models and is replaced, never modified in place; ``alone`` are those of round 0.
    ``_answers_of`` gives what models answer on public rows, an array with one entry per node, and
    ``messages`` is what the nodes have sent of that: ``v <- (1 - damping) answer + damping v``.
    What an engine supports is declared; what depends on models and rows, ``unsupported_network`` says.
    """

    task: ClassVar[str]
    loss: ClassVar[Loss]
    """The only loss, on own rows and across edges."""
    common: ClassVar[bool] = False
    """Whether all nodes must have one common set of public rows."""
    needs: ClassVar[Mapping[str, Any]] = {
        "order": "simultaneous",
        "weighting": "mean",
        "first_exchange": "models",
        "distillation": None,
    }
    """Settings that must have these values."""
    models: FloatArray
    alone: FloatArray
    own: list[Group]
    """The nodes' own rows."""
    held: list[Group]
    """Their validation rows."""

    def __init__(self, network: Network, coupling: Coupling) -> None:
        self.network, self.coupling = LinearNetwork(network), coupling
        self.labels, self.given = self.network.labels, self.network.edges
        self.edges = self.given
        self.messages: FloatArray | None = None
        self._moved = np.full(len(self.labels), np.inf)
        self._answered: FloatArray | None = None

    @classmethod
    def unsupported_reason(cls, network: Network, settings: Settings) -> str | None:
        """Return why this engine does not support the network, naming the node, or None."""
        if settings.layers:
            return "it sends no messages for exchange= to act on"
        if not isinstance(as_combine(settings.combine), Mean):
            return (
                f"it always takes the neighbours' mean, but combine={settings.combine!r} is given"
            )
        if settings.update == "difference":
            return f"it fits one model at each node, and update={settings.update!r} fits two"
        if cls.task != network.kind:
            return f"the task is {network.kind}"
        losses = settings.losses(network.kind)
        for name, loss in zip(("loss", "discrepancy"), losses, strict=True):
            if not isinstance(loss, type(cls.loss)):
                return f"{name}={loss.name!r} is not {cls.loss.name}"
        for name, value in cls.needs.items():
            if getattr(settings, name) != value:
                return f"it needs {name}={value!r}, not {getattr(settings, name)!r}"
        if cls.common and network.public.common is None:
            return "it needs one common set of public rows"
        return super().unsupported_reason(network, settings)

    # What a subclass computes

    @abstractmethod
    def _predict(self, rows: AnyArray, models: AnyArray) -> FloatArray:
        """Return what models (..., d, q) predict on rows (..., m, d), standardised as models are."""

    @abstractmethod
    def _answers_of(self, models: FloatArray) -> FloatArray:
        """Return the answers of models on the public rows."""

    @abstractmethod
    def refit(self) -> FloatArray:
        """Return the models of the next round."""

    @abstractmethod
    def _mean_squares(self, values: FloatArray) -> FloatArray:
        """Return every node's mean square of messages, or of differences of messages."""

    @property
    def sent_models(self) -> FloatArray:
        """The models that neighbours can tell from the messages of the last round."""
        return self.models

    def weights_of(self, models: FloatArray) -> FloatArray:
        """Return models in the user's features."""
        return models

    # The round

    def share(self, round: int) -> None:
        """Let every node send its answers on the public rows."""
        old, new, damping = self.messages, self.answers, self.coupling.damping
        if old is not None and damping:
            new = (1 - damping) * new + damping * old
        self._moved = np.full(len(new), np.inf) if old is None else self._mean_squares(new - old)
        self.messages = new

    def measure(self) -> NodeMeasures:
        """Return the measures of the current models."""
        edges = self.edges
        parts = edges.data * self.discrepancies(edges)
        gtv = np.bincount(edges.tocoo(copy=False).row, parts, len(self.labels)).astype(np.float64)
        return NodeMeasures(
            local_loss=self._mean_losses(self.own),
            gtv=gtv,
            pull=self.coupling.factor * gtv,
            validation_loss=self._mean_losses(self.held),
            validation_rows=self.network.validation.counts,
            change=self._moved,
            size=self._mean_squares(self.sent),
        )

    def _mean_losses(self, groups: list[Group]) -> FloatArray:
        """Return every node's mean loss on its rows, NaN where it has none."""
        losses = np.full(len(self.models), np.nan)
        for group in groups:
            predictions = self._predict(group.rows, self.models[group.nodes])
            losses[group.nodes] = group.mean_losses(self.loss, predictions)
        return losses

    def own_losses(self, edges: SparseMatrix) -> FloatArray:
        """Return node i's loss on its own rows under neighbour j's model.

        Answers on public rows determine the model, so i can tell what j would predict on its rows.
        """
        values = np.empty(edges.nnz)
        for group in self.own:
            for k, i in enumerate(group.nodes):
                part, m = slice(edges.indptr[i], edges.indptr[i + 1]), int(group.mask[k].sum())
                others = self.sent_models[edges.indices[part]]
                losses = self.loss.per_row(
                    group.targets[k, :m], self._predict(group.rows[k, :m], others)
                )
                values[part] = losses.mean(axis=-1)
        return values

    def update(self, round: int) -> int:
        """Refit all nodes."""
        self.models = self.refit()
        return 1

    @property
    def answers(self) -> FloatArray:
        """The current models' answers on the public rows."""
        if self._answered is not self.models:
            self._answered, self._answers = self.models, self._answers_of(self.models)
        return self._answers

    @property
    def sent(self) -> FloatArray:
        """The messages of the last round."""
        assert self.messages is not None
        return self.messages

    def rewire(self, edges: SparseMatrix) -> None:
        """Continue on another graph."""
        self.edges = edges

    # Snapshots, checkpoints and models

    def snapshot(self) -> tuple[SparseMatrix, FloatArray]:
        """Return the graph and the models."""
        return self.edges, self.models

    def restore(self, state: tuple[SparseMatrix, FloatArray]) -> None:
        """Return to earlier models and their graph, and share their predictions."""
        edges, self.models = state
        if edges is not self.edges:
            self.rewire(edges)
        self.messages = None
        self.share(-1)

    def state(self) -> dict[str, Any]:
        """Return models, messages and the graph."""
        return {
            "models": self.packed(self.snapshot()),
            "messages": self.messages,
            "moved": self._moved,
            "at_rest": bool(self.at_rest),
        }

    def resume(self, state: Any, round: int) -> None:
        """Restore models, messages and the graph."""
        edges, self.models = self.unpacked(state["models"], round)
        if edges is not self.edges:
            self.rewire(edges)
        self.messages = of_shape(state["messages"], self.answers.shape, "messages")
        self._moved = of_shape(state["moved"], self._moved.shape, "changes", finite=False)
        self.at_rest = bool(state["at_rest"])

    def models_from(self, values: Any, round: int) -> Any:
        """Return the models, one array."""
        return of_shape(values, self.models.shape, "models")

    @property
    def local_models(self) -> Mapping[Label, LocalModel]:
        """The current models, made on demand."""
        return self.network.fitted(self.weights_of(self.models))

    @property
    def alone_models(self) -> Mapping[Label, LocalModel]:
        """The models of round 0, made on demand."""
        return self.network.fitted(self.weights_of(self.alone))


def discrepancies(
    edges: SparseMatrix, own: FloatArray, sent: FloatArray, loss: Loss, level: float, classes: bool
) -> FloatArray:
    """Return d(i, j) for every stored entry, from all nodes' answers (nodes, rows, outputs)."""
    learners, values = edges.tocoo(copy=False).row, np.empty(edges.nnz)
    most = max(1, AT_ONCE // max(own[0].size, 1))
    for low in range(0, len(values), most):
        part = slice(low, low + most)
        mine, theirs = own[learners[part]], sent[edges.indices[part]]
        values[part] = distances(mine, theirs, loss, level, classes)
    return values
