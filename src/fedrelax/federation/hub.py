"""The hub's side of a run: greet, agree, run rounds, choose, end. It never sees a row."""

from __future__ import annotations

import logging
import math
import time
import uuid
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from fedrelax.errors import FedRelaxError, listing
from fedrelax.federation.agreement import Agreement, SiteManifest, agree
from fedrelax.federation.lanes import CandidateRun, choose_lane, lanes_for
from fedrelax.federation.letters import Envelope, Finished
from fedrelax.federation.plan import Plan, plain_settings
from fedrelax.federation.protocol import HubProtocol
from fedrelax.federation.settings import HubSettings
from fedrelax.federation.state import Memory
from fedrelax.files import Refused
from fedrelax.runtime import Callback, Outcome, Stopping, stepwise
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
    number: int
    """The number of that lane in the plan."""
    choice: Choice | None
    alone: tuple[Label, ...]
    """The sites that keep the model trained alone."""
    missed: dict[str, list[int]]
    reports: dict[str, Finished] = field(default_factory=dict)
    """What every site said at the end: rows and errors on test rows."""
    notes: tuple[str, ...] = ()

    @property
    def alpha(self) -> float:
        """The strength of the coupling; 0 where training alone was chosen."""
        return self.lane.spec.alpha


class Hub:
    """Drives a run. ``where`` is a folder for its memory; a hub started there again resumes the run."""

    def __init__(
        self, settings: HubSettings, transport: Transport, where: Path | None = None
    ) -> None:
        settings.check()
        self.settings, self.transport = settings, transport
        wiring = settings.method.wiring
        self.wiring = None if wiring is None else wiring.paced(settings.rounds)
        kept = None if where is None else Memory.load(where)
        self.memory = Memory(uuid.uuid4().hex, where) if kept is None else kept
        self.addresses: dict[str, Address] = {}
        self._met: dict[Address, float] = {}
        """When an address that has answered may be greeted again."""

    def run(self, callbacks: Sequence[Callback] = ()) -> Federated:
        """Run the rounds and return how they ended."""
        self.memory.tell("waiting for sites", self.settings.rounds)
        hellos = self._meet()
        agreement = self._agree(hellos)
        rows = {name: hello.rows for name, hello in agreement.hellos.items()}
        given = self.settings
        specs = lanes_for(agreement.graph, given.alpha, given.folds, rows, given.method.update)
        symmetric = given.method.objective == "gtvmin"
        lanes = [CandidateRun(spec, agreement.graph, symmetric, self.wiring) for spec in specs]
        letters = HubProtocol(self, agreement, lanes)
        if not self.memory.begun:
            letters.begin(self._plans(agreement, lanes))
        letters.recall(hellos)
        outcomes, reached = self._rounds(lanes, letters, callbacks)
        federated = self._ended(agreement, lanes, outcomes, reached, callbacks)
        letters.finish(federated)
        self.memory.tell("finished", self.settings.rounds, alpha=federated.alpha)
        if (folder := self.memory.folder) is not None:
            folder.begin()
        return replace(federated, reports=letters.reports, notes=tuple(self.memory.notes))

    # Who is there

    def _meet(self) -> dict[str, SiteManifest]:
        """Greet whoever can be reached until all sites have joined; each name has one address.

        A run resumed after a restart goes on without sites that do not come back.
        """
        found: dict[str, SiteManifest] = {}
        end = time.monotonic() + self.settings.join
        while True:
            found |= self.greet(found)
            missing = [name for name in self.settings.sites if name not in found]
            if not missing:
                return found
            if time.monotonic() > end and self.memory.begun:
                known = self.memory.hellos
                return found | {n: SiteManifest.of(Envelope("hello", known[n])) for n in missing}
            if time.monotonic() > end:
                raise FedRelaxError(
                    f"missing after {self.settings.join:g} seconds: {listing(missing)}; start "
                    "them, or leave them out of sites"
                )
            time.sleep(PAUSE)

    def _agree(self, hellos: dict[str, SiteManifest]) -> Agreement:
        """Return what the sites agree on; a resumed run keeps what it began with."""
        if self.memory.begun:
            known = self.memory.hellos.items()
            hellos = {name: SiteManifest.of(Envelope("hello", head)) for name, head in known}
        given = self.settings
        agreement = agree(hellos, given.sites, given.open, given.schema)
        for text in agreement.notes:
            self.note(text)
        return agreement

    def greet(self, claimed: Collection[str], wait: float | None = None) -> dict[str, SiteManifest]:
        """Greet addresses not met before; unknown names and second claims to a name are refused."""
        found: dict[str, SiteManifest] = {}
        now, schema = time.monotonic(), self.settings.schema
        new = [place for place in self.transport.addresses() if self._met.get(place, 0.0) <= now]
        if not new:
            return found
        head = {"run": self.memory.run, "schema": schema and schema.to_dict()}
        letter = Envelope("hello", head)
        if wait is None:
            wait = min(self.settings.join, max(self.settings.wait, FIRST))
        answers = self.transport.send({place: letter for place in new}, wait)
        for place in sorted(answers, key=str):
            self._met[place] = math.inf
            try:
                hello = SiteManifest.of(answers[place])
            except Refused as error:
                self._met[place] = time.monotonic() + AGAIN
                self.note(f"{answers[place].head.get('reason', error)}")
                continue
            if hello.name not in self.settings.sites:
                self.note(f"a site called {hello.name!r} is not in this federation and was refused")
            elif hello.name in claimed or hello.name in found:
                self.note(f"a second site called {hello.name!r} tried to join and was refused")
            else:
                found[hello.name] = hello
                self.addresses[hello.name] = place
        return found

    def note(self, text: str) -> None:
        """Write down, once, what was refused or lost."""
        log.warning("%s", text)
        if text not in self.memory.notes:
            self.memory.notes.append(text)

    # The rounds

    def _plans(self, agreement: Agreement, lanes: Sequence[CandidateRun]) -> dict[str, Plan]:
        """Return each site's plan."""
        given = self.settings
        method = replace(given.method, rounds=given.rounds)
        seeds = seeds_of(method.random_state, len(agreement.labels)).tolist()
        classes, plans = agreement.task.classes, {}
        for (name, hello), seed in zip(agreement.hellos.items(), seeds, strict=True):
            near = {other: agreement.hellos[other] for other in hello.neighbours}
            plans[name] = Plan(
                run=self.memory.run,
                method=plain_settings(method),
                lanes=tuple(lane.spec for lane in lanes),
                folds=given.folds,
                validation_share=given.validation_share,
                columns=agreement.ready.to_dict(),
                kind=agreement.task.kind,
                classes=None if classes is None else tuple(classes.tolist()),
                seed=int(seed),
                nodes=len(agreement.hellos),
                nonces={other: said.nonce for other, said in near.items()},
                public={other: said.public_rows for other, said in near.items()},
            )
        return plans

    def _rounds(
        self, lanes: Sequence[CandidateRun], letters: HubProtocol, callbacks: Sequence[Callback]
    ) -> tuple[list[Outcome], int]:
        """Run all lanes side by side: once each has shared, one exchange serves them all.

        Return how they ended, and the most rounds that they could have run: fewer if a callback ended
        the search.
        """
        many = len(lanes) > 1
        going = {
            number: stepwise(
                lane, self._stopping(lane, many), () if many else callbacks, self.wiring
            )
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
            asked = [number for number in going if lanes[number].waits]
            if asked:
                round = lanes[asked[0]].round
                stage = self._stage(round - 1)
                if self.wiring is not None and stage is not None:
                    final = stage == self.wiring.stages - 1  # models that drift then start anew
                    letters.refit(round - 1, asked, final and not self.memory.settles)
                letters.exchange(round, asked, self._stage(round) is not None)
                self.memory.tell("running", self.settings.rounds)
            done = max(lane.round for lane in lanes)
            if many and any([call.choosing(done, self.settings.rounds) for call in callbacks]):
                ends = [self._stopping(lane, many, done) for lane in lanes]
                return [lane.told_again(end) for lane, end in zip(lanes, ends, strict=True)], done
        return [outcomes[number] for number in range(len(lanes))], self.settings.rounds

    def _stage(self, round: int) -> int | None:
        """Return the stage of the wiring that begins after a round, or None."""
        return None if self.wiring is None else self.wiring.due(round)

    def _stopping(self, lane: CandidateRun, many: bool, rounds: int | None = None) -> Stopping:
        patience = self.settings.method.patience
        if many:
            patience = PATIENCE if lane.spec.fold is not None else None
        most = self.settings.rounds if rounds is None else rounds
        return Stopping(most, self.settings.tol, patience)

    def _ended(
        self,
        agreement: Agreement,
        lanes: Sequence[CandidateRun],
        outcomes: Sequence[Outcome],
        reached: int,
        callbacks: Sequence[Callback],
    ) -> Federated:
        """Return the one run, or choose among many and replay the chosen one up to its end."""
        choice, alone, number = None, tuple[Label, ...](), 0
        lane, outcome = lanes[0], outcomes[0]
        if len(lanes) > 1:
            rows = {name: hello.rows for name, hello in agreement.hellos.items()}
            choice, number = choose_lane(lanes, outcomes, reached, self.settings, rows)
            lane, alone = lanes[number].weighed(choice.alpha), choice.alone
            outcome = lane.told_again(Stopping(choice.rounds, self.settings.tol), callbacks)
        return Federated(agreement, outcome, lane, number, choice, alone, self.memory.missed)
