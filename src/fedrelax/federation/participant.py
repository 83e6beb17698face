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
from typing import Any

import numpy as np

from fedrelax.engines.answers import AnswerExtrapolator
from fedrelax.engines.sites.checks import reason_in_models
from fedrelax.errors import FedRelaxError
from fedrelax.federation.agreement import SiteManifest
from fedrelax.federation.boxes import Predictions
from fedrelax.federation.lane_sites import LaneSites, fit, fit_again
from fedrelax.federation.letters import (
    KINDS,
    PUBLIC,
    Asked,
    Envelope,
    Finish,
    Round,
    again,
    report_of,
)
from fedrelax.federation.sealing import fresh_nonce
from fedrelax.federation.settings import SiteFile
from fedrelax.federation.state import RUN, Folder, LaneState, Run
from fedrelax.federation.table import (
    SiteTable,
    parts_of,
    public_file,
    read_public,
    read_site_table,
)
from fedrelax.files import Refused, from_npy, to_npy
from fedrelax.models.names import model_by_name
from fedrelax.models.viewed import form_of
from fedrelax.runtime import Message, Site
from fedrelax.schema import Schema
from fedrelax.schema.agreeing import tell
from fedrelax.threads import one_thread
from fedrelax.typing import FloatArray

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
        try:
            if letter.kind not in KINDS:
                raise Refused(f"a letter {letter.kind!r} is unknown here")
            with one_thread():
                reply: Envelope = getattr(self, f"_{letter.kind}")(letter)
                return reply
        except FedRelaxError as error:
            text = str(error)
            if not text.startswith("site "):
                text = f"site {self.site.name!r}: {text}"
            log.error("%s", text)
            return Envelope("refusal", {"name": self.site.name, "reason": text})

    # Handshake

    def _hello(self, letter: Envelope) -> Envelope:
        run, site = letter.read(Asked).run, self.site
        known = self._kept()
        if known is None or known.run != run:
            self.folder.begin()
            known = Run(run, fresh_nonce())
            self.folder.write(RUN, vars(known))
        table = self.table
        for note in table.notes:
            log.warning("site %r: %s", site.name, note)
        train, _ = parts_of(site, len(table))
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
        return SiteManifest(
            name=site.name,
            features=features,
            target=site.target,
            task=site.task,
            classes=None if classes is None else tuple(classes),
            rows=len(train),
            neighbours=site.neighbours,
            open=site.open,
            nonce=known.nonce,
            model=site.model,
            form=form_of(model_by_name(site.model, site.task)),  # type: ignore[arg-type]
            columns=tuple(columns),
            named=site.features is not None,
            public=site.public if site.drawn else "given",
            public_rows=public_rows,
            common=common,
        ).letter()

    # A run

    def _begin(self, letter: Envelope) -> Envelope:
        run = self._known(letter)
        run.plan = letter.head
        sites = LaneSites(self.site, self.table, run)
        drawn = self.site.drawn
        run.public = sites.drawn() if drawn else read_public(self.site, sites.plan.ready)
        settles = _check(sites)
        self.folder.write(RUN, vars(run))
        boxes = {}
        if drawn:
            contents = dict.fromkeys(self.site.neighbours, to_npy(run.public))
            boxes = sites.mailbox.close(contents, PUBLIC)
        return self._reply("begun", sites, PUBLIC, boxes, settles=settles)

    def _start(self, letter: Envelope) -> Envelope:
        sites = self._sites(letter)
        if self.site.drawn:
            sites.run.heard = {n: _public_of(n, letter, sites) for n in self.site.neighbours}
            self.folder.write(RUN, vars(sites.run))
        states, shared, alone = {}, {}, dict[int | None, tuple[Site, list[Any]]]()
        zeros = sites.plan.settings.first_exchange == "zeros"
        for number, lane in enumerate(sites.plan.lanes):
            site = sites.of(number)
            if lane.fold not in alone:
                alone[lane.fold] = site, fit(site, site.local_problem(), 0)
            first, terms = alone[lane.fold]
            site.adopt(first.model, first.answers)
            shared[number] = site.share(0, zeros=zeros)
            states[number] = LaneState.of(site, terms)
        self.folder.save(0, states)
        return self._reply("started", sites, 0, sites.mailbox.close_predictions(shared, 0))

    def _relax(self, letter: Envelope) -> Envelope:
        asked: Round = letter.read(Round)
        round, sites = asked.round, self._sites(letter)
        latest, states = self.folder.load(round)
        sealed_for = again(round) if asked.anew else round
        heard, refused = sites.mailbox.open_predictions(letter, sealed_for, sites.public)
        shared, before, after, reports = {}, {}, {}, []
        guessing = AnswerExtrapolator(sites.public)
        for number in [number for number in asked.lanes if number in states]:
            site, state = sites.of(number), states[number]
            state.restore(site)
            if sites.plan.settings.distillation is not None and latest < round:
                fit_again(site, state, round)  # its echo is from another round
            site.received = {
                pair: told for pair, told in site.received.items() if pair[0] not in asked.silent
            }
            site.receive(_messages(heard, number, self.site.name, round))
            self._heed(site, number, asked)
            looks = guessing.losses(site, self.site.neighbours) if asked.look else None
            reports.append(report_of(number, site.measure(), looks))
            before[number], terms = LaneState.of(site, state.terms), state.terms
            if not asked.refit:
                continue
            if sites.moves(number):
                terms = fit(site, site.problem(round), round + 1)
            shared[number] = site.share(round + 1)
            after[number] = LaneState.of(site, terms)
        self.folder.save(round, before)
        boxes = {}
        if asked.refit:
            self.folder.save(round + 1, after)
            boxes = sites.mailbox.close_predictions(shared, round + 1)
        return self._reply("relaxed", sites, round, boxes, reports=reports, refused=refused)

    def _settle(self, letter: Envelope) -> Envelope:
        asked: Round = letter.read(Round)
        round, sites = asked.round, self._sites(letter)
        (_, states), shared = self.folder.load(round), {}
        for number in [n for n in asked.lanes if n in states]:
            site = sites.of(number)
            states[number].restore(site)
            self._heed(site, number, asked)
            terms = fit(site, site.local_problem(), round)
            site.shared.clear()
            shared[number] = site.share(round)
            states[number] = LaneState.of(site, terms)
        self.folder.save(round, states)
        boxes = sites.mailbox.close_predictions(shared, again(round))
        return self._reply("settled", sites, round, boxes)

    def _heed(self, site: Site, lane: int, asked: Round) -> None:
        """Weight neighbours as the hub's wiring says; it cannot add any to those in the site's file."""
        if asked.heeded is None:
            return
        weights = asked.heeded.get(str(lane))
        if weights is None or not set(weights) <= set(self.site.neighbours):
            raise Refused("the hub names neighbours that this site's file does not allow")
        site.neighbours = {name: weights.get(name, 0.0) for name in self.site.neighbours}

    def _finish(self, letter: Envelope) -> Envelope:
        from fedrelax.federation.ending import end_of_run  # imports much that a round does not need

        asked, sites = letter.read(Finish), self._sites(letter)
        report = end_of_run(sites, self.folder, asked)
        return self._reply("finished", sites, asked.round, {}, **report)

    # What several steps need

    def _kept(self) -> Run | None:
        """Return what is kept about the current run, or None."""
        kept = self.folder.read(RUN)
        try:
            return None if kept is None else Run(**kept)
        except TypeError as error:
            raise Refused(f"{self.folder.where / RUN} is damaged; begin a new run") from error

    def _known(self, letter: Envelope) -> Run:
        """Return what is kept about the run that a letter belongs to."""
        known, run = self._kept(), letter.read(Asked).run
        if known is None or known.run != run:
            raise Refused(f"the run {run!r} is not the one that this site takes part in")
        return known

    def _sites(self, letter: Envelope) -> LaneSites:
        """Return the sites of the lanes of a letter's run."""
        return LaneSites(self.site, self.table, self._known(letter))

    def _reply(
        self, kind: str, sites: LaneSites, round: int, parts: dict[str, bytes], **more: Any
    ) -> Envelope:
        head = {"run": sites.plan.run, "name": self.site.name, "round": round, **more}
        return Envelope(kind, head, parts)


def _check(sites: LaneSites) -> bool:
    """Refuse settings that this site's model does not support, before the first round.

    Return whether its model keeps its detail from round to round.
    """
    network = sites.network()
    for lane in sites.plan.lanes:
        settings = replace(sites.plan.settings, alpha=lane.alpha)
        settings.check(network)
        reason = reason_in_models(network, settings)
        if reason is not None:
            raise FedRelaxError(reason)
    return not sites.adapted.drifts


def _messages(heard: dict[str, Predictions], lane: int, me: str, round: int) -> Iterable[Message]:
    for name, told in heard.items():
        for owner, predictions in zip((name, me), told.get(lane, ()), strict=False):
            yield Message(name, owner, round, predictions)


def _public_of(name: str, letter: Envelope, sites: LaneSites) -> FloatArray:
    """Return a neighbour's public rows; they may have gaps only where sites share rows with gaps."""
    content, plan = sites.mailbox.open(name, letter, PUBLIC), sites.plan
    shape = (plan.public.get(name, 0), plan.ready.width)
    what = f"the public rows of site {name!r}"
    return from_npy(content, what, shape, finite=plan.ready.encoded)
