"""The engine for networks of trees and forests: arrays instead of sites, one compiled loop per round."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np

from fedrelax.engines.base import Settings, UnsupportedNetworkError, coupling_of, of_shape
from fedrelax.engines.batch import BatchEngine
from fedrelax.engines.sites.checks import reason_in_models
from fedrelax.engines.trees.grove import Grove, Ready, grown
from fedrelax.errors import FedRelaxError
from fedrelax.losses import Log, Squared
from fedrelax.models import LocalModel, adapt
from fedrelax.models.trees import node, why_not
from fedrelax.network import Network
from fedrelax.network.rows import Lookup
from fedrelax.public import Smoother
from fedrelax.runtime.site import seeds_of
from fedrelax.typing import AnyArray, FloatArray, IntArray, Label, SparseMatrix


class TreeEngine(BatchEngine):
    """Trees of all nodes, grown at once.

    A round grows node i's trees on its own rows, with weight 1 each, and on the public rows labelled by
    the weighted mean of its neighbours' answers, with weight ``alpha deg_i m_i / m_pub`` each: what a
    site does, for all nodes together.
    """

    name, rank = "trees", 3
    losses, common = (Squared, Log), True
    models: Grove
    alone: Grove
    needs: ClassVar[Mapping[str, Any]] = {
        "order": "simultaneous",
        "collapse": True,
        "distillation": None,
    }

    def __init__(self, network: Network, settings: Settings) -> None:
        public = network.public.common
        assert public is not None
        self._public: AnyArray = public
        self._ready, self.alone = _ready(network, settings.random_state)
        self.models = self.alone
        ready, coupling = self._ready, coupling_of(settings, network.kind)
        counts, self.validation_rows = np.diff(ready.own_ends), np.diff(ready.held_ends)
        edges, first = network.graph.adjacency, settings.first_exchange
        super().__init__(network.labels, edges, network.task, counts, coupling, first)

    @classmethod
    def reason_in_network(cls, network: Network, settings: Settings) -> str | None:
        """Support the trees and forests that the compiled loop knows."""
        if not node.has_numba():
            return "it needs numba (pip install 'fedrelax[fast]')"
        for label, model in network.distinct_models.items():
            reason = why_not(model)
            if reason is not None:
                return f"node {label!r}: {reason}"
        assert network.public.common is not None
        width = network.public.common.shape[1:]
        if len(width) != 1 or width[0] == 0:
            return f"the rows have the shape {width}, not (features,)"
        return reason_in_models(network, settings)

    @classmethod
    def of(cls, network: Network, settings: Settings) -> TreeEngine:
        """Sort the rows; what the loop cannot handle is left to the sites, whose errors name the node."""
        try:
            return cls(network, settings)
        except FedRelaxError as error:
            raise UnsupportedNetworkError(cls.name, str(error)) from None

    def refit(self) -> Grove:
        """Grow all trees anew."""
        if self.coupling.alpha == 0:
            return self.alone
        return self._ready.grow(*self.targets(), len(self._public))

    def answers_of(self, models: Grove) -> FloatArray:
        """Return the trees' answers."""
        return models.public

    def mean_losses(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean losses on own rows and on validation rows."""
        ready, trees = self._ready, self.models
        own = self._losses(ready.target, trees.own, ready.own_ends)
        return own, self._losses(ready.held_target, trees.held, ready.held_ends)

    def _losses(self, target: FloatArray, answers: FloatArray, ends: IntArray) -> FloatArray:
        counts = np.diff(ends)
        owners = np.repeat(np.arange(len(counts)), counts)
        sums = np.bincount(owners, self.coupling.loss.per_row(target, answers), len(counts))
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)

    def settle(self, round: int) -> None:
        """Restart from the trees grown alone: later ones carry what dropped neighbours taught them."""
        self.models, self.messages = self.alone, None
        self.share(round)

    def own_losses(self, edges: SparseMatrix) -> FloatArray:
        """Return node i's loss on its own rows if it predicted them with neighbour j's answers."""
        smoother, sent, values = Smoother(self._public), self.sent, []
        flat = sent.transpose(1, 0, 2).reshape(sent.shape[1], -1)
        known = smoother.coefficients(flat).reshape(sent.shape[1], *sent.shape[::2])
        for i, own in enumerate(self._ready.nodes):
            others = edges.indices[edges.indptr[i] : edges.indptr[i + 1]]
            guess = np.einsum("mp,pjk->jmk", smoother.weights(own.X), known[:, others])
            target = self._task.encode(own.y)[None]
            losses = self.coupling.loss.per_row(target, self._task.plausible(guess))
            values.append(losses.mean(axis=1))
        return np.concatenate(values)

    def packed_models(self, models: Grove) -> tuple[Any, ...] | None:
        """Return what the trees were grown on and predict; nothing for those grown alone."""
        return None if models is self.alone else tuple(models)

    def models_from(self, values: Any, round: int) -> Grove:
        """Return the trees."""
        if values is None:
            return self.alone
        targets, *rest = Grove(*values)
        return Grove(
            None if targets is None else of_shape(targets, self.alone.public.shape, "targets"),
            *(
                of_shape(part, own.shape, "trees")
                for part, own in zip(rest, self.alone[1:], strict=True)
            ),
        )

    def plain_models(self, models: Grove) -> Mapping[Label, LocalModel]:
        """Return the trees as local models, grown again on demand."""
        ready = self._ready
        place = {label: k for k, label in enumerate(self.labels)}
        fixed = ready.models, ready.nodes, ready.seeds, models, self._public, self.coupling, place
        return Lookup(place, partial(grown, *fixed))


def _ready(network: Network, seed: int | None) -> tuple[Ready, Grove]:
    """Return sorted rows and the trees grown alone, cached for all runs on a network's rows."""
    memory = network.memory
    cached: tuple[Ready, Grove] | None = None if memory is None else memory.get(("trees", seed))
    if cached is not None:
        return cached
    adapted = {id(model): adapt(model, network.task) for model in network.distinct_models.values()}
    models: list[Any] = [adapted[id(model)] for model in network.models]
    ready = Ready.of(network, models, seeds_of(seed, len(network)))
    public = network.public.common
    assert public is not None
    alone = ready.grow(None, np.zeros(len(network)), len(public))
    if memory is not None and seed is not None:
        memory["trees", seed] = ready, alone
    return ready, alone
