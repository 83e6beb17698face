"""The hub's side of a run: greet, agree, run rounds, choose, end. It never sees a row."""

from __future__ import annotations

import logging
import math
import time
import uuid
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from fedrelax.errors import FedRelaxError, listing
from fedrelax.federation.agreement import Agreement, SiteManifest, agree
from fedrelax.federation.lanes import CandidateRun, choose_lane, lanes_for
from fedrelax.federation.letters import Envelope, Finished, LaneSpec, Plan
from fedrelax.federation.pooled import pooling_plan
from fedrelax.federation.protocol import HubProtocol
from fedrelax.federation.settings import HubSettings, plain_method
from fedrelax.federation.state import HUB, Folder
from fedrelax.files import Refused
from fedrelax.public import NODE_ROWS
from fedrelax.runtime import Callback, Loop, Outcome, Stopping
from fedrelax.runtime.site import seeds_of
from fedrelax.selection import Choice
from fedrelax.selection.search import PATIENCE
from fedrelax.typing import Label

PAUSE = 0.5
"""Seconds between two looks for sites that have yet to join."""

FIRST = 120.0
"""Seconds that a first greeting gets at least: the site's programs start for the first time."""

AGAIN = 5.0
"""Seconds after which a site that could not answer a greeting is greeted again."""

Address = Hashable

log = logging.getLogger("fedrelax.federation")


class Transport(Protocol):
    """Carries letters to several sites at once, and answers back; the hub knows no more about it."""

    def addresses(self) -> Collection[Address]:
        """Return who can be reached now."""

    def send(
        self, letters: Mapping[Address, Envelope], wait: float, late: Collection[Address] = ()
    ) -> dict[Address, Envelope]:
        """Send one letter each and return the answers that come within ``wait`` seconds.

        Those that are ``late`` are not waited for much longer once all others have answered. Where no
        answer could be made, a letter "failure" says why.
        """


@dataclass(frozen=True)
class Federated:
    """How a run over sites elsewhere ended: numbers only; the models are at the sites."""

    agreement: Agreement
    outcome: Outcome
    lane: CandidateRun
    choice: Choice | None
    missed: dict[str, list[int]]
    largest_box: int
    """The most bytes that a site sent to another in one round."""
    reports: dict[str, Finished]
    """What every site said at the end: rows and errors on test rows."""
    public: dict[str, int]
    """How many public rows each site shares."""
    notes: tuple[str, ...]

    @property
    def alpha(self) -> float:
        """The strength of the coupling; 0 where training alone was chosen."""
        return self.lane.spec.alpha

    @property
    def alone(self) -> tuple[Label, ...]:
        """The sites that keep the model trained alone."""
        return () if self.choice is None else self.choice.alone


class Hub:
    """Drives a run. ``where`` is a folder for its state: a hub that is started there again goes on with it.

    notes : what was refused, and who was lost or came back, in sentences.
    missed : by site, the rounds in which it did not answer.
    """

    def __init__(
        self, settings: HubSettings, transport: Transport, where: Path | None = None
    ) -> None:
        settings.check()
        self.settings, self.transport = settings, transport
        wiring = settings.method.wiring
        self.wiring = None if wiring is None else wiring.paced(settings.rounds)
        self.id, self.notes, self.missed = uuid.uuid4().hex, list[str](), dict[str, list[int]]()
        self.folder, self.asked = None if where is None else Folder(where), settings.asked
        self._kept: dict[str, Any] | None = None if self.folder is None else self.folder.read(HUB)
        """What is left of a run that was stopped, if it had the same settings."""
        if self._kept is not None and self._kept.get("asked") != self.asked:
            self._kept = None
        if (kept := self._kept) is not None:
            self.id, self.notes, self.missed = kept["run"], kept["notes"], kept["missed"]
        self.addresses: dict[str, Address] = {}
        self._met: dict[Address, float] = {}
        """When an address that has answered may be greeted again."""

    def run(self, callbacks: Sequence[Callback] = ()) -> Federated:
        """Run the rounds and return how they ended."""
        settings, kept = self.settings, self._kept
        if self.folder is not None and kept is None:
            self.folder.begin()
        log.info("waiting for %s", listing(settings.sites))
        hellos = met = self._meet()
        if kept is not None:  # what the sites said when the run began
            heads = kept["hellos"].items()
            hellos = {name: SiteManifest.of(Envelope("hello", head)) for name, head in heads}
        agreement = agree(hellos, settings.sites, settings.schema)
        for text in agreement.notes:
            self.note(text)
        graph, method = agreement.graph, settings.method
        rows = {name: hello.rows for name, hello in agreement.hellos.items()}
        pooling = pooling_plan(agreement, settings)
        if pooling is None:
            public = {name: one.public_rows or NODE_ROWS for name, one in agreement.hellos.items()}
            specs = lanes_for(graph, settings.alpha, settings.folds, rows, method.update)
        else:
            public, method = pooling.pop("public"), pooling.pop("method")
            specs = [LaneSpec(1.0, None)]  # what the sites learn takes its place
            settings = self.settings = replace(settings, method=method)
        symmetric = method.objective == "gtvmin"
        lanes = [CandidateRun(spec, graph, symmetric, self.wiring) for spec in specs]
        lanes[0].may_rest = pooling is None  # sites that rest may yet boost differences
        self.letters = letters = HubProtocol(self, agreement.hellos, lanes)
        if kept is None:
            letters.begin(self._plans(agreement, lanes, public, pooling or {}))
        else:
            letters.recall(kept, met)
        outcomes, reached = self._rounds(lanes, letters, callbacks)
        choice, number, lane, outcome = None, 0, lanes[0], outcomes[0]
        if len(lanes) > 1:  # choose, and replay the chosen run up to its end
            choice, number = choose_lane(lanes, outcomes, reached, settings, rows)
            lane = lanes[number].with_alpha(choice.alpha)
            outcome = lane.replay(Stopping(choice.rounds, settings.tol), callbacks)
        elif pooling is not None:
            lane = lane.with_alpha(letters.alpha)
            outcome = replace(lane.replay(Stopping(outcome.n_rounds)), reason=letters.words)
        reports = letters.finish(number, lane, outcome, () if choice is None else choice.alone)
        log.info("finished: %s", outcome.reason)
        if self.folder is not None:
            self.folder.begin()
        largest, notes = letters.largest_box, tuple(self.notes)
        return Federated(
            agreement, outcome, lane, choice, self.missed, largest, reports, public, notes
        )

    # Who is there

    def _meet(self) -> dict[str, SiteManifest]:
        """Greet whoever can be reached until all sites have joined; each name has one address.

        A run that was stopped goes on without sites that do not come back.
        """
        hellos: dict[str, SiteManifest] = {}
        end = time.monotonic() + self.settings.join
        while True:
            hellos |= self.greet(hellos)
            missing = [name for name in self.settings.sites if name not in hellos]
            if not missing:
                return hellos
            if time.monotonic() > end:
                if self._kept is not None:
                    return hellos
                raise FedRelaxError(
                    f"missing after {self.settings.join:g} seconds: {listing(missing)}; start "
                    "them, or leave them out of sites"
                )
            time.sleep(PAUSE)

    def greet(self, claimed: Collection[str], wait: float | None = None) -> dict[str, SiteManifest]:
        """Greet addresses not met before; unknown names and second claims to a name are refused."""
        hellos: dict[str, SiteManifest] = {}
        now, schema = time.monotonic(), self.settings.schema
        new = [a for a in self.transport.addresses() if self._met.get(a, 0.0) <= now]
        if not new:
            return hellos
        head = {"run": self.id, "schema": schema and schema.to_dict()}
        if wait is None:
            wait = min(self.settings.join, max(self.settings.wait, FIRST))
        answers = self.transport.send(dict.fromkeys(new, Envelope("hello", head)), wait)
        for address in sorted(answers, key=str):
            self._met[address] = math.inf
            try:
                hello = SiteManifest.of(answers[address])
            except Refused as error:
                self._met[address] = time.monotonic() + AGAIN
                self.note(f"{answers[address].head.get('reason', error)}")
                continue
            if hello.name not in self.settings.sites:
                self.note(f"a site called {hello.name!r} is not in this federation and was refused")
            elif hello.name in claimed or hello.name in hellos:
                self.note(f"a second site called {hello.name!r} tried to join and was refused")
            else:
                hellos[hello.name] = hello
                self.addresses[hello.name] = address
        return hellos

    def note(self, text: str) -> None:
        """Write down, once, what was refused or lost."""
        log.warning("%s", text)
        if text not in self.notes:
            self.notes.append(text)

    # The rounds

    def _plans(
        self,
        agreement: Agreement,
        lanes: Sequence[CandidateRun],
        public: dict[str, int],
        more: dict[str, Any],
    ) -> dict[str, Plan]:
        """Return each site's plan; ``more`` is what only some runs need."""
        settings, hellos, classes = self.settings, agreement.hellos, agreement.task.classes
        method = replace(settings.method, rounds=settings.rounds)
        seeds = seeds_of(method.random_state, len(hellos)).tolist()
        return {
            name: Plan(
                run=self.id,
                method=plain_method(method),
                lanes=tuple(lane.spec for lane in lanes),
                folds=settings.folds,
                columns=agreement.ready.to_dict(),
                kind=agreement.task.kind,
                classes=None if classes is None else tuple(classes.tolist()),
                seed=seed,
                nodes=len(hellos),
                nonces={other: hellos[other].nonce for other in hello.neighbours},
                public={other: public[other] for other in (name, *hello.neighbours)},
                **more,
            )
            for (name, hello), seed in zip(hellos.items(), seeds, strict=True)
        }

    def _rounds(
        self, lanes: Sequence[CandidateRun], letters: HubProtocol, callbacks: Sequence[Callback]
    ) -> tuple[list[Outcome], int]:
        """Run all lanes side by side: once each has shared, one exchange serves them all.

        Return how they ended, and the most rounds that they could have run: fewer if a callback ended
        the search.
        """
        many, rounds, wiring = len(lanes) > 1, self.settings.rounds, self.wiring

        def stopping(lane: CandidateRun, rounds: int) -> Stopping:
            patience = self.settings.method.patience
            if many:
                patience = None if lane.spec.fold is None else PATIENCE
            return Stopping(rounds, self.settings.tol, patience)

        going = {
            number: Loop(lane, stopping(lane, rounds), () if many else callbacks, wiring).stepwise()
            for number, lane in enumerate(lanes)
        }
        outcomes: dict[int, Outcome] = {}
        while going:
            for number in list(going):
                try:
                    next(going[number])
                except StopIteration as end:
                    outcomes[number] = end.value
                    del going[number]
            asked = list(going)
            round = lanes[asked[0]].round if asked else 0
            if asked and round == len(letters.reports):  # else a run that was stopped is replayed
                stage = None if wiring is None else wiring.due(round - 1)
                if wiring is not None and stage is not None:
                    final = stage == wiring.stages - 1  # models that drift then start anew
                    letters.refit(round - 1, asked, final and not letters.settles)
                rewired = wiring is not None and wiring.due(round) is not None
                letters.exchange(round, asked, rewired)
            done = max(lane.round for lane in lanes)
            if many and any([call.choosing(done, rounds) for call in callbacks]):
                return [lane.replay(stopping(lane, done)) for lane in lanes], done
        return [outcomes[number] for number in range(len(lanes))], rounds
