"""The ``Site`` of every lane: the same class as within one process, on this machine's rows."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from fedrelax.engines.base import coupling_of
from fedrelax.engines.sites.keeping import packed_term, term_from
from fedrelax.engines.sites.refits import refit
from fedrelax.errors import FedRelaxError
from fedrelax.federation.boxes import Mailbox
from fedrelax.federation.letters import Envelope
from fedrelax.federation.plan import Plan
from fedrelax.federation.settings import SiteFile
from fedrelax.federation.state import LaneState, Run
from fedrelax.federation.table import (
    SiteTable,
    draw_own,
    model_of,
    own_folds,
    parts_of,
    validation_of,
)
from fedrelax.graph import Graph
from fedrelax.models import LocalModel, Rows
from fedrelax.models.difference import local_model
from fedrelax.network import Network, Node
from fedrelax.network.rows import public_rows
from fedrelax.public import PublicRows
from fedrelax.runtime import Site
from fedrelax.splits import RowGroups
from fedrelax.typing import AnyArray, FloatArray, IntArray


class LaneSites:
    """A site in a run: makes the sites of the plan's lanes from its rows."""

    def __init__(self, site: SiteFile, table: SiteTable, run: Run) -> None:
        self.site, self.run = site, run
        plan: Plan = Envelope("begin", run.plan or {}).read(Plan)
        self.plan = plan
        self.X: FloatArray = plan.ready.of_node(site.name, table.coded(plan.ready.schema))
        self.y: AnyArray = table.y
        self.train, self.test = parts_of(site, len(self.X))
        classes = plan.task.classes
        strange = [] if classes is None else np.setdiff1d(self.y, classes).tolist()
        if strange:
            raise FedRelaxError(
                f"site {site.name!r} has the class {strange[0]!r} in column {site.target!r}, which the "
                "hub's plan does not have; begin a new run"
            )

    @cached_property
    def mailbox(self) -> Mailbox:
        """What opens and closes the boxes of the run."""
        return Mailbox(self.site, self.plan, self.run.nonce)

    @property
    def public(self) -> PublicRows:
        """The public rows that are known so far: one common file, or the site's and its neighbours'."""
        if not self.site.drawn:
            return public_rows(self.plan.ready, common=self.run.public)
        sets = {self.site.name: self.run.public, **(self.run.heard or {})}
        return public_rows(self.plan.ready, per_node=sets)

    @cached_property
    def model(self) -> Any:
        """The unfitted model of the site."""
        return model_of(self.site, self.X[self.train], self.plan.ready)

    @cached_property
    def adapted(self) -> LocalModel:
        """The unfitted model as the rounds use it."""
        return local_model(self.model, self.plan.task, self.plan.settings.update)

    @cached_property
    def _folds(self) -> list[tuple[IntArray, IntArray]]:
        return own_folds(self.train, self.plan.folds, self.plan.seed)

    def rows_of(self, lane: int) -> tuple[IntArray, IntArray]:
        """Return the rows that a lane trains on, and those that it holds out."""
        fold = self.plan.lanes[lane].fold
        if fold is None:
            return validation_of(self.train, self.plan.validation_share, self.plan.seed)
        if not 0 <= fold < len(self._folds):
            raise FedRelaxError(f"site {self.site.name!r} has no fold {fold}")
        return self._folds[fold]

    def node(self, lane: int) -> Node:
        """Return the site as a node of a network."""
        train, held = self.rows_of(lane)
        validation = (self.X[held], self.y[held]) if len(held) else None
        return Node(self.site.name, self.X[train], self.y[train], self.model, validation=validation)

    def of(self, lane: int) -> Site:
        """Return the site of one lane before its first round."""
        plan = self.plan
        settings = replace(plan.settings, alpha=plan.lanes[lane].alpha)
        return Site(
            node=self.node(lane),
            task=plan.task,
            model=self.adapted,
            public=self.public,
            neighbours={name: a for name, a in self.site.neighbours.items()},
            coupling=coupling_of(settings, plan.task.kind),
            seed=plan.seed,
            nodes=plan.nodes,
        )

    def moves(self, lane: int) -> bool:
        """Tell whether a round changes the model of a lane at all."""
        return self.plan.lanes[lane].alpha > 0 or self.plan.settings.distillation is not None

    def drawn(self) -> FloatArray:
        """Return public rows drawn from this site's training rows."""
        X = self.X[self.train]
        return draw_own(self.site, X, self.plan.ready, self.plan.seed)

    def network(self) -> Network:
        """Return a network of this site alone, to check settings and model against."""
        name = self.site.name
        train, held = self.rows_of(len(self.plan.lanes) - 1)
        return Network.from_rows(
            Graph.from_edges([], labels=[name]),
            self.plan.task.kind,
            self.X,
            self.y,
            RowGroups.of({name: train}),
            self.model,
            public=self.public.of(name),
            held=RowGroups.of({name: held}),
            preparation=self.plan.ready,
        )


def fit(site: Site, terms: list[Rows], coming: int) -> list[tuple[Any, ...]]:
    """Fit a site's model, let it answer for round ``coming``, and return what it was fitted to."""
    site.adopt(*refit(site.label, site.model, terms, site.inputs(coming), site.seed, False))
    return [packed_term(site, term) for term in terms]


def fit_again(site: Site, state: LaneState, coming: int) -> None:
    """Fit a site's model once more to what it was fitted to in a state."""
    fit(site, [term_from(site, *term) for term in state.terms], coming)
