"""The letters of a run, from the hub's side: what is asked, what comes back, and who is silent."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

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
from fedrelax.federation.state import HUB
from fedrelax.files import Refused
from fedrelax.runtime import Outcome, SiteMeasure
from fedrelax.storage.states import from_bytes, to_bytes
from fedrelax.typing import Label

if TYPE_CHECKING:
    from fedrelax.federation.hub import Hub

log = logging.getLogger("fedrelax.federation")

Reports = dict[str, list[LaneReport]]
"""What every site reported of a round."""
KEPT = ("reports", "boxes", "settles", "largest_box", "alpha", "words")
"""What is kept of a run, besides what the hub itself knows."""


class HubProtocol:
    """Writes to all sites at once and accepts the answers that are sound."""

    def __init__(
        self, hub: Hub, hellos: Mapping[str, SiteManifest], lanes: Sequence[CandidateRun]
    ) -> None:
        self._hub, self._hellos, self._lanes = hub, hellos, lanes
        self._absent: set[str] = set()
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

    def begin(self, plans: Mapping[str, Plan]) -> None:
        """Tell all sites the plan, carry their public rows, and let them train alone."""
        begin = {n: Envelope("begin", plan.model_dump(mode="json")) for n, plan in plans.items()}
        begun = self._ask_everybody(begin, "begun")
        self.settles = all(letter.head.get("settles") is True for letter in begun.values())
        self._take_boxes(begun, PUBLIC)
        start = {name: self._letter("start", name, PUBLIC) for name in plans}
        self._take_boxes(self._ask_everybody(start, "started"), 0)
        self.save()

    def save(self) -> None:
        """Keep the run up to here, for a hub that is started again, if there is a folder for it."""
        hub = self._hub
        if hub.folder is None:
            return
        state = {
            "run": hub.id,
            "asked": hub.asked,
            "notes": hub.notes,
            "missed": hub.missed,
            "hellos": {name: hello.letter().head for name, hello in self._hellos.items()},
            **{name: getattr(self, name) for name in KEPT},
        }
        hub.folder.write(HUB, state)

    def recall(self, kept: Mapping[str, Any], met: Mapping[str, SiteManifest]) -> None:
        """Go on with a run that was kept; the sites that have been met must know it, too."""
        for name in KEPT:
            setattr(self, name, kept[name])
        self._readmit(met)
        for round, plain in enumerate(self.reports):
            told = from_bytes(plain).items()
            self._record(round, {name: [LaneReport(**one) for one in said] for name, said in told})
            self._absent = self._hellos.keys() - dict(told).keys()
        log.info("going on with round %d", len(self.reports))

    def exchange(self, round: int, lanes: Sequence[int], rewired: bool = False) -> None:
        """Carry the predictions of a round, and take the sites' numbers and next predictions.

        If the graph is to be ``rewired`` after this round, sites do not refit before ``refit`` is called.
        """
        hub = self._hub
        if self._absent:
            self._readmit(hub.greet(set(self._hellos) - self._absent, wait=1.0))
        refit = not rewired and round < hub.settings.rounds
        reports = self._relax(round, lanes, refit=refit, look=rewired)
        if not reports:
            raise FedRelaxError(
                f"no site answered in round {round} within {hub.settings.wait:g} seconds; start the run "
                "again when they are back, and it goes on"
            )
        for name in self._hellos:
            if name in reports and name in self._absent:
                hub.note(f"site {name!r} is back in round {round}")
            elif name not in reports:
                if name not in self._absent:
                    hub.note(f"site {name!r} is missing from round {round} on")
                hub.missed.setdefault(name, []).append(round)
        self._absent = set(self._hellos) - set(reports)
        self._record(round, reports)
        plain = {name: [one.model_dump() for one in said] for name, said in reports.items()}
        self.reports.append(to_bytes(plain))
        self.save()
        missing = f"; missing: {', '.join(sorted(self._absent))}" if self._absent else ""
        log.info("round %d of at most %d%s", round, hub.settings.rounds, missing)

    def refit(self, round: int, lanes: Sequence[int], settle: bool) -> None:
        """Let the sites refit on the rewired graph; to ``settle``, they first start anew."""
        if settle:
            self._take_boxes(self._ask_lanes("settle", round, None, lanes), again(round))
        self._relax(round, lanes, refit=True, anew=settle)

    def finish(
        self, number: int, lane: CandidateRun, outcome: Outcome, alone: Collection[Label]
    ) -> dict[str, Finished]:
        """Tell every site which round is kept; return the errors that the sites report."""
        letters, reports = {}, {}
        for name in self._hellos:
            head = {
                "run": self._hub.id,
                "lane": number,
                "alpha": lane.spec.alpha,
                "round": outcome.n_rounds,
                "alone": name in alone,
                "reason": outcome.reason,
            }
            letters[name] = Envelope("finish", head)
        for name, letter in self._ask(letters, "finished").items():
            try:
                reports[name] = letter.read(Finished)
            except Refused as error:
                self._hub.note(f"site {name!r}: its final report is refused: {error}")
        for name in letters:
            if name not in reports:
                self._hub.note(
                    f"site {name!r} did not answer at the end; it may have saved no model"
                )
        return reports

    # Letters

    def _relax(
        self,
        round: int,
        lanes: Sequence[int],
        *,
        refit: bool,
        look: bool = False,
        anew: bool = False,
    ) -> Reports:
        """Carry the predictions of a round; return what the sites whose answers are sound report."""
        hub, sound, reports = self._hub, {}, {}
        more = {"refit": refit, "look": look, "anew": anew}
        boxes = again(round) if anew else round
        for name, letter in self._ask_lanes("relax", round, boxes, lanes, **more).items():
            try:
                reports[name] = self._report(letter, name, lanes)
                sound[name] = letter
            except Refused as error:
                hub.note(f"site {name!r}, round {round}: its report is refused: {error}")
        if refit:
            self._take_boxes(sound, round + 1)
        return reports

    def _ask_lanes(
        self, kind: str, round: int, boxes: int | None, lanes: Sequence[int], **more: Any
    ) -> dict[str, Envelope]:
        """Ask all sites about lanes; where a wiring decides, tell them which neighbours they heed."""
        letters = {}
        for name in self._hellos:
            head = {"lanes": list(lanes), "round": round, **more}
            if self._lanes[0].wiring is not None:
                head["heeded"] = {str(n): self._lanes[n].heeded(name) for n in lanes}
            letters[name] = self._letter(kind, name, boxes, head)
        return self._ask(letters, {"relax": "relaxed", "settle": "settled"}[kind], round)

    def _letter(
        self, kind: str, name: str, round: int | None, head: Mapping[str, Any] | None = None
    ) -> Envelope:
        """Return a letter with the boxes of this round that are for a site."""
        parts = {}
        for other in self._hellos[name].neighbours:
            of, box = self.boxes.get((other, name), (None, b""))
            if of == round:
                parts[f"from {other}"] = box
        return Envelope(kind, {"run": self._hub.id, **(head or {})}, parts)

    def _ask(
        self, letters: Mapping[str, Envelope], kind: str, round: int | None = None
    ) -> dict[str, Envelope]:
        """Send letters and return the answers that are of the expected kind, run and round."""
        hub = self._hub
        names = {hub.addresses[name]: name for name in letters if name in hub.addresses}
        late = [hub.addresses[name] for name in self._absent if name in hub.addresses]
        answers = hub.transport.send(
            {address: letters[name] for address, name in names.items()}, hub.settings.wait, late
        )
        sound = {}
        for address, letter in answers.items():
            name, head = names[address], letter.head
            if (letter.kind, head.get("run"), head.get("name")) != (kind, self._hub.id, name):
                reason = str(head.get("reason", f"it answered with a letter {letter.kind!r}"))
                hub.note(reason if name in reason else f"site {name!r}: {reason}")
            elif round is not None and head.get("round") != round:
                hub.note(f"site {name!r}: an answer for another round than {round} is refused")
            else:
                sound[name] = letter
        return sound

    def _ask_everybody(self, letters: Mapping[str, Envelope], kind: str) -> dict[str, Envelope]:
        """Send letters and return the answers; refuse to begin without everybody."""
        answers = self._ask(letters, kind)
        missing = [name for name in letters if name not in answers]
        if missing:
            notes = "; ".join(self._hub.notes[-len(missing) :]) or "no answer came"
            raise FedRelaxError(f"the run cannot begin without {named('site', missing)}: {notes}")
        return answers

    def _take_boxes(self, answers: Mapping[str, Envelope], round: int) -> None:
        """Keep the boxes in answers for those who hear the senders; predictions have rounds from 0 on."""
        for name, letter in answers.items():
            for other in self._hellos[name].neighbours:
                box = letter.parts.get(f"to {other}")
                if box is not None:
                    self.boxes[name, other] = round, box
                    if round >= 0:
                        self.largest_box = max(self.largest_box, len(box))

    def _readmit(self, back: Mapping[str, SiteManifest]) -> None:
        """Readmit sites that came back at another address, if they know this run."""
        for name, hello in back.items():
            if hello.nonce != self._hellos[name].nonce:
                self._hub.note(
                    f"site {name!r} is back without the state of this run and stays out of it"
                )
                del self._hub.addresses[name]

    # Numbers

    def _report(self, letter: Envelope, name: str, lanes: Sequence[int]) -> list[LaneReport]:
        """Return what a site reports about these lanes, or refuse it."""
        relaxed = letter.read(Relaxed)
        if relaxed.alpha is not None:
            self.alpha, self.words = relaxed.alpha, relaxed.words
        if [report.lane for report in relaxed.reports] != list(lanes):
            raise Refused("it covers other lanes than those asked for")
        near = set(self._hellos[name].neighbours)
        if any((set(one.discrepancies) | set(one.looks or ())) - near for one in relaxed.reports):
            raise Refused("it names sites that are not its neighbours")
        for sender, reason in relaxed.refused.items():
            self._hub.note(f"site {sender!r}: site {name!r} refused what came from it: {reason}")
        return relaxed.reports

    def _record(self, round: int, reports: Reports) -> None:
        """Hand the reports of a round to their lanes."""
        measures = defaultdict[int, dict[str, SiteMeasure]](dict)
        for name, lanes in reports.items():
            for report in lanes:
                measures[report.lane][name] = report.measure
                if report.looks is not None:
                    looks = self._lanes[report.lane].looks.setdefault(round, {})
                    looks[name] = report.looks
        for lane, by_site in measures.items():
            self._lanes[lane].record(by_site)
