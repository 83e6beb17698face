"""The letters of a run, from the hub's side: what is asked, what comes back, and who is silent."""

from __future__ import annotations

import logging
import math
import time
import uuid
from collections.abc import Collection, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from fedrelax.errors import FedRelaxError, named
from fedrelax.federation.agreement import SiteManifest
from fedrelax.federation.lanes import CandidateRun
from fedrelax.federation.letters import (
    PUBLIC,
    Envelope,
    Finished,
    LaneReport,
    Plan,
    Relaxed,
    again,
)
from fedrelax.federation.settings import HubSettings
from fedrelax.federation.state import HUB, Folder
from fedrelax.files import Refused
from fedrelax.storage.states import from_bytes, to_bytes
from fedrelax.typing import Label

FIRST = 120.0
"""Seconds that a first greeting gets at least: the site's programs start for the first time."""
AGAIN = 5.0
"""Seconds after which a site that could not answer a greeting is greeted again."""

Address = Hashable
Reports = dict[str, list[LaneReport]]
"""What every site reported of a round."""
KEPT = ("notes", "missed", "reports", "boxes", "settles", "largest_box", "alpha", "words")
"""What is kept of a run, besides its name, its settings and what the sites said when it began."""

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


class HubProtocol:
    """Writes to all sites at once and accepts the answers that are sound.

    ``where`` is a folder for the state: a hub that is started there again, with the same settings, goes on
    with its run.

    notes : what was refused, and who was lost or came back, in sentences.
    missed : by site, the rounds in which it did not answer.
    """

    def __init__(
        self, settings: HubSettings, transport: Transport, where: Path | None = None
    ) -> None:
        settings.check()
        self.settings, self.transport, self.asked = settings, transport, settings.asked
        self.folder = None if where is None else Folder(where)
        self.id, self.notes, self.missed = uuid.uuid4().hex, list[str](), dict[str, list[int]]()
        self.hellos: dict[str, SiteManifest] = {}
        self.lanes: Sequence[CandidateRun] = ()
        self.reports: list[bytes] = []
        """What was reported, round by round, as it is kept."""
        self.boxes: dict[tuple[str, str], tuple[int, bytes]] = {}
        """(sender, receiver) -> the round of the box, and the box, which the hub cannot read."""
        self.settles = True
        """Whether the models of all sites reach the same fixed point from any start."""
        self.largest_box = 0
        """The most bytes that a site sent to another in one round."""
        self.alpha, self.words = 0.0, ""
        """What sites that learn by partial pooling have learned so far."""
        kept = (None if self.folder is None else self.folder.read(HUB)) or {}
        self.resumed = kept.get("asked") == self.asked
        if self.resumed:
            self.id = kept["run"]
            heads = kept["hellos"].items()
            self.hellos = {name: SiteManifest.of(Envelope("hello", head)) for name, head in heads}
            for name in KEPT:
                setattr(self, name, kept[name])
        self.addresses: dict[str, Address] = {}
        self._met: dict[Address, float] = {}
        """When an address that has answered may be greeted again."""
        self._absent: set[str] = set()

    def note(self, text: str) -> None:
        """Write down, once, what was refused or lost."""
        log.warning("%s", text)
        if text not in self.notes:
            self.notes.append(text)

    # The course of a run

    def greet(self, claimed: Collection[str], wait: float | None = None) -> dict[str, SiteManifest]:
        """Greet addresses not met before; unknown names and second claims to a name are refused.

        A site that comes back at another address takes part again if it knows the run.
        """
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
                if self.hellos.get(hello.name, hello).nonce != hello.nonce:
                    self.note(
                        f"site {hello.name!r} is back without the state of this run and stays out of it"
                    )
                    del self.addresses[hello.name]
        return hellos

    def begin(self, plans: Mapping[str, Plan]) -> None:
        """Tell all sites the plan, carry their public rows, and let them train alone."""
        begin = {n: Envelope("begin", plan.model_dump(mode="json")) for n, plan in plans.items()}
        begun = self._ask_everybody(begin, "begun")
        self.settles = all(letter.head.get("settles") is True for letter in begun.values())
        self._take_boxes(begun, PUBLIC)
        start = {name: self._letter("start", name, PUBLIC) for name in plans}
        self._take_boxes(self._ask_everybody(start, "started"), 0)
        self._save()

    def go_on(self) -> None:
        """Go on with the run that was kept."""
        for round, plain in enumerate(self.reports):
            told = from_bytes(plain).items()
            reports = {name: [LaneReport(**one) for one in said] for name, said in told}
            self._record(round, reports)
            self._absent = self.hellos.keys() - reports.keys()
        log.info("going on with round %d", len(self.reports))

    def exchange(self, round: int, lanes: Sequence[int], rewired: bool) -> None:
        """Carry the predictions of a round, and take the sites' numbers and next predictions.

        If the graph is to be ``rewired`` after this round, sites do not refit before ``refit`` is called.
        """
        rounds, wait = self.settings.rounds, self.settings.wait
        if self._absent:
            self.greet(self.hellos.keys() - self._absent, wait=1.0)
        refit = not rewired and round < rounds
        reports = self._relax(round, lanes, refit=refit, look=rewired)
        if not reports:
            raise FedRelaxError(
                f"no site answered in round {round} within {wait:g} seconds; start the run again when "
                "they are back, and it goes on"
            )
        for name in self.hellos:
            if name in reports and name in self._absent:
                self.note(f"site {name!r} is back in round {round}")
            elif name not in reports:
                if name not in self._absent:
                    self.note(f"site {name!r} is missing from round {round} on")
                self.missed.setdefault(name, []).append(round)
        self._absent = self.hellos.keys() - reports.keys()
        self._record(round, reports)
        plain = {name: [one.model_dump() for one in said] for name, said in reports.items()}
        self.reports.append(to_bytes(plain))
        self._save()
        missing = f"; missing: {', '.join(sorted(self._absent))}" if self._absent else ""
        log.info("round %d of at most %d%s", round, rounds, missing)

    def refit(self, round: int, lanes: Sequence[int], settle: bool) -> None:
        """Let the sites refit on the rewired graph; to ``settle``, they first start anew."""
        if settle:
            settled = self._ask_lanes("settle", "settled", round, None, lanes)
            self._take_boxes(settled, again(round))
        self._relax(round, lanes, refit=True, anew=settle)

    def finish(self, kept: Mapping[str, Any], alone: Collection[Label]) -> dict[str, Finished]:
        """Tell every site which round is kept; return the errors that the sites report."""
        heads = {name: {**kept, "run": self.id, "alone": name in alone} for name in self.hellos}
        letters = {name: Envelope("finish", head) for name, head in heads.items()}
        reports = {}
        for name, answer in self._ask(letters, "finished").items():
            try:
                reports[name] = answer.read(Finished)
            except Refused as error:
                self.note(f"site {name!r}: its final report is refused: {error}")
        for name in self.hellos:
            if name not in reports:
                self.note(f"site {name!r} did not answer at the end; it may have saved no model")
        return reports

    # Letters

    def _relax(
        self,
        round: int,
        lanes: Sequence[int],
        refit: bool,
        look: bool = False,
        anew: bool = False,
    ) -> Reports:
        """Carry the predictions of a round; return what the sites whose answers are sound report."""
        sound, reports, boxes = {}, {}, again(round) if anew else round
        more = {"refit": refit, "look": look, "anew": anew}
        answers = self._ask_lanes("relax", "relaxed", round, boxes, lanes, **more)
        for name, letter in answers.items():
            try:
                reports[name] = self._report(letter, name, lanes)
                sound[name] = letter
            except Refused as error:
                self.note(f"site {name!r}, round {round}: its report is refused: {error}")
        if refit:
            self._take_boxes(sound, round + 1)
        return reports

    def _ask_lanes(
        self,
        kind: str,
        reply: str,
        round: int,
        boxes: int | None,
        lanes: Sequence[int],
        **more: Any,
    ) -> dict[str, Envelope]:
        """Ask all sites about lanes; where a wiring decides, tell them which neighbours they heed."""
        letters = {}
        for name in self.hellos:
            head = {"lanes": list(lanes), "round": round, **more}
            if self.lanes[0].wiring is not None:
                head["heeded"] = {str(n): self.lanes[n].heeded(name) for n in lanes}
            letters[name] = self._letter(kind, name, boxes, head)
        return self._ask(letters, reply, round)

    def _letter(
        self, kind: str, name: str, round: int | None, head: Mapping[str, Any] | None = None
    ) -> Envelope:
        """Return a letter with the boxes of this round that are for a site."""
        boxes = {other: self.boxes.get((other, name)) for other in self.hellos[name].neighbours}
        parts = {f"from {n}": box[1] for n, box in boxes.items() if box and box[0] == round}
        return Envelope(kind, {"run": self.id, **(head or {})}, parts)

    def _ask(
        self, letters: Mapping[str, Envelope], kind: str, round: int | None = None
    ) -> dict[str, Envelope]:
        """Send letters and return the answers that are of the expected kind, run and round."""
        names = {self.addresses[name]: name for name in letters if name in self.addresses}
        answers = self.transport.send(
            {address: letters[name] for address, name in names.items()},
            self.settings.wait,
            [address for address, name in names.items() if name in self._absent],
        )
        sound = {}
        for address, letter in answers.items():
            name, head = names[address], letter.head
            if (letter.kind, head.get("run"), head.get("name")) != (kind, self.id, name):
                reason = str(head.get("reason", f"it answered with a letter {letter.kind!r}"))
                self.note(reason if name in reason else f"site {name!r}: {reason}")
            elif round is not None and head.get("round") != round:
                self.note(f"site {name!r}: an answer for another round than {round} is refused")
            else:
                sound[name] = letter
        return sound

    def _ask_everybody(self, letters: Mapping[str, Envelope], kind: str) -> dict[str, Envelope]:
        """Send letters and return the answers; refuse to begin without everybody."""
        answers = self._ask(letters, kind)
        missing = [name for name in letters if name not in answers]
        if missing:
            notes = "; ".join(self.notes[-len(missing) :]) or "no answer came"
            raise FedRelaxError(f"the run cannot begin without {named('site', missing)}: {notes}")
        return answers

    def _take_boxes(self, answers: Mapping[str, Envelope], round: int) -> None:
        """Keep the boxes in answers for those who hear the senders; predictions have rounds from 0 on."""
        for name, letter in answers.items():
            for other in self.hellos[name].neighbours:
                box = letter.parts.get(f"to {other}")
                if box is not None:
                    self.boxes[name, other] = round, box
                    if round >= 0:
                        self.largest_box = max(self.largest_box, len(box))

    # Numbers

    def _report(self, letter: Envelope, name: str, lanes: Sequence[int]) -> list[LaneReport]:
        """Return what a site reports about these lanes, or refuse it."""
        relaxed = letter.read(Relaxed)
        if relaxed.alpha is not None:
            self.alpha, self.words = relaxed.alpha, relaxed.words
        if [report.lane for report in relaxed.reports] != list(lanes):
            raise Refused("it covers other lanes than those asked for")
        near = self.hellos[name].neighbours.keys()
        if any((set(one.discrepancies) | set(one.looks or ())) - near for one in relaxed.reports):
            raise Refused("it names sites that are not its neighbours")
        for sender, reason in relaxed.refused.items():
            self.note(f"site {sender!r}: site {name!r} refused what came from it: {reason}")
        return relaxed.reports

    def _record(self, round: int, reports: Reports) -> None:
        """Hand the reports of a round to their lanes."""
        by_lane: dict[int, dict[str, LaneReport]] = {}
        for name, said in reports.items():
            for report in said:
                by_lane.setdefault(report.lane, {})[name] = report
        for number, own in by_lane.items():
            self.lanes[number].record(round, own)

    def _save(self) -> None:
        """Keep the run up to here, for a hub that is started again, if there is a folder for it."""
        if self.folder is not None:
            hellos = {name: hello.letter().head for name, hello in self.hellos.items()}
            kept = {name: getattr(self, name) for name in KEPT}
            self.folder.write(HUB, {"run": self.id, "asked": self.asked, "hellos": hellos, **kept})
