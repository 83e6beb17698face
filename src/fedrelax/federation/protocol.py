"""The letters of a run, from the hub's side: what is asked, what comes back, and who is silent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedrelax.errors import FedRelaxError, named
from fedrelax.federation.agreement import Agreement, SiteManifest
from fedrelax.federation.lanes import CandidateRun
from fedrelax.federation.letters import PUBLIC, RECORD, Envelope, Finished, Relaxed, again
from fedrelax.federation.plan import Plan
from fedrelax.federation.state import Reports
from fedrelax.files import Refused
from fedrelax.runtime import SiteMeasure

if TYPE_CHECKING:
    from fedrelax.federation.hub import Federated, Hub


class HubProtocol:
    """Writes to all sites at once and accepts the answers that are sound."""

    def __init__(self, hub: Hub, agreement: Agreement, lanes: Sequence[CandidateRun]) -> None:
        self._hub, self._agreement, self._lanes = hub, agreement, lanes
        self._memory = hub.memory
        self._absent: set[str] = set()
        self.reports: dict[str, Finished] = {}

    def begin(self, plans: Mapping[str, Plan]) -> None:
        """Tell all sites the plan, carry their public rows, and let them train alone."""
        told = {n: Envelope("begin", plan.model_dump(mode="json")) for n, plan in plans.items()}
        begun = self._ask(told, "begun")
        self._need_all(begun)
        self._memory.settles = all(letter.head.get("settles") is True for letter in begun.values())
        self._take_boxes(begun, PUBLIC)
        started = self._ask({n: self._letter("start", n, PUBLIC) for n in plans}, "started")
        self._need_all(started)
        self._take_boxes(started, 0)
        self._memory.begun = True
        self._memory.hellos = {n: h.letter().head for n, h in self._agreement.hellos.items()}
        self._memory.heard = dict.fromkeys(plans, 0)
        self._memory.save()

    def recall(self, hellos: Mapping[str, SiteManifest]) -> None:
        """Give the lanes the reports of earlier rounds; sites that joined must know this run, too."""
        self._welcome(hellos)
        for round, reports in enumerate(self._memory.reports):
            self._record(round, reports)

    def exchange(self, round: int, lanes: Sequence[int], rewired: bool = False) -> None:
        """Carry the predictions of a round, and take the sites' numbers and next predictions.

        If the graph is to be ``rewired`` after this round, sites do not refit before ``refit`` is called.
        """
        hub = self._hub
        if self._absent:
            self._welcome(hub.greet(set(self._agreement.labels) - self._absent, wait=1.0))
        last = rewired or round >= hub.settings.rounds
        answers, reports = self._relaxed(round, lanes, refit=not last, look=rewired)
        if not reports:
            raise FedRelaxError(
                f"no site answered in round {round} within {hub.settings.wait:g} seconds; start the hub "
                "again when they are back to resume the run"
            )
        self._note_missing(round, reports)
        if not last:
            self._take_predictions(answers, round + 1)
        self._memory.report(reports)
        self._record(round, reports)
        self._memory.save()

    def refit(self, round: int, lanes: Sequence[int], settle: bool) -> None:
        """Let the sites refit on the rewired graph; to ``settle``, they first start anew."""
        if settle:
            answers = self._ask_lanes("settle", round, None, lanes)
            self._take_boxes(answers, again(round))
        answers, _ = self._relaxed(round, lanes, refit=True, anew=settle)
        self._take_predictions(answers, round + 1)
        self._memory.save()

    def _take_predictions(self, answers: Mapping[str, Envelope], round: int) -> None:
        self._take_boxes(answers, round)
        self._memory.heard.update(dict.fromkeys(answers, round))

    def _ask_lanes(
        self, kind: str, round: int, boxes: int | None, lanes: Sequence[int], **more: Any
    ) -> dict[str, Envelope]:
        """Ask all sites about lanes; where a wiring decides, tell them which neighbours they heed."""
        letters = {}
        for name in self._agreement.labels:
            head = {"lanes": list(lanes), "round": round, **more}
            if self._lanes[0].wiring is not None:
                head["heeded"] = {str(n): self._lanes[n].heeded(name) for n in lanes}
            letters[name] = self._letter(kind, name, boxes, head)
        return self._ask(letters, {"relax": "relaxed", "settle": "settled"}[kind], round)

    def _relaxed(
        self,
        round: int,
        lanes: Sequence[int],
        *,
        refit: bool,
        look: bool = False,
        anew: bool = False,
    ) -> tuple[dict[str, Envelope], Reports]:
        """Return the sites' sound answers to the predictions of a round, and what they report."""
        hub, sound, reports = self._hub, {}, {}
        boxes, last = again(round) if anew else round, round - hub.settings.staleness
        silent = [name for name, heard in self._memory.heard.items() if heard < last]
        more = {"refit": refit, "silent": silent, "look": look, "anew": anew}
        for name, letter in self._ask_lanes("relax", round, boxes, lanes, **more).items():
            try:
                reports[name] = self._report(letter, name, lanes).reports
                sound[name] = letter
            except Refused as error:
                hub.note(f"site {name!r}, round {round}: its report is refused: {error}")
        return sound, reports

    def _welcome(self, back: Mapping[str, SiteManifest]) -> None:
        """Readmit sites that came back at another address, if they know this run."""
        for name, hello in back.items():
            if hello.nonce != self._memory.hellos[name]["nonce"]:
                self._hub.note(
                    f"site {name!r} is back without the state of this run and stays out of it"
                )
                del self._hub.addresses[name]

    def finish(self, federated: Federated) -> None:
        """Tell every site which round is kept; it saves its model and reports its errors."""
        kept = federated.lane.recorded[: federated.outcome.n_rounds + 1]
        letters = {}
        for name in self._agreement.labels:
            more = {
                "lane": federated.number,
                "alpha": federated.alpha,
                "round": federated.outcome.n_rounds,
                "alone": name in federated.alone,
                "reason": federated.outcome.reason,
                "history": [_own_numbers(reports[name]) for reports in kept],
            }
            letters[name] = Envelope("finish", {"run": self._memory.run, **more})
        for name, letter in self._ask(letters, "finished").items():
            try:
                self.reports[name] = letter.read(Finished)
            except Refused as error:
                self._hub.note(f"site {name!r}: its final report is refused: {error}")
        for name in letters:
            if name not in self.reports:
                self._hub.note(
                    f"site {name!r} did not answer at the end; it may have saved no model"
                )

    # Letters

    def _letter(
        self, kind: str, name: str, round: int | None, more: Mapping[str, Any] | None = None
    ) -> Envelope:
        """Return a letter with the boxes of this round that are for a site."""
        parts = {}
        for other in self._agreement.hellos[name].neighbours:
            of, box = self._memory.boxes.get((other, name), (None, b""))
            if of == round:
                parts[f"from {other}"] = box
        return Envelope(kind, {"run": self._memory.run, **(more or {})}, parts)

    def _ask(
        self, letters: Mapping[str, Envelope], kind: str, round: int | None = None
    ) -> dict[str, Envelope]:
        """Send letters and return the answers that are of the expected kind, run and round."""
        hub = self._hub
        places = {hub.addresses[name]: name for name in letters if name in hub.addresses}
        late = [hub.addresses[name] for name in self._absent if name in hub.addresses]
        answers = hub.transport.send(
            {place: letters[name] for place, name in places.items()}, hub.settings.wait, late
        )
        found = {}
        for place, letter in answers.items():
            name = places[place]
            said = (letter.kind, letter.head.get("run"), letter.head.get("name"))
            if said != (kind, self._memory.run, name):
                reason = letter.head.get("reason", f"it answered with a letter {letter.kind!r}")
                hub.note(str(reason) if name in str(reason) else f"site {name!r}: {reason}")
            elif round is not None and letter.head.get("round") != round:
                hub.note(f"site {name!r}: an answer for another round than {round} is refused")
            else:
                found[name] = letter
        return found

    def _need_all(self, answers: Mapping[str, Envelope]) -> None:
        """Refuse to begin without everybody."""
        missing = [name for name in self._agreement.labels if name not in answers]
        if missing:
            notes = "; ".join(self._memory.notes[-len(missing) :]) or "no answer came"
            raise FedRelaxError(f"the run cannot begin without {named('site', missing)}: {notes}")

    def _take_boxes(self, answers: Mapping[str, Envelope], round: int) -> None:
        for name, letter in answers.items():
            for other in self._agreement.hellos[name].neighbours:
                box = letter.parts.get(f"to {other}")
                if box is not None:
                    self._memory.boxes[name, other] = round, box

    # Numbers

    def _report(self, letter: Envelope, name: str, lanes: Sequence[int]) -> Relaxed:
        """Return what a site reports about these lanes, or refuse it."""
        relaxed: Relaxed = letter.read(Relaxed)
        if [report.lane for report in relaxed.reports] != list(lanes):
            raise Refused("it covers other lanes than those asked for")
        near = set(self._agreement.hellos[name].neighbours)
        if any((set(one.discrepancies) | set(one.looks or ())) - near for one in relaxed.reports):
            raise Refused("it names sites that are not its neighbours")
        for sender, reason in relaxed.refused.items():
            self._hub.note(f"site {sender!r}: site {name!r} refused what came from it: {reason}")
        return relaxed

    def _record(self, round: int, reports: Reports) -> None:
        """Hand the reports of a round to their lanes."""
        found: dict[int, dict[str, SiteMeasure]] = {}
        for name, lanes in reports.items():
            for report in lanes:
                found.setdefault(report.lane, {})[name] = report.measure
                if report.looks is not None:
                    fits = dict[Any, float](report.looks)
                    self._lanes[report.lane].looks.setdefault(round, {})[name] = fits
        for lane, measures in found.items():
            if len(self._lanes[lane].recorded) == round:
                self._lanes[lane].record(measures)

    def _note_missing(self, round: int, sound: Reports) -> None:
        for name in self._agreement.labels:
            if name in sound:
                if name in self._absent:
                    self._hub.note(f"site {name!r} is back in round {round}")
                self._absent.discard(name)
                continue
            if name not in self._absent:
                self._hub.note(f"site {name!r} is missing from round {round} on")
            self._absent.add(name)
            self._memory.missed.setdefault(name, []).append(round)


def _own_numbers(measure: SiteMeasure) -> list[float | None]:
    """Return what a site is told of its own numbers in a round; None where they are not finite."""
    values = [float(getattr(measure, key)) for key in RECORD]
    return [value if math.isfinite(value) else None for value in values]
