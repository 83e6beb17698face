"""The engine for models found for a whole network at once: round 0 alone, round 1 together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from fedrelax.engines.base import Engine, of_shape
from fedrelax.engines.whole.found import Found
from fedrelax.losses import usual_loss
from fedrelax.models import LocalModel, adapt
from fedrelax.network import Network
from fedrelax.runtime import NodeMeasures, Settings
from fedrelax.typing import FloatArray, Label, SparseMatrix


class WholeEngine(Engine):
    """Holds the models of a network whose settings and models have already been found."""

    name, rank = "whole", 0

    def __init__(self, network: Network, found: Found) -> None:
        task = network.task
        self.labels, self.at_rest = tuple(network.labels), False
        self.given = self.edges = network.graph.adjacency
        self._network, self._alpha = network, found.alpha
        self._alone = [adapt(model, task) for model in found.alone]
        self._together = [adapt(model, task) for model in found.together]
        self._models = self._alone
        self._answers: FloatArray | None = None
        self._moved = np.full(len(self.labels), np.inf)

    @classmethod
    def unsupported_network(cls, network: Network, settings: Settings) -> str | None:
        """Refuse: only ``solvers.WholeNetwork`` makes this engine, from what it found."""
        return "only solvers.WholeNetwork can make it"

    @classmethod
    def of(cls, network: Network, settings: Settings) -> NoReturn:
        """Refuse as well."""
        raise NotImplementedError

    def start(self) -> None:
        """Begin with every node alone."""

    def share(self, round: int) -> None:
        """Let every node predict the public rows."""
        rows, old = self._network.public.common, self._answers
        assert rows is not None
        new = np.stack([model.predict(rows) for model in self._models])
        self._answers = new
        if old is not None:
            self._moved = np.square(new - old).mean(axis=(1, 2))

    def measure(self) -> NodeMeasures:
        """Return the measures of the current models."""
        assert self._answers is not None
        loss, task = usual_loss(self._network.kind), self._network.task
        own, held, rows = [], [], []
        for node, model in zip(self._network, self._models, strict=True):
            own.append(loss.mean(task.encode(node.y), model.predict(node.X)))
            X, y = node.validation or (node.X[:0], node.y[:0])
            rows.append(len(y))
            held.append(loss.mean(task.encode(y), model.predict(X)) if len(y) else np.nan)
        learners = np.repeat(np.arange(len(self.labels)), np.diff(self.given.indptr))
        values = self.given.data * self.discrepancies(self.given)
        gtv = np.bincount(learners, values, len(self.labels)).astype(float)
        return NodeMeasures(
            local_loss=np.array(own),
            gtv=gtv,
            pull=self._alpha / 2 * gtv,
            validation_loss=np.array(held),
            validation_rows=np.array(rows),
            change=self._moved,
            size=np.square(self._answers).mean(axis=(1, 2)),
        )

    def update(self, round: int) -> int:
        """Switch to the models found for the whole network."""
        self._models, self.at_rest = self._together, True
        return 1

    def discrepancies(self, edges: SparseMatrix) -> FloatArray:
        """Return d(i, j) for every stored entry of a CSR matrix."""
        assert self._answers is not None
        loss, values = usual_loss(self._network.kind), np.empty(edges.nnz)
        for i, own in enumerate(self._answers):
            part = slice(edges.indptr[i], edges.indptr[i + 1])
            values[part] = loss.per_row(self._answers[edges.indices[part]], own).mean(axis=1)
        return values

    def own_losses(self, edges: SparseMatrix) -> FloatArray:
        """Return node i's loss on its own rows under neighbour j's model."""
        loss, task = usual_loss(self._network.kind), self._network.task
        values = []
        for i, node in enumerate(self._network):
            target = task.encode(node.y)
            for j in edges.indices[edges.indptr[i] : edges.indptr[i + 1]]:
                values.append(loss.mean(target, self._models[j].predict(node.X)))
        return np.array(values)

    def embedding(self) -> FloatArray:
        """Return every node's answers as a row."""
        assert self._answers is not None
        return self._answers.reshape(len(self._answers), -1)

    def snapshot(self) -> tuple[SparseMatrix, list[LocalModel]]:
        """Return the graph and the current models."""
        return self.edges, self._models

    def restore(self, state: tuple[SparseMatrix, list[LocalModel]]) -> None:
        """Return to earlier models."""
        _, self._models = state
        self.share(-1)

    def state(self) -> dict[str, Any]:
        """Return which models are in use; all were found before the first round."""
        return {"together": self._models is self._together, "moved": self._moved}

    def resume(self, state: Any, round: int) -> None:
        """Use the stored choice of models again."""
        self._models = self._together if state["together"] else self._alone
        self.at_rest = bool(state["together"])
        self.share(round)
        self._moved = of_shape(state["moved"], self._moved.shape, "changes", finite=False)

    def packed_models(self, models: list[LocalModel]) -> bool:
        """Return whether these are the models together."""
        return models is self._together

    def models_from(self, values: Any, round: int) -> list[LocalModel]:
        """Return the models together or alone."""
        return self._together if values else self._alone

    def rewire(self, edges: SparseMatrix) -> NoReturn:
        """Refuse: the models were found for the given graph."""
        raise NotImplementedError

    def settle(self, round: int) -> None:
        """Do nothing: the models are final."""

    @property
    def local_models(self) -> Mapping[Label, LocalModel]:
        """The current models."""
        return dict(zip(self.labels, self._models, strict=True))

    @property
    def alone_models(self) -> Mapping[Label, LocalModel]:
        """Every node's model trained on its own rows."""
        return dict(zip(self.labels, self._alone, strict=True))
