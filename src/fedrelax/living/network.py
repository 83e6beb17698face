"""A trained network that lives on: its models, answers, rows and edges, and what changed in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fedrelax.combining import Mean
from fedrelax.engines.sites.refits import refit
from fedrelax.errors import FedRelaxError
from fedrelax.graph import Graph
from fedrelax.living.least_squares import LeastSquares
from fedrelax.living.overlay import GONE, Overlay
from fedrelax.losses import Weighted, usual_loss
from fedrelax.models import LocalModel
from fedrelax.network import Network, Node
from fedrelax.network.rows import Lookup
from fedrelax.public import PublicRows, Smoother
from fedrelax.runtime import Coupling, Distillation, Site
from fedrelax.runtime.site import Inputs, seeds_of
from fedrelax.solvers import FedRelax, Result, Solver
from fedrelax.typing import AnyArray, FloatArray, Label

if TYPE_CHECKING:
    from fedrelax.living.changes import Change

OwnRows = tuple[AnyArray, AnyArray]
Near = dict[Label, float]

FEWEST, MOST, SHARE = 3, 60, 0.1
"""Neighbours to look for: at least, at most, and as a share of all nodes where all are connected alike."""


@dataclass(frozen=True, eq=False)
class Origin:
    """What a trained network must keep so that it can change after fit.

    public : the common public rows; ``answers`` (nodes, rows, outputs) are every node's predictions on
        them, computed from the models if not given.
    coupling : how nodes listen to each other, as in training. Where the models were found for all nodes
        together (``found_together``), its alpha means nothing: a node then chooses its own, between alone
        and its neighbours' answers, by cross-validation on its rows, and no other node is refitted.
    rows : the nodes' own rows, where available; ``counts`` how many there were, where only that is known;
    """

    public: PublicRows
    coupling: Coupling
    found_together: bool = False
    seed: int = 0
    rows: Mapping[Label, OwnRows] | None = None
    answers: FloatArray | None = None
    counts: Mapping[Label, int] | None = None

    @classmethod
    def of(cls, solver: Solver, network: Network, level: float, seed: int) -> Origin | None:
        """Return the origin of a network that a solver trained; None if it cannot change after fit.

        A newcomer compares the others' answers on one set of public rows, as they were sent, by predictions
        alone: so there must be such a set, nothing around the exchange, and no discrepancy that depends
        on x.
        """
        if network.public.common is None or solver.layers:
            return None
        if isinstance(solver, FedRelax):
            coupling = solver.coupling(network.kind)
            if isinstance(coupling.discrepancy, Weighted):
                return None
        else:
            loss = usual_loss(network.kind)
            coupling = Coupling(alpha=0.0, loss=loss, discrepancy=loss, level=level)
        nodes = network.nodes
        return cls(
            public=network.public,
            coupling=coupling,
            found_together=not isinstance(solver, FedRelax),
            seed=seed,
            rows=Lookup(nodes, lambda label: (nodes[label].X, nodes[label].y)),
        )


class LivingNetwork:
    """The state of a network between changes. A change that fails leaves it as it was.

    result, graph : the trained network, and the graph including nodes that have no rows.
    """

    def __init__(self, result: Result, graph: Graph, origin: Origin) -> None:
        self.result, self.graph, self.task = result, graph, result.task
        self.public, self.coupling, self.seed = origin.public, origin.coupling, origin.seed
        self.found_together, self._origin = origin.found_together, origin
        assert self.public.common is not None
        self.public_rows: AnyArray = self.public.common
        trained = self.trained_graph = result.graph if result.kept is None else result.kept
        labels = dict.fromkeys(trained.labels)
        self.models: Overlay[LocalModel] = Overlay(result.local_models)
        self.alone: Overlay[LocalModel] = Overlay(result.alone)
        self.rows: Overlay[OwnRows] = Overlay(origin.rows or {})
        self.said: Overlay[FloatArray] = Overlay(Lookup(labels, self._first_answer))
        self.links: Overlay[Near] = Overlay(Lookup(labels, trained.neighbours))
        self.given: Overlay[Near] = Overlay({})
        """Edges of newcomers in the graph that counts as given; who has left is gone here."""
        self.positions: Overlay[FloatArray] = Overlay({})
        self.stayed = set(result.stayed)
        self.story: list[Change] = []
        seeds = seeds_of(origin.seed, len(labels)).tolist()
        self._seeds: dict[Label, int] = dict(zip(labels, seeds, strict=True))
        """The seed of every node's model, by the order of joining; those that left are remembered."""
        self._before: dict[str, Any] = {}
        """What a change may alter, by name, as it was before the last change."""

    # What is known about the network

    @cached_property
    def neighbourhood_size(self) -> int:
        """How many neighbours a node looks for: as many as nodes usually have."""
        trained = self.trained_graph
        degrees = np.diff(trained.adjacency.indptr)
        joined = degrees[degrees > 0]
        alike = trained.is_uniform or not len(joined)
        usual = SHARE * len(degrees) if alike else float(np.median(joined))
        return int(min(max(np.ceil(usual), FEWEST), MOST, len(degrees)))

    @cached_property
    def least_squares(self) -> LeastSquares:
        """The closed form of nodes that have one."""
        return LeastSquares(self)

    @cached_property
    def usual_weight(self) -> float:
        """The weight of an edge that a node finds."""
        weights = self.trained_graph.adjacency.data
        return float(np.median(weights)) if len(weights) else 1.0

    @property
    def left(self) -> set[Label]:
        """Nodes that have left."""
        return {label for label, near in self.given.changed.items() if near is GONE}

    def knows(self, label: Label) -> bool:
        """Tell whether a node is in the network, with or without a model."""
        known = label in self.given or label in self.models
        return known or (label in self.graph and label not in self.left)

    def neighbours_of(self, label: Label) -> Near:
        """Return whom a node listens to; for one without a model, its neighbours in the graph."""
        if label in self.models:
            return self.links[label]
        near = self.given[label] if label in self.given else self.graph.neighbours(label)
        return {j: weight for j, weight in near.items() if j in self.models}

    def count_of(self, label: Label) -> int:
        """Return how many rows a node learned from; if unknown, the number of public rows."""
        if label in self.rows:
            return len(self.rows[label][1])
        return int((self._origin.counts or {}).get(label, len(self.public_rows)))

    # Answers on the public rows, carried over to any rows

    def _first_answer(self, label: Label) -> FloatArray:
        if self._origin.answers is None:
            return self.result.local_models[label].predict(self.public_rows)
        return np.asarray(self._origin.answers[self.trained_graph.index(label)])

    @cached_property
    def _smoother(self) -> Smoother:
        return Smoother(self.public.as_numbers(self.public_rows))

    def carrying(self, X: AnyArray) -> FloatArray:
        """Return W (rows, public rows): ``W @ answers`` is what a node would answer on rows X."""
        return self._smoother.carrying(self.public.as_numbers(X))

    @cached_property
    def _first_answers(self) -> FloatArray:
        first = self._origin.answers
        return np.stack(list(self.said.base.values())) if first is None else first

    def guesses(self, X: AnyArray) -> tuple[list[Label], FloatArray]:
        """Return what every node would answer on rows X, and on average with its neighbours.

        Both count half. The array is (nodes, rows, outputs); the nodes come first.
        """
        W, first, changed = self.carrying(X), self._first_answers, self.said.present_changes
        new = [label for label in changed if label not in self.said.base]
        labels = [*self.said.base, *new]
        place = {label: k for k, label in enumerate(labels)}
        n, guesses = len(first), np.empty((len(labels), len(W), first.shape[2]))
        for k in range(first.shape[2]):
            guesses[:n, :, k] = first[:, :, k] @ W.T
        for label, answer in changed.items():
            guesses[place[label]] = W @ answer
        guesses = self.task.plausible(guesses)
        flat = guesses.reshape(len(guesses), -1)
        means, degrees = flat.copy(), self.trained_graph.degrees
        joined = np.flatnonzero(degrees)
        means[joined] = (self.trained_graph.adjacency @ flat[:n])[joined] / degrees[joined, None]
        for label, near in self.links.present_changes.items():
            own = {place[j]: weight for j, weight in near.items()} or {place[label]: 1.0}
            means[place[label]] = np.average(flat[list(own)], axis=0, weights=list(own.values()))
        together = 0.5 * guesses + 0.5 * means.reshape(guesses.shape)
        there = [k for k, label in enumerate(labels) if label in self.said]
        return [labels[k] for k in there], together[there]

    # One node's fit

    def can_refit(self, label: Label) -> bool:
        """Tell whether a node's model can follow its neighbours."""
        return label in self.rows and not self.found_together

    @property
    def moves_in_steps(self) -> bool:
        """Whether a node's problem depends on its own last answers."""
        coupling = self.coupling
        plain = coupling.update != "difference" and isinstance(coupling.combine, Mean)
        return coupling.level < 1.0 or not plain

    def fit(
        self,
        label: Label,
        model: LocalModel,
        rows: OwnRows,
        near: Mapping[Label, float],
        own: FloatArray | None,
        coupling: Coupling | None = None,
    ) -> tuple[LocalModel, FloatArray]:
        """Return a model fitted to a node's rows and its neighbours' answers, and its own answers.

        ``own`` are its last answers; a node that has none yet is fitted to its rows alone.
        """
        site = Site(
            node=Node(label, *rows, None),
            task=self.task,
            model=model,
            public=self.public,
            neighbours=near,
            coupling=coupling or self.coupling,
            seed=self._seeds[label],
            answers={} if own is None else {("public", label): own},
            received={(j, j): self.said[j] for j in near},
        )
        terms = site.local_problem() if own is None else site.problem(0)
        inputs: Inputs = {"public": self.public_rows}
        fitted, answers = refit(label, model, terms, inputs, site.seed, site.coupling.continued)
        return fitted, answers["public"]

    def refit(self, label: Label, new: OwnRows | None = None) -> None:
        """Fit a node's model to its rows and to what its neighbours say now.

        With ``new`` rows, the old ones are not available: the node's earlier answers stand in for them.
        """
        rows, coupling = new, self.coupling
        if rows is None:
            rows = self.rows[label]
            coupling = replace(coupling, alpha=0.0) if label in self.stayed else coupling
        else:
            echo = Distillation(max(self.count_of(label), 1), "bootstrap")
            coupling = replace(coupling, distillation=echo)
        model, near, own = self.models[label], self.links[label], self.said[label]
        self.models[label], self.said[label] = self.fit(label, model, rows, near, own, coupling)

    # Changes

    def enter(self, label: Label, position: FloatArray | None) -> None:
        """Prepare for a newcomer."""
        if label not in self._seeds:
            self._seeds[label] = int(seeds_of(self.seed, len(self._seeds) + 1)[-1])
        if position is not None:
            self.positions[label] = position

    def connect(self, label: Label, near: Mapping[Label, float]) -> None:
        """Connect a node to these neighbours instead of those it had."""
        self.disconnect(label)
        self.links[label] = dict(near)
        for other, weight in near.items():
            self.links[other] = {**self.links[other], label: weight}

    def disconnect(self, label: Label) -> None:
        """Cut all edges of a node."""
        for other in self.links.get(label, {}):
            self.links[other] = {j: a for j, a in self.links[other].items() if j != label}

    def forget(self, label: Label) -> None:
        """Remove a node and everything known about it."""
        self.disconnect(label)
        for store in vars(self).values():
            if isinstance(store, Overlay):
                del store[label]
        for other, near in list(self.given.items()):
            if label in near:
                self.given[other] = {j: a for j, a in near.items() if j != label}
        self.stayed.discard(label)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Allow changes within this context; if it fails or answers are not finite, all are undone."""
        parts = {
            n: part for n, part in vars(self).items() if isinstance(part, Overlay | set | list)
        }
        self._before = {name: copy(part) for name, part in parts.items()}
        said = self.said.present_changes
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                yield
            for label, answer in self.said.present_changes.items():
                if answer is not said.get(label):
                    check_finite(label, answer)
        except BaseException:
            self.undo()
            raise

    def undo(self) -> None:
        """Undo the last change, as if it had not been made."""
        vars(self).update(self._before)


def check_finite(label: Label, numbers: object) -> None:
    """Refuse a change that numbers cannot represent."""
    if not np.isfinite(numbers).all():  # type: ignore[call-overload]
        raise FedRelaxError(
            f"node {label!r}: with these rows, its predictions or their loss would not be finite "
            "numbers, so nothing was changed; correct values that are far too large, or leave their "
            "rows out"
        )
