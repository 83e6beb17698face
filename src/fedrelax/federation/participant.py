"""The site's side: one answer to every letter from the hub. Only this code sees the site's rows.

========  ===================================================================================
hello     who I am: names, counts and summaries of columns, but no row
begin     the plan of a run  ->  my public rows, in a box for each neighbour
start     neighbours' public rows  ->  train alone; predictions of round 0, in boxes
relax     neighbours' predictions of round r  ->  measure, refit; my numbers of round r, and
          predictions of round r + 1 in boxes
settle    the graph is final  ->  back to the model trained alone; its predictions, in boxes
finish    which round is kept  ->  the model of that round, saved here; errors on test rows
========  ===================================================================================
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

import numpy as np

from fedrelax.engines.sites.checks import reason_in_models
from fedrelax.engines.sites.guessing import Guessing
from fedrelax.engines.sites.refits import Answers, refit
from fedrelax.errors import FedRelaxError
from fedrelax.federation.agreement import Hello
from fedrelax.federation.boxes import OWN, Predictions
from fedrelax.federation.codec import Envelope, Refused, from_npy, to_npy
from fedrelax.federation.lane_sites import LaneSites
from fedrelax.federation.numbers import Looks, write_numbers
from fedrelax.federation.plan import Plan
from fedrelax.federation.post import Post, again
from fedrelax.federation.rebuilding import rebuilt
from fedrelax.federation.rows import named_model, parts_of
from fedrelax.federation.sealing import fresh_nonce
from fedrelax.federation.sitefile import SiteFile, is_weight
from fedrelax.federation.state import Folder, LaneState
from fedrelax.federation.table import SiteTable, public_file, read_public, read_site_table
from fedrelax.models import LocalModel, Rows
from fedrelax.models.viewed import form_of
from fedrelax.network.rows import public_rows
from fedrelax.public import PublicRows
from fedrelax.runtime import Message, Site
from fedrelax.schema import Schema
from fedrelax.schema.agreeing import tell
from fedrelax.threads import one_thread
from fedrelax.typing import FloatArray, Label

PUBLIC = -1
"""The round of a box of public rows."""

log = logging.getLogger("fedrelax.federation")


class Participant:
    """A site that answers letters. It keeps nothing in memory that it cannot read from its files."""

    def __init__(self, site: SiteFile) -> None:
        self.site = site
        self.folder = Folder(site.state)

    @cached_property
    def table(self) -> SiteTable:
        """The site's rows."""
        return read_site_table(self.site)

    def answer(self, letter: Envelope) -> Envelope:
        """Return the answer to a letter; what cannot be done is answered with a refusal that says why."""
        steps = {
            "hello": self._hello,
            "begin": self._begin,
            "start": self._start,
            "relax": self._relax,
            "settle": self._settle,
            "finish": self._finish,
        }
        try:
            if letter.kind not in steps:
                raise Refused(f"a letter {letter.kind!r} is unknown here")
            with one_thread():
                return steps[letter.kind](letter)
        except FedRelaxError as error:
            text = str(error)
            if not text.startswith("site "):
                text = f"site {self.site.name!r}: {text}"
            log.error("%s", text)
            return Envelope("refusal", {"name": self.site.name, "reason": text})

    # Handshake

    def _hello(self, letter: Envelope) -> Envelope:
        run = letter.value("run", str)
        known, site = self.folder.run(), self.site
        if known is None or known.head.get("run") != run:
            self.folder.begin()
            known = Envelope("run", {"run": run, "nonce": fresh_nonce()})
            self.folder.remember(known)
        table = self.table
        for note in table.notes:
            log.warning("site %r: %s", site.name, note)
        train = parts_of(site, len(table)).train
        given = letter.head.get("schema")
        if given is None:
            features, (columns, notes) = table.names, tell(table.part(train))
            for note in notes:
                log.warning("site %r: %s", site.name, note)
        else:
            schema = Schema.from_dict(given)
            features, columns = tuple(schema.column_names), []
            table.coded(schema)
        common, public_rows = (None, site.public_rows) if site.drawn else public_file(site)
        classes = np.unique(table.y).tolist() if site.task == "classification" else None
        return Hello(
            name=site.name,
            features=features,
            target=site.target,
            task=site.task,
            classes=None if classes is None else tuple(classes),
            rows=len(train),
            neighbours=site.neighbours,
            open=site.open,
            nonce=known.value("nonce", str),
            model=site.model,
            form=form_of(named_model(site)),
            columns=tuple(columns),
            named=site.features is not None,
            public=site.public if site.drawn else "given",
            public_rows=public_rows,
            common=common,
        ).letter()

    # A run

    def _begin(self, letter: Envelope) -> Envelope:
        plan, known = Plan.of(letter), self._known(letter)
        parts = {**known.parts, "public": to_npy(self._own_public(plan))}
        kept = Envelope("run", {**known.head, "plan": letter.head}, parts)
        settles = self._check(plan)
        self.folder.remember(kept)
        boxes = {}
        if self.site.drawn:
            content = to_npy(self._own_public(plan))
            contents = {name: content for name in self.site.neighbours}
            boxes = self._post(kept).close(contents, PUBLIC)
        answer = self._reply("begun", plan, PUBLIC, boxes)
        return replace(answer, head={**answer.head, "settles": settles})

    def _start(self, letter: Envelope) -> Envelope:
        plan, known = self._plan(letter), self._known(letter)
        heard: dict[str, bytes] = {}
        post = self._post(known)
        if self.site.drawn:
            for name in self.site.neighbours:
                content = post.open(name, letter, PUBLIC)
                _public_of(name, content, plan)
                heard[f"public of {name}"] = content
        known = Envelope("run", known.head, {**known.parts, **heard})
        self.folder.remember(known)
        sites, states, shared = self._sites(known), {}, {}
        alone: dict[int | None, tuple[LocalModel, Answers]] = {}
        zeros = plan.settings.first_exchange == "zeros"
        for number, lane in enumerate(plan.lanes):
            site = sites.of(number)
            if lane.fold not in alone:
                alone[lane.fold] = _refitted(site, site.local_problem(), 0)
            site.adopt(*alone[lane.fold])
            shared[number] = site.share(0, zeros=zeros)
            states[number] = LaneState.of(site, origin=-1)
        self.folder.save(0, states)
        return self._reply("started", plan, 0, post.close_predictions(shared, 0))

    def _relax(self, letter: Envelope) -> Envelope:
        plan, round = self._plan(letter), letter.value("round", int)
        known = self._known(letter)
        sites, post = self._sites(known), self._post(known)
        latest, states = self.folder.load(round)
        asked = [n for n in letter.value("lanes", list) if n in states]
        silent = set(letter.value("silent", list))
        heard, refused = post.open_predictions(letter, _shared_as(letter), sites.public)
        measures, shared, after = {}, {}, {}
        looks, guessing = Looks(), Guessing(sites.public)
        refitted = letter.value("refit", bool)
        for number in asked:
            site = sites.of(number)
            states[number].restore(site)
            if (
                plan.settings.distillation is not None and latest < round
            ):  # its echo is from another round
                site.adopt(*rebuilt(sites, number, latest, self.folder, round))
            site.received = {
                pair: told for pair, told in site.received.items() if pair[0] not in silent
            }
            site.receive(_messages(heard, number, self.site.name, round))
            self._heed(site, number, letter)
            measures[number] = site.measure()
            if letter.value("look", bool):
                looks[number] = guessing.losses(site, self.site.neighbours)
            states[number] = LaneState.of(site, states[number].origin)
            if not refitted:
                continue
            if sites.moves(number):
                site.adopt(*_refitted(site, site.problem(round), round + 1))
            shared[number] = site.share(round + 1)
            after[number] = LaneState.of(site, origin=round)
        self.folder.save(round, {number: states[number] for number in asked})
        boxes = {}
        if refitted:
            self.folder.save(round + 1, after)
            boxes = post.close_predictions(shared, round + 1)
        numbers = write_numbers(measures, list(self.site.neighbours), looks)
        answer = self._reply("relaxed", plan, round, {**boxes, **numbers})
        return replace(answer, head={**answer.head, "lanes": asked, "refused": refused})

    def _settle(self, letter: Envelope) -> Envelope:
        plan, round, known = self._plan(letter), letter.value("round", int), self._known(letter)
        sites, (_, states) = self._sites(known), self.folder.load(round)
        shared = {}
        for number in [n for n in letter.value("lanes", list) if n in states]:
            site = sites.of(number)
            states[number].restore(site)
            self._heed(site, number, letter)
            site.adopt(*rebuilt(sites, number, -1, self.folder, round))
            site.shared.clear()
            shared[number] = site.share(round)
            states[number] = LaneState.of(site, origin=-1)
        self.folder.save(round, states)
        boxes = self._post(known).close_predictions(shared, again(round))
        return self._reply("settled", plan, round, boxes)

    def _heed(self, site: Site, lane: int, letter: Envelope) -> None:
        """Weight neighbours as the hub's wiring says; it cannot add any to those in the site's file."""
        said = letter.head.get("heeded")
        if said is None:
            return
        weights = said.get(str(lane)) if isinstance(said, dict) else None
        if not isinstance(weights, dict) or not all(
            name in self.site.neighbours and is_weight(weight) for name, weight in weights.items()
        ):
            raise Refused(
                "the hub names neighbours or weights that this site's file does not allow"
            )
        site.neighbours = {**dict.fromkeys(self.site.neighbours, 0.0), **weights}

    def _finish(self, letter: Envelope) -> Envelope:
        from fedrelax.federation.ending import end_of_run  # imports much that a round does not need

        plan, known = self._plan(letter), self._known(letter)
        said = end_of_run(self.site, self._sites(known), self.folder, letter)
        answer = self._reply("finished", plan, letter.value("round", int))
        return replace(answer, head={**answer.head, **said})

    # What several steps need

    def _known(self, letter: Envelope) -> Envelope:
        """Return what is kept about the run that a letter belongs to."""
        known, run = self.folder.run(), letter.value("run", str)
        if known is None or known.head.get("run") != run:
            raise Refused(f"the run {run!r} is not the one that this site takes part in")
        return known

    def _plan(self, letter: Envelope) -> Plan:
        known = self._known(letter)
        return Plan.of(Envelope("begin", known.value("plan", dict)))

    def _sites(self, known: Envelope) -> LaneSites:
        plan = Plan.of(Envelope("begin", known.value("plan", dict)))
        own = self._own_public(plan)
        if not self.site.drawn:
            return LaneSites(self.site, self.table, plan, public_rows(plan.ready, common=own))
        sets: dict[Label, FloatArray] = {self.site.name: own}
        for name in self.site.neighbours:
            sets[name] = _public_of(name, known.part(f"public of {name}"), plan)
        return LaneSites(self.site, self.table, plan, public_rows(plan.ready, per_node=sets))

    def _own_public(self, plan: Plan) -> FloatArray:
        if self.site.drawn:
            return LaneSites(self.site, self.table, plan, PublicRows()).drawn()
        return read_public(self.site, plan.ready)

    def _post(self, known: Envelope) -> Post:
        plan = Plan.of(Envelope("begin", known.value("plan", dict)))
        return Post(self.site, plan, known.value("nonce", str))

    def _check(self, plan: Plan) -> bool:
        """Refuse settings that this site's model does not support, before the first round.

        Return whether its model reaches the same fixed point from any start.
        """
        own = public_rows(plan.ready, common=self._own_public(plan))
        sites = LaneSites(self.site, self.table, plan, own)
        network = sites.network()
        for lane in plan.lanes:
            settings = replace(plan.settings, alpha=lane.alpha)
            settings.check(network)
            reason = reason_in_models(network, settings)
            if reason is not None:
                raise FedRelaxError(reason)
        return sites.adapted.settles

    def _reply(
        self, kind: str, plan: Plan, round: int, parts: dict[str, bytes] | None = None
    ) -> Envelope:
        head = {"run": plan.run, "name": self.site.name, "round": round}
        return Envelope(kind, head, parts or {})


def _shared_as(letter: Envelope) -> int:
    """Return the round that a letter's predictions are sealed for: its own, or its own shared anew."""
    round = letter.value("round", int)
    return again(round) if letter.value("anew", bool) else round


def _refitted(site: Site, terms: list[Rows], coming: int) -> tuple[LocalModel, Answers]:
    return refit(site.label, site.model, terms, site.inputs(coming), site.seed, False)


def _messages(heard: dict[str, Predictions], lane: int, me: str, round: int) -> Iterable[Message]:
    for name, told in heard.items():
        for whose, predictions in told.get(lane, {}).items():
            yield Message(name, name if whose == OWN else me, round, predictions)


def _public_of(name: str, content: bytes, plan: Plan) -> FloatArray:
    """Return a neighbour's public rows; they may have gaps only where sites share rows with gaps."""
    shape = (plan.public.get(name, 0), plan.ready.width)
    what = f"the public rows of site {name!r}"
    return from_npy(content, shape, what, finite=plan.ready.encoded)
