"""The engine for networks of trees and forests: arrays instead of sites, one compiled loop per round."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from fedrelax.engines.answers import discrepancies, mean_square, variations
from fedrelax.engines.base import Engine, Settings, Unsuited, losses_of, of_shape
from fedrelax.engines.sites.checks import coupling_of, reason_in_models
from fedrelax.engines.trees.grove import Grove, GrownModels, Ready
from fedrelax.errors import FedRelaxError
from fedrelax.linear.arrays import nonzero
from fedrelax.losses import Log, Squared
from fedrelax.models import LocalModel, adapt
from fedrelax.models.trees import is_tree, node, why_not
from fedrelax.network import Network
from fedrelax.public import Smoother
from fedrelax.runtime import Coupling, NodeMeasures
from fedrelax.runtime.site import levelled, seeds_of
from fedrelax.typing import AnyArray, FloatArray, IntArray, Label


class TreeEngine(Engine):
    """Answers V (nodes, public rows, outputs) of trees that are all grown at once.

    A round grows node i's trees on its own rows, with weight 1 each, and on the public rows labelled by
    the weighted mean of its neighbours' answers, with weight ``alpha deg_i m_i / m_pub`` each: what a
    site does, for all nodes together.
    """

    name, rank = "trees", 3

    def __init__(self, network: Network, coupling: Coupling, seed: int | None, zeros: bool) -> None:
        self.labels = network.labels
        self._coupling, self._zeros_first = coupling, zeros
        self._task = network.task
        public = network.public.common
        assert public is not None
        self._public: AnyArray = public
        self.given = network.graph.adjacency
        self._prepared, self._alone = _prepared(network, seed)
        self._grove = self._alone
        self._told: FloatArray | None = None
        self._moved = np.full(len(self.labels), np.inf)
        self._join(self.given)

    @classmethod
    def refusal(cls, network: Network, settings: Settings) -> str | None:
        """Support the trees and forests that the compiled loop knows, under one loss, on common rows."""
        if not node.has_numba():
            return "it needs numba (pip install 'fedrelax[fast]')"
        for label, model in network.distinct_models.items():
            if not is_tree(model):
                kind = type(model).__name__
                return f"node {label!r}: {kind} is not a scikit-learn tree or forest"
            reason = why_not(model)
            if reason is not None:
                return f"node {label!r}: {reason}"
        loss, discrepancy = losses_of(settings, network.kind)
        if type(loss) is not type(discrepancy) or not isinstance(loss, Squared | Log):
            return (
                "it needs squared or log as both loss and discrepancy, and found "
                f"discrepancy={discrepancy.name!r}"
            )
        if settings.order != "simultaneous":
            return f"it needs order='simultaneous', not {settings.order!r}"
        if not settings.collapse:
            return "it averages the neighbours' answers first, so it needs collapse=True"
        if settings.distillation is not None:
            return "distillation draws new rows in every round"
        if network.public.common is None:
            return "it needs one common set of public rows"
        width = network.public.common.shape[1:]
        if len(width) != 1 or width[0] == 0:
            return f"the rows have the shape {width}, not (features,)"
        return reason_in_models(network, settings)

    @classmethod
    def of(cls, network: Network, settings: Settings) -> TreeEngine:
        """Sort the rows; what the loop cannot handle is left to the sites, whose errors name the node."""
        coupling = coupling_of(settings, network.kind)
        zeros = settings.first_exchange == "zeros"
        try:
            return cls(network, coupling, settings.random_state, zeros)
        except FedRelaxError as error:
            raise Unsuited(cls.name, str(error)) from None

    def start(self) -> None:
        """Start from the trees grown alone."""
        self._grove = self._alone

    def share(self, round: int) -> None:
        """Let every node send its answers on the public rows."""
        old, new, damping = self._told, self._grove.public, self._coupling.damping
        if self._zeros_first and round == 0:
            new = np.zeros_like(new)
        if old is not None and damping:
            new = (1 - damping) * new + damping * old
        self._moved = np.full(len(new), np.inf) if old is None else mean_square(new - old)
        self._told = new
        self._hear()

    def _hear(self) -> None:
        assert self._told is not None
        told = self._told
        self._heard = (self.edges @ told.reshape(len(told), -1)).reshape(told.shape)

    def update(self, round: int) -> int:
        """Regrow all trees."""
        coupling, counts = self._coupling, np.diff(self._prepared.own_ends)
        if coupling.alpha == 0:
            self._grove = self._alone
            return 1
        own, classes = self._grove.public, self._task.is_classification
        taught = levelled(self._mean_heard(), own, coupling.level, classes)
        scale = counts / len(self._public) if coupling.weighting == "mean" else 1.0
        factor = 2.0 if coupling.symmetric else 1.0
        strength = coupling.alpha * scale * (factor * self._degree)
        self._grove = self._prepared.grow(taught, strength, len(self._public))
        return 1

    def _mean_heard(self) -> FloatArray:
        """Return the weighted mean of the neighbours' answers; with one neighbour, exactly its answer."""
        assert self._told is not None
        mean = self._heard / nonzero(self._degree)[:, None, None]
        single = np.flatnonzero(np.diff(self.edges.indptr) == 1)
        mean[single] = self._told[self.edges.indices[self.edges.indptr[single]]]
        return np.asarray(mean)

    def measure(self) -> NodeMeasures:
        """Return the measures of the current trees."""
        assert self._told is not None
        coupling, ready, grove = self._coupling, self._prepared, self._grove
        classes = self._task.is_classification
        gtv = variations(
            self.edges,
            grove.public,
            self._told,
            self._heard,
            coupling.discrepancy,
            coupling.level,
            classes,
        )
        counts = np.diff(ready.own_ends)
        pull = gtv * len(self._public) / counts if coupling.weighting == "rows" else gtv
        return NodeMeasures(
            local_loss=self._losses(ready.target, grove.own, ready.own_ends),
            gtv=gtv,
            pull=coupling.alpha * (1.0 if coupling.symmetric else 0.5) * pull,
            validation_loss=self._losses(ready.held_target, grove.held, ready.held_ends),
            validation_rows=np.diff(ready.held_ends).astype(float),
            change=self._moved,
            size=mean_square(self._told),
        )

    def _losses(self, target: FloatArray, answers: FloatArray, ends: IntArray) -> FloatArray:
        """Return the mean loss of every node; NaN for nodes without such rows."""
        counts = np.diff(ends)
        owners = np.repeat(np.arange(len(counts)), counts)
        sums = np.bincount(owners, self._coupling.loss.per_row(target, answers), len(counts))
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)

    def snapshot(self) -> tuple[Any, Grove]:
        """Return the graph and the trees; neither is ever modified in place."""
        return self.edges, self._grove

    def restore(self, state: tuple[Any, Grove]) -> None:
        """Return to earlier trees and their graph, and share their answers."""
        edges, self._grove = state
        self._join(edges)
        self._told = None
        self.share(-1)

    def state(self) -> dict[str, Any]:
        """Return what the trees were grown on and predict, the messages, and the graph."""
        return {
            "edges": self.as_given(self.edges),
            "grove": self._grove_packed(self._grove),
            "told": self._told,
            "moved": self._moved,
        }

    def resume(self, state: Any, round: int) -> None:
        """Restore trees, messages and the graph."""
        self._join(self.edges_from(state["edges"]))
        self._grove = self._grove_from(state["grove"])
        self._told = of_shape(state["told"], self._alone.public.shape, "messages")
        self._moved = of_shape(state["moved"], self._moved.shape, "changes", finite=False)
        self._hear()

    def packed(self, snapshot: tuple[Any, Grove]) -> tuple[Any, Any]:
        """Return the graph and the trees as plain values."""
        edges, grove = snapshot
        return self.as_given(edges), self._grove_packed(grove)

    def unpacked(self, values: Any, round: int) -> tuple[Any, Grove]:
        """Return the graph and the trees."""
        edges, grove = values
        return self.edges_from(edges), self._grove_from(grove)

    def _grove_packed(self, grove: Grove) -> tuple[Any, ...] | None:
        return None if grove is self._alone else tuple(grove)

    def _grove_from(self, values: Any) -> Grove:
        alone = self._alone
        if values is None:
            return alone
        taught, *rest = Grove(*values)
        shapes = [numbers.shape for numbers in alone[1:]]
        return Grove(
            None if taught is None else of_shape(taught, alone.public.shape, "targets"),
            *(of_shape(found, shape, "trees") for found, shape in zip(rest, shapes, strict=True)),
        )

    @property
    def local_models(self) -> Mapping[Label, LocalModel]:
        """The current models, made on demand."""
        return GrownModels(self.labels, self._prepared, self._grove, self._public, self._coupling)

    @property
    def alone_models(self) -> Mapping[Label, LocalModel]:
        """The models of round 0, made on demand."""
        return GrownModels(self.labels, self._prepared, self._alone, self._public, self._coupling)

    # Wiring

    def _join(self, edges: Any) -> None:
        self.edges = edges
        self._degree = _degrees(edges)

    def rewire(self, edges: Any) -> None:
        """Continue on another graph."""
        self._join(edges)
        self._hear()

    def settle(self, round: int) -> None:
        """Restart from the trees grown alone: later ones carry what dropped neighbours taught them."""
        self._grove = self._alone
        self._told = None
        self.share(round)

    def embedding(self) -> FloatArray:
        """Return every node's answers as a row."""
        assert self._told is not None
        return self._told.reshape(len(self._told), -1)

    def discrepancies(self, edges: Any) -> FloatArray:
        """Return d(i, j) for every stored entry of a CSR matrix, in its order."""
        assert self._told is not None
        coupling = self._coupling
        return discrepancies(
            edges,
            self._grove.public,
            self._told,
            coupling.discrepancy,
            coupling.level,
            self._task.is_classification,
        )

    def own_losses(self, edges: Any) -> FloatArray:
        """Return node i's loss on its own rows if it predicted them with neighbour j's answers."""
        assert self._told is not None
        smoother, told, values = Smoother(self._public), self._told, []
        flat = told.transpose(1, 0, 2).reshape(told.shape[1], -1)
        known = smoother.coefficients(flat).reshape(told.shape[1], *told.shape[::2])
        for i, own in enumerate(self._prepared.nodes):
            others = edges.indices[edges.indptr[i] : edges.indptr[i + 1]]
            guess = np.einsum("mp,pjk->jmk", smoother.weights(own.X), known[:, others])
            target = self._task.encode(own.y)[None]
            losses = self._coupling.loss.per_row(target, self._task.plausible(guess))
            values.append(losses.mean(axis=1))
        return np.concatenate(values)


def _degrees(edges: Any) -> FloatArray:
    """Return every node's degree, summed as ``np.sum`` sums the weights of one node.

    Trees have ties that the last digit decides; this way they are decided as at sites.
    """
    ends = edges.indptr.tolist()
    return np.array([np.sum(edges.data[first:last]) for first, last in pairwise(ends)])


def _prepared(network: Network, seed: int | None) -> tuple[Ready, Grove]:
    """Return sorted rows and the trees grown alone, cached for all runs on a network's rows."""
    memory = network.memory
    known: tuple[Ready, Grove] | None = None if memory is None else memory.get(("trees", seed))
    if known is not None:
        return known
    adapted = {id(model): adapt(model, network.task) for model in network.distinct_models.values()}
    models: list[Any] = [adapted[id(model)] for model in network.models]
    ready = Ready.of(network, models, seeds_of(seed, len(network)))
    public = network.public.common
    assert public is not None
    alone = ready.grow(None, np.zeros(len(network)), len(public))
    if memory is not None and seed is not None:
        memory["trees", seed] = ready, alone
    return ready, alone
