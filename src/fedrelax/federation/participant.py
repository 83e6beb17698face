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
import secrets
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.federation.agreement import SiteManifest
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
from fedrelax.federation.pooled import PooledSite
from fedrelax.federation.settings import SharedSettings, SiteFile
from fedrelax.federation.site_run import SiteRun, fit
from fedrelax.federation.state import ALONE, RUN, Folder, LaneState, Run, of_round
from fedrelax.federation.table import SiteTable, parts_of, read_site_table
from fedrelax.files import Refused, from_npy, to_npy
from fedrelax.models.names import model_by_name
from fedrelax.models.viewed import form_of
from fedrelax.pooling.columns import told_of
from fedrelax.public import draw_own
from fedrelax.runtime import Message, Site
from fedrelax.runtime.site import Smoothers
from fedrelax.schema import Schema
from fedrelax.schema.agreeing import ColumnSummary, tell
from fedrelax.threads import one_thread

log = logging.getLogger("fedrelax.federation")


class Participant:
    """A site that answers letters. It keeps nothing in memory that it cannot read from its files."""

    def __init__(self, site: SiteFile) -> None:
        self.site = site
        self.folder = Folder(site.state)
        self._pooled: tuple[str, int, PooledSite] | None = None

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
        site, table, run = self.site, self.table, self.folder.run()
        if run is None or run.run != letter.read(Asked).run:
            self.folder.begin()
            run = Run(letter.read(Asked).run, secrets.token_hex(16))
            self.folder.write(RUN, vars(run))
        train, _ = parts_of(site, len(table))
        columns, notes = list[ColumnSummary](), list(table.notes)
        if letter.head.get("schema") is None:
            features = tuple(map(str, table.features.columns))
            columns, decisions = tell(table.features.iloc[train])
            notes += decisions
        else:
            schema = Schema.from_dict(letter.head["schema"])
            features = tuple(schema.column_names)
            table.coded(schema)  # refuses rows that do not fit it
        for note in notes:
            log.warning("site %r: %s", site.name, note)
        classes = tuple(np.unique(table.y).tolist()) if site.task == "classification" else None
        return SiteManifest(
            **{name: getattr(site, name) for name in SharedSettings.model_fields},
            features=features,
            classes=classes,
            rows=len(train),
            nonce=run.nonce,
            form=form_of(model_by_name(site.model, site.task)),  # type: ignore[arg-type]
            columns=tuple(columns),
            aim=None if classes else told_of(table.y[train].astype(float)),
            named=site.features is not None,
        ).letter()

    # A run

    def _begin(self, letter: Envelope) -> Envelope:
        run, site = self._run_of(letter), self.site
        run.plan = letter.head
        sites = SiteRun(site, self.table, run)
        plan, own = sites.plan, sites.X[sites.train]
        count = plan.public[site.name]
        run.public = draw_own(site.public, own, count, plan.seed, plan.ready.pieces)
        boxes = sites.close(dict.fromkeys(site.neighbours, to_npy(run.public)), PUBLIC)
        sites.check()  # refuse what this site's model cannot do before the first round
        self.folder.write(RUN, vars(run))
        return self._reply("begun", letter, PUBLIC, boxes, settles=not sites.adapted.drifts)

    def _start(self, letter: Envelope) -> Envelope:
        sites = self._sites(letter)
        plan, run = sites.plan, sites.run
        run.heard = {
            name: from_npy(
                sites.open(name, letter, PUBLIC),
                f"the public rows of site {name!r}",
                (plan.public.get(name, 0), plan.ready.width),
                finite=plan.ready.encoded,  # else gaps and categories are shared as they are
            )
            for name in self.site.neighbours
        }
        self.folder.write(RUN, vars(run))
        if plan.rows:
            self.folder.save(0, {})
            return self._reply("started", letter, 0, {})
        lanes = {number: sites.of(number) for number in range(len(plan.lanes))}
        zeros = plan.settings.first_exchange == "zeros"
        boxes = sites.close_predictions(self._alone(sites, lanes, 0, zeros), 0)
        return self._reply("started", letter, 0, boxes)

    def _settle(self, letter: Envelope) -> Envelope:
        asked, sites = letter.read(Round), self._sites(letter)
        lanes = self._lanes(sites, asked, self.folder.load(asked.round))
        shared = self._alone(sites, lanes, asked.round)
        boxes = sites.close_predictions(shared, again(asked.round))
        return self._reply("settled", letter, asked.round, boxes)

    def _relax(self, letter: Envelope) -> Envelope:
        asked = letter.read(Round)
        round, sites = asked.round, self._sites(letter)
        if sites.plan.rows:
            return self._pool(letter, asked, sites)
        states = self.folder.load(round)
        messages, refused = sites.open_predictions(letter, again(round) if asked.anew else round)
        smoothers: Smoothers = {}
        shared, before, after, reports = dict[int, list[Message]](), {}, {}, []
        for number, site in self._lanes(sites, asked, states).items():
            fitted = states[number].fitted
            site.receive(messages.get(number, ()))
            looks = site.own_losses(self.site.neighbours, smoothers) if asked.look else None
            reports.append(report_of(number, site.measure(), looks))
            before[number] = LaneState.of(site, fitted)
            if not asked.refit:
                continue
            if sites.plan.lanes[number].alpha > 0:  # else a round changes nothing
                fit(site, round)
                fitted = round
            shared[number] = site.share(round + 1)
            after[number] = LaneState.of(site, fitted)
        self.folder.save(round, before)
        boxes = {}
        if asked.refit:
            self.folder.save(round + 1, after)
            boxes = sites.close_predictions(shared, round + 1)
        return self._reply("relaxed", letter, round, boxes, reports=reports, refused=refused)

    def _pool(self, letter: Envelope, asked: Round, sites: SiteRun) -> Envelope:
        """Take part in a round of partial pooling; what it changes is kept for the next one."""
        round, boxes, refused = asked.round, dict[str, bytes](), dict[str, str]()
        pooled = self._pooled_site(sites, round)
        if round:
            measure, refused = pooled.relax(letter, round)
        else:
            measure = pooled.start()
        self.folder.write(of_round(round + 1), pooled.state)
        self._pooled = asked.run, round + 1, pooled
        if asked.refit:
            boxes = pooled.boxes(round + 1)
        return self._reply(
            "relaxed",
            letter,
            round,
            boxes,
            reports=[report_of(0, measure, None)],
            refused=refused,
            alpha=pooled.alpha if round else None,
            words=pooled.words if round else "",
        )

    def _pooled_site(self, sites: SiteRun, round: int) -> PooledSite:
        """Return the site before a round of partial pooling: from memory, if it is still there."""
        if self._pooled is not None and self._pooled[:2] == (sites.plan.run, round):
            return self._pooled[2]
        state = self.folder.read(of_round(round)) if round else {}
        if state is None:
            raise FedRelaxError(
                "it missed a round, and what the others have learned since is not known to it; it keeps "
                "the model that it had"
            )
        return PooledSite(sites, state)

    def _finish(self, letter: Envelope) -> Envelope:
        from fedrelax.federation.writing import save_site  # imports much that a round does not need

        asked = letter.read(Finish)
        sites, lane = self._sites(letter), asked.lane
        if lane >= len(sites.plan.lanes):
            raise Refused(f"lane {lane} is not in this run's plan")
        if sites.plan.rows:
            latest = max(number for number in self.folder.rounds() if number <= asked.round + 1)
            pooled = self._pooled_site(sites, latest)
            alone, together = pooled.alone, pooled.model
        else:
            fitted = ALONE if asked.alone else self.folder.load(asked.round)[lane].fitted
            alone = together = fit(sites.of(lane), ALONE)
            if fitted != ALONE:
                together = fit(sites.of(lane, self.folder.load(fitted)[lane]), fitted)
        report = save_site(sites, asked, alone, together)
        return self._reply("finished", letter, asked.round, {}, **report)

    # What several steps need

    def _lanes(
        self, sites: SiteRun, asked: Round, states: Mapping[int, LaneState]
    ) -> dict[int, Site]:
        """Return the site of each lane that is asked about; the hub's wiring says whom it heeds.

        The hub cannot add any neighbour to those in the site's file.
        """
        lanes = {n: sites.of(n, states[n]) for n in asked.lanes if n in states}
        if asked.heeded is None:
            return lanes
        for number, site in lanes.items():
            weights = asked.heeded.get(str(number))
            if weights is None or not set(weights) <= set(self.site.neighbours):
                raise Refused("the hub names neighbours that this site's file does not allow")
            site.neighbours = {name: weights.get(name, 0.0) for name in self.site.neighbours}
        return lanes

    def _alone(
        self, sites: SiteRun, lanes: Mapping[int, Site], round: int, zeros: bool = False
    ) -> dict[int, list[Message]]:
        """Let the site train alone in all lanes, once per fold, and return what it shares."""
        first = dict[int | None, Site]()
        for number, site in lanes.items():
            fold = sites.plan.lanes[number].fold
            if fold not in first:
                first[fold] = site
                fit(site, ALONE)
            site.adopt(first[fold].model, first[fold].answers)
            site.shared.clear()
        shared = {number: site.share(round, zeros) for number, site in lanes.items()}
        states = {number: LaneState.of(site, ALONE) for number, site in lanes.items()}
        self.folder.save(round, states)
        return shared

    def _run_of(self, letter: Envelope) -> Run:
        """Return what is kept about the run that a letter belongs to."""
        run, name = self.folder.run(), letter.read(Asked).run
        if run is None or run.run != name:
            raise Refused(f"the run {name!r} is not the one that this site takes part in")
        return run

    def _sites(self, letter: Envelope) -> SiteRun:
        return SiteRun(self.site, self.table, self._run_of(letter))

    def _reply(
        self, kind: str, letter: Envelope, round: int, parts: dict[str, bytes], **more: Any
    ) -> Envelope:
        head = {"run": letter.head["run"], "name": self.site.name, "round": round, **more}
        return Envelope(kind, head, parts)
