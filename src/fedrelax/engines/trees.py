"""The engine for networks of trees and forests on one common public set: arrays instead of sites.

The rows of every node are sorted once; each round grows the trees of all nodes in the compiled loop and
keeps only what they answer. Local models are grown again when they are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from fedrelax.engines.base import UnsupportedNetworkError, of_shape
from fedrelax.engines.batch import BatchEngine
from fedrelax.engines.sites.checks import unsupported_models
from fedrelax.errors import FedRelaxError
from fedrelax.losses import Log, Squared
from fedrelax.models import LocalModel, Rows, adapt
from fedrelax.models.trees import TreeNode, node, unsupported_reason
from fedrelax.models.trees.growing import Packed, Problem, answers
from fedrelax.network import Network, Node
from fedrelax.network.rows import Lookup
from fedrelax.public import Smoother
from fedrelax.runtime import Coupling, Settings
from fedrelax.runtime.site import seeds_of
from fedrelax.typing import AnyArray, FloatArray, IntArray, Label, SparseMatrix


class Grove(NamedTuple):
    """The trees of all nodes: what they were grown on besides own rows, and their answers."""

    taught: FloatArray | None
    """Targets on the public rows, (nodes, rows, outputs), or None for trees grown alone."""
    strength: FloatArray
    """The weight of a public row at each node."""
    own: FloatArray
    public: FloatArray
    held: FloatArray
    """Answers on own rows and on validation rows, one node after the other, and on public rows."""


class Ready:
    """A network with its rows sorted once, for all runs on it, and the trees grown alone."""

    def __init__(self, network: Network, public: AnyArray, seed: int | None) -> None:
        task = network.task
        adapted = {id(model): adapt(model, task) for model in network.distinct_models.values()}
        self.nodes: list[Node] = list(network)
        self.models = [cast(TreeNode, adapted[id(model)]) for model in network.models]
        self.seeds = seeds_of(seed, len(network))
        self.public = public
        own = [task.encode(node.y) for node in self.nodes]
        held = [
            np.empty((0, task.n_outputs))
            if node.validation is None
            else task.encode(node.validation[1])
            for node in self.nodes
        ]
        self.target, self.held_target = np.concatenate(own), np.concatenate(held)
        self.rows, self.held_rows = np.array([*map(len, own)]), np.array([*map(len, held)])
        self.packed = [self._pack(i, target) for i, target in enumerate(own)]
        self.alone = self.grow(None, np.zeros(len(network)))

    def _pack(self, i: int, target: FloatArray) -> Packed:
        """Sort own rows, public rows, which have no weight yet, and validation rows."""
        node, model, silent = self.nodes[i], self.models[i], np.zeros(len(self.public))
        problem = Problem(
            [node.X, self.public],
            [target, np.zeros((len(silent), target.shape[1]))],
            [np.ones(len(target)), silent],
            model.seed_from(int(self.seeds[i])),
        )
        return model.packed(problem, () if node.validation is None else (node.validation[0],))

    def grow(self, taught: FloatArray | None, strength: FloatArray) -> Grove:
        """Grow every node's trees on its own rows and on public rows with these targets."""
        packed = self.packed if taught is None else self._taught(taught, strength)
        every, m = answers(packed), len(self.public)
        parts = [np.split(each, [n, n + m]) for each, n in zip(every, self.rows, strict=True)]
        own, public, held = zip(*parts, strict=True)
        return Grove(taught, strength, np.concatenate(own), np.stack(public), np.concatenate(held))

    def _taught(self, taught: FloatArray, strength: FloatArray) -> list[Packed]:
        packed = []
        for i, problem in enumerate(self.packed):
            rows = slice(self.rows[i], self.rows[i] + len(self.public))
            target, weight = problem.target.copy(), problem.weight.copy()
            target[rows], weight[rows] = taught[i], strength[i]
            packed.append(problem._replace(target=target, weight=weight))
        return packed


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
        public, memory, seed = network.public.common, network.memory, settings.random_state
        assert public is not None
        cached = None if memory is None else memory.get(("trees", seed))
        self._ready: Ready = cached or Ready(network, public, seed)
        if memory is not None and seed is not None:
            memory["trees", seed] = self._ready
        self.models = self.alone = self._ready.alone
        self.validation_rows = self._ready.held_rows
        edges, coupling = network.graph.adjacency, settings.coupling(network.kind)
        rows, first = self._ready.rows, settings.first_exchange
        super().__init__(network.labels, edges, network.task, rows, coupling, first)

    @classmethod
    def unsupported_network(cls, network: Network, settings: Settings) -> str | None:
        """Support the trees and forests that the compiled loop knows."""
        if not node.has_numba():
            return "it needs numba (pip install 'fedrelax[fast]')"
        for label, model in network.distinct_models.items():
            reason = unsupported_reason(model)
            if reason is not None:
                return f"node {label!r}: {reason}"
        assert network.public.common is not None
        width = network.public.common.shape[1:]
        if len(width) != 1 or width[0] == 0:
            return f"the rows have the shape {width}, not (features,)"
        return unsupported_models(network, settings)

    @classmethod
    def of(cls, network: Network, settings: Settings) -> TreeEngine:
        """Sort the rows; what the loop cannot handle is left to the sites, whose errors name the node."""
        try:
            return cls(network, settings)
        except FedRelaxError as error:
            raise UnsupportedNetworkError(cls.name, str(error)) from None

    def refit(self) -> Grove:
        """Grow all trees anew."""
        return self.alone if self.coupling.alpha == 0 else self._ready.grow(*self.targets())

    def answers_of(self, models: Grove) -> FloatArray:
        """Return the trees' answers."""
        return models.public

    def mean_losses(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean losses on own rows and on validation rows."""
        ready, trees = self._ready, self.models
        own = self._losses(ready.target, trees.own, ready.rows)
        return own, self._losses(ready.held_target, trees.held, ready.held_rows)

    def _losses(self, target: FloatArray, answers: FloatArray, counts: IntArray) -> FloatArray:
        owners = np.repeat(np.arange(len(counts)), counts)
        sums = np.bincount(owners, self.coupling.loss.per_row(target, answers), len(counts))
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)

    def settle(self, round: int) -> None:
        """Restart from the trees grown alone: later ones carry what dropped neighbours taught them."""
        self.models, self.messages = self.alone, None
        self.share(round)

    def own_losses(self, edges: SparseMatrix) -> FloatArray:
        """Return node i's loss on its own rows if it predicted them with neighbour j's answers."""
        smoother, sent, values = Smoother(self._ready.public), self.sent, []
        flat = sent.transpose(1, 0, 2).reshape(sent.shape[1], -1)
        coefficients = smoother.coefficients(flat).reshape(sent.shape[1], *sent.shape[::2])
        for i, own in enumerate(self._ready.nodes):
            others = edges.indices[edges.indptr[i] : edges.indptr[i + 1]]
            guess = np.einsum("mp,pjk->jmk", smoother.weights(own.X), coefficients[:, others])
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
        grove, alone = Grove(*values), self.alone
        if grove.taught is not None:
            of_shape(grove.taught, alone.public.shape, "targets")
        parts = zip(grove[1:], alone[1:], strict=True)
        return Grove(grove.taught, *(of_shape(part, own.shape, "trees") for part, own in parts))

    def plain_models(self, models: Grove) -> Mapping[Label, LocalModel]:
        """Return the trees as local models, grown again on demand."""
        ready, places = self._ready, {label: i for i, label in enumerate(self.labels)}
        rows = ready.nodes, ready.public, models
        return Lookup(
            places, partial(_grown, ready.models, ready.seeds, rows, self.coupling, places)
        )


def _grown(
    models: Sequence[TreeNode],
    seeds: IntArray,
    rows: tuple[list[Node], AnyArray, Grove],
    coupling: Coupling,
    places: Mapping[Label, int],
    label: Label,
) -> TreeNode:
    """Return the trees of one node as a local model."""
    i, (nodes, public, grove) = places[label], rows
    target = models[i].task.encode(nodes[i].y)
    terms = [Rows(nodes[i].X, target, np.ones(len(target)), coupling.loss)]
    if grove.taught is not None and grove.strength[i] > 0:
        weight = np.full(len(public), grove.strength[i])
        terms.append(Rows(public, grove.taught[i], weight, coupling.discrepancy))
    return models[i].grown_on(terms, int(seeds[i]))
