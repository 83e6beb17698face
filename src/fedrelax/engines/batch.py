"""The round of all engines that compute all nodes at once, written once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedrelax.engines.base import Engine, of_shape
from fedrelax.models import LocalModel
from fedrelax.runtime import Coupling, NodeMeasures
from fedrelax.typing import AnyArray, FloatArray, Label, SparseMatrix


class BatchEngine(Engine):
    """The round over the models of all nodes at once; a subclass says only how these are computed.

    ``models`` holds all models and is replaced, never modified in place; ``alone`` are those of round 0.
    ``answers_of`` gives what models answer on public rows, an array with one entry per node, and
    ``messages`` is what the nodes have sent of that: ``v <- (1 - damping) answer + damping v``.
    """

    models: FloatArray
    alone: FloatArray
    validation_rows: AnyArray
    """How many validation rows each node has."""

    def __init__(
        self,
        labels: tuple[Label, ...],
        edges: SparseMatrix,
        coupling: Coupling,
        first_exchange: str = "models",
    ) -> None:
        self.labels, self.given, self.coupling = labels, edges, coupling
        self._zeros_first = first_exchange == "zeros"
        self.messages: FloatArray | None = None
        self._moved = np.full(len(labels), np.inf)
        self._answered: FloatArray | None = None
        self.rewire(edges)

    # What a subclass computes

    @abstractmethod
    def answers_of(self, models: FloatArray) -> FloatArray:
        """Return the answers of models on the public rows."""

    @abstractmethod
    def refit(self) -> FloatArray:
        """Return the models of the next round."""

    @abstractmethod
    def mean_squares(self, values: FloatArray) -> FloatArray:
        """Return every node's mean square of messages, or of differences of messages."""

    @abstractmethod
    def variations(self) -> tuple[FloatArray, FloatArray]:
        """Return each node's part of GTV, and the coupling term of its objective without alpha."""

    @abstractmethod
    def mean_losses(self) -> tuple[FloatArray, FloatArray]:
        """Return every node's loss on its own rows and on its validation rows, NaN where it has none."""

    @abstractmethod
    def plain_models(self, models: FloatArray) -> Mapping[Label, LocalModel]:
        """Return models as nodes take them home, made on demand."""

    # The round

    def start(self) -> None:
        """Begin with the models made at construction."""

    def share(self, round: int) -> None:
        """Let every node send its answers on the public rows."""
        old, new, damping = self.messages, self.answers, self.coupling.damping
        if self._zeros_first and round == 0:
            new = np.zeros_like(new)
        if old is not None and damping:
            new = (1 - damping) * new + damping * old
        self._moved = np.full(len(new), np.inf) if old is None else self.mean_squares(new - old)
        self.messages = new

    def measure(self) -> NodeMeasures:
        """Return the measures of the current models."""
        gtv, coupling_term = self.variations()
        own, held = self.mean_losses()
        return NodeMeasures(
            local_loss=own,
            gtv=gtv,
            pull=self.coupling.factor * coupling_term,
            validation_loss=held,
            validation_rows=self.validation_rows,
            change=self._moved,
            size=self.mean_squares(self.sent),
        )

    def update(self, round: int) -> int:
        """Refit all nodes."""
        self.models = self.refit()
        return 1

    @property
    def answers(self) -> FloatArray:
        """The current models' answers on the public rows."""
        if self._answered is not self.models:
            self._answered, self._answers = self.models, self.answers_of(self.models)
        return self._answers

    @property
    def sent(self) -> FloatArray:
        """The messages of the last round."""
        assert self.messages is not None
        return self.messages

    def rewire(self, edges: SparseMatrix) -> None:
        """Continue on another graph."""
        self.edges = edges

    def settle(self, round: int) -> None:
        """Do nothing: these models converge from any start."""

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

    def packed_models(self, models: Any) -> Any:
        """Return the models, one array."""
        return models

    def models_from(self, values: Any, round: int) -> Any:
        """Return the models, one array."""
        return of_shape(values, self.models.shape, "models")

    @property
    def local_models(self) -> Mapping[Label, LocalModel]:
        """The current models, made on demand."""
        return self.plain_models(self.models)

    @property
    def alone_models(self) -> Mapping[Label, LocalModel]:
        """The models of round 0, made on demand."""
        return self.plain_models(self.alone)
