"""A trained network that lives on: its models, answers, rows and edges, and what changed in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fedrelax.combining import Mean
from fedrelax.engines.base import coupling_of
from fedrelax.engines.sites.refits import refit
from fedrelax.errors import FedRelaxError, did_you_mean
from fedrelax.graph import Graph
from fedrelax.living.changelog import Change, Past
from fedrelax.living.least_squares import LeastSquares
from fedrelax.living.neighbourhood import neighbourhood_size
from fedrelax.living.overlay import (
    GONE,
    FirstAnswers,
    Guesses,
    Near,
    Overlay,
    part,
)
from fedrelax.losses import Weighted, usual_loss
from fedrelax.models import LocalModel
from fedrelax.network import Network, Node
from fedrelax.network.rows import Lookup
from fedrelax.public import PublicRows
from fedrelax.runtime import Coupling, Distillation, Site
from fedrelax.runtime.site import seeds_of
from fedrelax.solvers import FedRelax, Result, Solver
from fedrelax.typing import AnyArray, FloatArray, Label

OwnRows = tuple[AnyArray, AnyArray]


@dataclass(frozen=True, eq=False)
class Origin:
    """What a trained network must keep so that it can change after fit.

    public : the common public rows; ``answers`` (nodes, rows, outputs) are every node's predictions on
        them, computed from the models if not given.
    coupling : how nodes listen to each other, as in training. Where the models were found for all nodes
        together (``found_together``), its alpha means nothing: a node then chooses its own, between alone
        and its neighbours' answers, by cross-validation on its rows, and no other node is refitted.
    rows : the nodes' own rows, where available; ``counts`` how many there were, where only that is known;
        ``past`` how well each node's neighbours have fitted its new rows so far.
    wired : whether nodes found their neighbours themselves, and so may find others.
    """

    public: PublicRows
    coupling: Coupling
    found_together: bool = False
    wired: bool = False
    seed: int = 0
    rows: Mapping[Label, OwnRows] | None = None
    answers: FloatArray | None = None
    counts: Mapping[Label, int] | None = None
    past: Mapping[Label, Past] | None = None

    @classmethod
    def of(cls, solver: Solver, network: Network, level: float, seed: int) -> Origin | None:
        """Return the origin of a network that a solver trained; None if it cannot change after fit.

        A newcomer compares the others' answers on one set of public rows, as they were sent, by predictions
        alone: so there must be such a set, nothing around the exchange, no discrepancy that depends on x,
        and one model at a node.
        """
        if network.public.common is None or solver.around(network):
            return None
        if isinstance(solver, FedRelax):
            coupling = coupling_of(solver, network.kind)
            if isinstance(coupling.discrepancy, Weighted) or coupling.update != "refit":
                return None
        else:
            loss = usual_loss(network.kind)
            coupling = Coupling(alpha=0.0, loss=loss, discrepancy=loss, level=level)
        nodes = network.nodes
        return cls(
            public=network.public,
            coupling=coupling,
            found_together=not isinstance(solver, FedRelax),
            wired=solver.wiring is not None,
            seed=seed,
            rows=Lookup(nodes, lambda label: (nodes[label].X, nodes[label].y)),
        )


class LivingNetwork:
    """The state of a network between changes. A change that fails leaves it as it was.

    result, graph : the trained network, and the graph including nodes that have no rows.
    """

    def __init__(self, result: Result, graph: Graph, origin: Origin) -> None:
        public = origin.public
        if public.common is None:
            raise FedRelaxError(
                "every node has public rows of its own, so the network cannot change after fit: nodes that "
                "never met have no answers on the same rows; fit with one common set of public rows"
            )
        self.result, self.graph, self.public, self.task = result, graph, public, result.task
        self.coupling, self.wired = origin.coupling, origin.wired
        self.found_together = origin.found_together
        self.stayed = set(result.stayed)
        trained = self.trained_graph = result.graph if result.kept is None else result.kept
        place = {label: k for k, label in enumerate(trained.labels)}
        first = FirstAnswers(place, result.local_models, public.common, origin.answers)
        self.models: Overlay[LocalModel] = Overlay(result.local_models)
        self.alone: Overlay[LocalModel] = Overlay(result.alone)
        self.rows: Overlay[OwnRows] = Overlay(origin.rows or {})
        self.said: Overlay[FloatArray] = Overlay(first)
        self.links: Overlay[Near] = Overlay(Lookup(place, trained.neighbours))
        self.given: Overlay[Near] = Overlay({})
        """Edges of newcomers in the graph that counts as given."""
        self.positions: Overlay[FloatArray] = Overlay({})
        self.numbers: Overlay[int] = Overlay(place)
        """The place of every node in the order of joining, which determines its seed."""
        self.past: Overlay[Past] = Overlay(origin.past or {})
        """The loss on each node's new rows under what its neighbours say, by update."""
        self.least_squares = LeastSquares(self)
        self.guesses = Guesses(public, self.said, self.task)
        self.story: list[Change] = []
        self._counts, self.seed = origin.counts or {}, origin.seed
        self._seeds = seeds_of(origin.seed, 2 * len(place) + 100)
        self._before: tuple[dict[str, dict[Label, Any]], set[Label]] = {}, set()
        """What had changed before the last change, store by store, and who had stayed."""

    @property
    def _stores(self) -> dict[str, Overlay[Any]]:
        """All that a change may alter, by name."""
        return {name: store for name, store in vars(self).items() if isinstance(store, Overlay)}

    # What is known about the network

    @cached_property
    def neighbourhood_size(self) -> int:
        """How many neighbours a node looks for."""
        trained = self.trained_graph
        return neighbourhood_size(np.diff(trained.adjacency.indptr), trained.is_uniform)

    @cached_property
    def usual_weight(self) -> float:
        """The weight of an edge that a node finds."""
        weights = self.trained_graph.adjacency.data
        return float(np.median(weights)) if len(weights) else 1.0

    def knows(self, label: Label) -> bool:
        """Tell whether a node is in the network, with or without a model."""
        if label in self.given or label in self.models:
            return True
        return label in self.graph and label not in self.left

    @property
    def left(self) -> set[Label]:
        """Nodes that have left."""
        return {label for label, value in self.numbers.changed.items() if value is GONE}

    def check_model_of(self, label: Label) -> None:
        """Refuse a node that has no model."""
        if label not in self.models:
            raise FedRelaxError(
                f"node {label!r} has no model in this network{did_you_mean(label, self.models)}"
            )

    def neighbours_of(self, label: Label) -> Near:
        """Return whom a node listens to; for one without a model, its neighbours in the graph."""
        if label in self.models:
            return self.links[label]
        near = self.given.get(label)
        if near is None:
            near = self.graph.neighbours(label)
        return {j: a for j, a in near.items() if j in self.models}

    # One node's fit

    def seed_of(self, label: Label) -> int:
        """Return the seed of a node's model: that of its place in the order of joining."""
        number = self.numbers[label]
        if number >= len(self._seeds):
            self._seeds = seeds_of(self.seed, 2 * number + 1)
        return int(self._seeds[number])

    def can_refit(self, label: Label) -> bool:
        """Tell whether a node's model can follow its neighbours."""
        return label in self.rows and not self.found_together

    def leans_on_itself(self, label: Label) -> bool:
        """Tell whether a node's problem depends on its own last answers, so that it moves in steps."""
        coupling = self.coupling
        return coupling.level < 1.0 or not isinstance(coupling.combine, Mean)

    def site(
        self,
        label: Label,
        model: LocalModel,
        rows: OwnRows,
        near: Mapping[Label, float],
        own: FloatArray | None,
        coupling: Coupling,
    ) -> Site:
        """Return a node as it is in a round: it knows its rows, and what its neighbours said."""
        assert self.public.common is not None
        return Site(
            node=Node(label, *rows, None),
            task=self.task,
            model=model,
            public=self.public,
            neighbours=near,
            coupling=coupling,
            seed=self.seed_of(label),
            answers={} if own is None else {("public", label): own},
            received={(j, j): self.said[j] for j in near if j in self.models},
        )

    def fitted(self, site: Site, alone: bool = False) -> tuple[LocalModel, FloatArray]:
        """Return a node's model fitted to its problem, and its answers on the public rows."""
        terms = site.local_problem() if alone else site.problem(0)
        key, rows = ("public", site.label), self.public.of(site.label)
        model, answers = refit(
            site.label, site.model, terms, {key: rows}, site.seed, site.coupling.continued
        )
        return model, answers[key]

    def refit(self, label: Label) -> None:
        """Fit a node's model to its rows and to what its neighbours say now."""
        coupling = self.coupling
        if label in self.stayed:
            coupling = replace(coupling, alpha=0.0)
        site = self.site(
            label,
            self.models[label],
            self.rows[label],
            self.links[label],
            self.said[label],
            coupling,
        )
        self.models[label], self.said[label] = self.fitted(site)

    def count_of(self, label: Label) -> int:
        """Return how many rows a node learned from; if unknown, the number of public rows."""
        if label in self.rows:
            return len(self.rows[label][1])
        return int(self._counts.get(label, len(self.public.of(label))))

    def remembering(self, label: Label) -> Coupling:
        """Return a coupling in which a node's own answers stand in for old rows that are not available."""
        rows = max(self.count_of(label), 1)
        return replace(self.coupling, distillation=Distillation(rows, "bootstrap"))

    def forget(self, label: Label) -> None:
        """Remove a node and everything known about it."""
        part(self.links, label)
        for store in self._stores.values():
            if label in store:
                del store[label]
        for other, near in list(self.given.items()):
            if label in near:
                self.given[other] = {j: a for j, a in near.items() if j != label}
        self.stayed.discard(label)
        self.least_squares.forget(label)
        del self.numbers[label]  # also of a node without a model, so that it counts as gone

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Allow changes within this context; if it fails, or overflows, all of them are undone."""
        before = {name: dict(store.changed) for name, store in self._stores.items()}
        self._before = before, set(self.stayed)
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                yield
                self.least_squares.settle()
            self._check_finite()
        except BaseException:
            self._take_back()
            raise

    def undo(self) -> None:
        """Undo the last change, as if it had not been made."""
        self._take_back()
        self.story.pop()

    def _take_back(self) -> None:
        changes, self.stayed = self._before
        for name, changed in changes.items():
            getattr(self, name).changed = changed
        self.least_squares.drop()

    def _check_finite(self) -> None:
        """Refuse answers and losses that are not finite numbers."""
        for name in ("said", "past"):
            before = self._before[0][name]
            for label, value in getattr(self, name).changed.items():
                numbers = value.losses if isinstance(value, Past) else value
                new = value is not GONE and value is not before.get(label)
                if new and not np.isfinite(numbers).all():
                    raise overflow(label)


def overflow(label: Label) -> FedRelaxError:
    """Return the error for a change that numbers cannot represent."""
    return FedRelaxError(
        f"node {label!r}: with these rows, its predictions or their loss would not be finite numbers, so "
        "nothing was changed; correct values that are far too large, or leave their rows out"
    )
