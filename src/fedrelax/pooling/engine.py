"""The engine for partial pooling: round 0 is every node alone, then come the rounds of the exchange."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from fedrelax.engines.base import Engine, of_shape
from fedrelax.losses import usual_loss
from fedrelax.models import LocalModel, adapt
from fedrelax.network import Network
from fedrelax.network.rows import StackedRows
from fedrelax.pooling.network import PooledNetwork, predictions
from fedrelax.runtime import NodeMeasures, Settings
from fedrelax.typing import FloatArray, Label, SparseMatrix

MEASURED = 200
"""Public rows on which models are compared, at most."""


class PoolingEngine(Engine):
    """Goes through the rounds of a network that was pooled, and measures its models after each."""

    name, rank = "pooling", 0

    def __init__(self, network: Network, pooled: PooledNetwork) -> None:
        self.labels, self._round = tuple(network.labels), 0
        self.usual_rounds = len(pooled.rounds)
        self.given = self.edges = network.graph.adjacency
        self._network, self._pooled = network, pooled
        public = network.public.common
        assert public is not None
        few = np.linspace(0, len(public) - 1, min(len(public), MEASURED)).astype(np.int64)
        self._columns = pooled.columns(np.asarray(public[few], dtype=float))
        self._answers: FloatArray | None = None
        self._moved = np.full(len(self.labels), np.inf)

    @classmethod
    def unsupported_network(cls, network: Network, settings: Settings) -> str | None:
        """Refuse: only ``solvers.PartialPooling`` makes this engine, from what it found."""
        return "only solvers.PartialPooling can make it"

    @classmethod
    def of(cls, network: Network, settings: Settings) -> NoReturn:
        """Refuse as well."""
        raise NotImplementedError

    @property
    def _models(self) -> FloatArray:
        pooled = self._pooled
        return pooled.rounds[self._round - 1] if self._round else pooled.apart

    def start(self) -> None:
        """Begin with every node alone."""

    def share(self, round: int) -> None:
        """Let every node predict public rows."""
        old, scores = self._answers, np.einsum("ri,nci->nrc", self._columns, self._models)
        self._answers = new = predictions(self._network.task, scores)
        if old is not None:
            self._moved = np.square(new - old).mean(axis=(1, 2))

    def measure(self) -> NodeMeasures:
        """Return the measures of the current models."""
        assert self._answers is not None
        own, held, n = self._network.own_rows, self._network.validation_rows, len(self.labels)
        learners = np.repeat(np.arange(n), np.diff(self.given.indptr))
        values = self.given.data * self.discrepancies(self.given)
        gtv = np.bincount(learners, values, n).astype(float)
        return NodeMeasures(
            local_loss=self._mean_losses(own),
            gtv=gtv,
            pull=self._pooled.alpha / 2 * gtv,
            validation_loss=np.full(n, np.nan) if held is None else self._mean_losses(held),
            validation_rows=np.zeros(n, dtype=np.int64) if held is None else held.counts,
            change=self._moved,
            size=np.square(self._answers).mean(axis=(1, 2)),
        )

    def _mean_losses(self, rows: StackedRows) -> FloatArray:
        node = np.repeat(np.arange(len(self.labels)), rows.counts)
        losses = self._pooled.losses(self._models, np.asarray(rows.X, dtype=float), rows.y, node)
        sums = np.bincount(node, losses, minlength=len(self.labels))
        return np.asarray(sums / np.where(rows.counts > 0, rows.counts, np.nan))

    def update(self, round: int) -> int:
        """Go to the models of the next round."""
        self._round += 1
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
        values = []
        for i, node in enumerate(self._network):
            for j in edges.indices[edges.indptr[i] : edges.indptr[i + 1]]:
                where = np.full(len(node.y), j)
                losses = self._pooled.losses(self._models, node.X, node.y, where)
                values.append(losses.mean())
        return np.array(values)

    def embedding(self) -> FloatArray:
        """Return every node's answers as a row."""
        assert self._answers is not None
        return self._answers.reshape(len(self._answers), -1)

    def snapshot(self) -> tuple[SparseMatrix, int]:
        """Return the graph and the number of the round."""
        return self.edges, self._round

    def restore(self, state: tuple[SparseMatrix, int]) -> None:
        """Return to an earlier round."""
        _, self._round = state
        self.share(-1)

    def state(self) -> dict[str, Any]:
        """Return the number of the round; all rounds are computed before the first is measured."""
        return {"round": self._round, "moved": self._moved}

    def resume(self, state: Any, round: int) -> None:
        """Go to a round."""
        self._round = int(np.clip(state["round"], 0, len(self._pooled.rounds)))
        self.share(round)
        self._moved = of_shape(state["moved"], self._moved.shape, "changes", finite=False)

    def packed_models(self, models: int) -> int:
        """Return the number of a round."""
        return models

    def models_from(self, values: Any, round: int) -> int:
        """Return the number of a round."""
        return int(np.clip(values, 0, len(self._pooled.rounds)))

    def rewire(self, edges: SparseMatrix) -> NoReturn:
        """Refuse: the models were found for the given graph."""
        raise NotImplementedError

    def settle(self, round: int) -> None:
        """Do nothing: the models are final."""

    @property
    def local_models(self) -> Mapping[Label, LocalModel]:
        """The current models."""
        return self._as_models(self._models)

    @property
    def alone_models(self) -> Mapping[Label, LocalModel]:
        """Every node's model trained on its own rows."""
        return self._as_models(self._pooled.apart)

    def _as_models(self, models: FloatArray) -> Mapping[Label, LocalModel]:
        made = (adapt(one, self._network.task) for one in self._pooled.estimators(models))
        return dict(zip(self.labels, made, strict=True))
