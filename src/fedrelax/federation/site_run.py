"""A site in one run: its rows under the plan, the ``Site`` of every lane, and the boxes of the run.

The ``Site`` is the same class as within one process, on this machine's rows.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property

import numpy as np

from fedrelax.engines import SiteEngine
from fedrelax.engines.sites.refits import refit
from fedrelax.errors import FedRelaxError
from fedrelax.federation.boxes import (
    Address,
    Predictions,
    SealedChannel,
    read_key,
    read_predictions,
    write_predictions,
)
from fedrelax.federation.letters import Envelope, Plan
from fedrelax.federation.settings import SiteFile
from fedrelax.federation.state import ALONE, OF_SITE, LaneState, Run
from fedrelax.federation.table import SiteTable, model_of, own_folds, parts_of
from fedrelax.files import Refused
from fedrelax.graph import Graph
from fedrelax.models import LocalModel
from fedrelax.models.difference import local_model
from fedrelax.network import Network, Node
from fedrelax.network.rows import public_rows
from fedrelax.public import PublicRows
from fedrelax.runtime import Message, Site
from fedrelax.splits import RowGroups
from fedrelax.typing import AnyArray, FloatArray, IntArray, Model

log = logging.getLogger("fedrelax.federation")


class SiteRun:
    """Makes the sites of the plan's lanes from a site's rows, and closes and opens its boxes."""

    def __init__(self, site: SiteFile, table: SiteTable, run: Run) -> None:
        self.site, self.run = site, run
        self.plan = plan = Envelope("begin", run.plan or {}).read(Plan)
        self.coded = table.coded(plan.ready.schema)
        self.X: FloatArray = plan.ready.of_node(site.name, self.coded)
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
    def public(self) -> PublicRows:
        """The public rows that are known so far: the site's and its neighbours'.

        Where all sites hear all others, those that learn their difference answer on everybody's rows: then
        all hear the same mean, and each can tell what it says on any row.
        """
        plan, run = self.plan, self.run
        sets = {self.site.name: run.public, **(run.heard or {})}
        if plan.settings.update == "difference" and len(sets) == plan.nodes > 1:
            return public_rows(
                plan.ready, common=np.concatenate([sets[name] for name in sorted(sets)])
            )
        return public_rows(plan.ready, per_node=sets)

    # Lanes

    @cached_property
    def model(self) -> Model:
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
            return self.train, self.train[:0]
        if not 0 <= fold < len(self._folds):
            raise FedRelaxError(f"site {self.site.name!r} has no fold {fold}")
        return self._folds[fold]

    def of(self, lane: int, state: LaneState | None = None) -> Site:
        """Return the site of one lane, before its first round or in a state; its model is not fitted."""
        plan, (train, held) = self.plan, self.rows_of(lane)
        validation = (self.X[held], self.y[held]) if len(held) else None
        settings = replace(plan.settings, alpha=plan.lanes[lane].alpha)
        name = self.site.name
        site = Site(
            node=Node(name, self.X[train], self.y[train], self.model, validation=validation),
            task=plan.task,
            model=self.adapted,
            public=self.public,
            neighbours={j: weight for j, weight in self.site.neighbours.items()},
            coupling=settings.coupling(plan.task.kind),
            seed=plan.seed,
            nodes=plan.nodes,
        )
        for name in OF_SITE if state is not None else ():
            setattr(site, name, copy(getattr(state, name)))
        return site

    def check(self) -> None:
        """Refuse settings that make no sense, and a model that cannot do what the lanes ask of it."""
        name = self.site.name
        network = Network.from_rows(
            Graph.from_edges([], labels=[name]),
            self.plan.task.kind,
            self.X,
            self.y,
            RowGroups.of({name: self.train}),
            self.model,
            public=self.public.of(name),
            preparation=self.plan.ready,
        )
        settings = replace(self.plan.settings, alpha=max(lane.alpha for lane in self.plan.lanes))
        settings.check(network)
        reason = SiteEngine.unsupported_network(network, settings)
        if reason is not None:
            raise FedRelaxError(reason)

    # Boxes

    @cached_property
    def _channel(self) -> SealedChannel:
        site = self.site
        nonces = {**self.plan.nonces, site.name: self.run.nonce}
        return SealedChannel(read_key(site.path(site.key), site.name), site.keys, nonces)

    def close(self, contents: Mapping[str, bytes], round: int) -> dict[str, bytes]:
        """Return a box for each receiver."""
        run, own, seal = self.plan.run, self.site.name, self._channel.close
        return {
            f"to {j}": seal(content, Address(run, own, j, round)) for j, content in contents.items()
        }

    def open(self, sender: str, letter: Envelope, round: int) -> bytes:
        """Return the content of a neighbour's box for this site."""
        address = Address(self.plan.run, sender, self.site.name, round)
        try:
            return self._channel.open(letter.parts.get(f"from {sender}", b""), address)
        except Refused as error:
            raise Refused(f"what came from site {sender!r} is refused: {error}") from error

    def close_predictions(
        self, shared: Mapping[int, Iterable[Message]], round: int
    ) -> dict[str, bytes]:
        """Return boxes with the predictions of all lanes, on the site's public rows and the receiver's."""

        def predictions(ends: tuple[str, str]) -> Predictions:
            lanes = shared.items()
            return {k: [one.predictions for one in said if one.owner in ends] for k, said in lanes}

        own, names = self.site.name, self.site.neighbours
        return self.close({n: write_predictions(predictions((own, n))) for n in names}, round)

    def open_predictions(
        self, letter: Envelope, round: int
    ) -> tuple[Mapping[int, list[Message]], dict[str, str]]:
        """Return the neighbours' predictions by lane, and why those of some were refused."""
        plan, messages, refused = self.plan, defaultdict[int, list[Message]](list), {}
        both_ends = plan.settings.objective == "gtvmin" and self.public.common is None
        for name in self.site.neighbours:
            if f"from {name}" not in letter.parts:
                continue
            owners = [name, self.site.name] if both_ends else [name]
            rows = [len(self.public.of(owner)) for owner in owners]
            try:
                content, lanes = self.open(name, letter, round), range(len(plan.lanes))
                predictions = read_predictions(content, rows, plan.task.n_outputs, lanes)
            except Refused as error:
                log.warning(
                    "site %r, round %d, from site %r: %s", self.site.name, round, name, error
                )
                refused[name] = str(error)
                continue
            for lane, sets in predictions.items():
                pairs = zip(owners, sets, strict=True)
                messages[lane] += [Message(name, owner, round, values) for owner, values in pairs]
        return messages, refused


def fit(site: Site, round: int) -> LocalModel:
    """Fit a site's model to the problem of a round, or to its own rows only, and let it answer."""
    terms = site.local_problem() if round == ALONE else site.problem(round)
    site.adopt(*refit(site.label, site.model, terms, site.inputs(), site.seed, False))
    return site.model
