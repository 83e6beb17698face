"""The letters of a run, from the hub's side: what is asked, what comes back, and who is silent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedrelax.errors import FedRelaxError, named
from fedrelax.federation.agreement import Agreement, Hello
from fedrelax.federation.codec import Envelope, Refused
from fedrelax.federation.lanes import Lane
from fedrelax.federation.numbers import Looks, read_looks, read_numbers
from fedrelax.federation.participant import PUBLIC
from fedrelax.federation.plan import Plan
from fedrelax.federation.post import again
from fedrelax.runtime import SiteMeasure

if TYPE_CHECKING:
    from fedrelax.federation.hub import Federated, Hub


class Correspondence:
    """Writes to all sites at once and accepts the answers that are sound."""

    def __init__(self, hub: Hub, agreement: Agreement, lanes: Sequence[Lane]) -> None:
        self._hub, self._agreement, self._lanes = hub, agreement, lanes
        self._memory = hub.memory
        self._absent: set[str] = set()
        self.reports: dict[str, dict[str, Any]] = {}

    def begin(self, plans: Mapping[str, Plan]) -> None:
        """Tell all sites the plan, carry their public rows, and let them train alone."""
        begun = self._ask({name: plan.letter() for name, plan in plans.items()}, "begun")
        self._need_all(begun)
        self._memory.settles = all(letter.head.get("settles") is True for letter in begun.values())
        self._take_boxes(begun, PUBLIC)
        started = self._ask(
            {name: self._letter("start", name, PUBLIC) for name in plans}, "started"
        )
        self._need_all(started)
        self._take_boxes(started, 0)
        self._memory.begun = True
        self._memory.hellos = {n: h.letter().head for n, h in self._agreement.hellos.items()}
        self._memory.heard = dict.fromkeys(plans, 0)
        self._memory.save()

    def recall(self, hellos: Mapping[str, Hello]) -> None:
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
        sound = self._relaxed(round, lanes, refit=not last, look=rewired)
        if not sound:
            raise FedRelaxError(
                f"no site answered in round {round} within {hub.settings.wait:g} seconds; start the hub "
                "again when they are back to resume the run"
            )
        self._note_missing(round, sound)
        if not last:
            self._take_predictions(sound, round + 1)
        self._memory.reports.append({name: _numbers_only(letter) for name, letter in sound.items()})
        self._record(round, sound)
        self._memory.save()

    def refit(self, round: int, lanes: Sequence[int], settle: bool) -> None:
        """Let the sites refit on the rewired graph; to ``settle``, they first start anew."""
        if settle:
            more = {"lanes": list(lanes), "round": round}
            letters = {
                name: self._letter("settle", name, None, self._heeded(name, lanes, more))
                for name in self._agreement.labels
            }
            self._take_boxes(self._ask(letters, "settled", round), again(round))
        self._take_predictions(self._relaxed(round, lanes, refit=True, anew=settle), round + 1)
        self._memory.save()

    def _take_predictions(self, answers: Mapping[str, Envelope], round: int) -> None:
        self._take_boxes(answers, round)
        self._memory.heard.update(dict.fromkeys(answers, round))

    def _heeded(self, name: str, lanes: Sequence[int], more: dict[str, Any]) -> dict[str, Any]:
        """Add the neighbours that a site heeds, where a wiring decides that."""
        if self._lanes[0].wiring is None:
            return more
        return {**more, "heeded": {str(n): self._lanes[n].heeded(name) for n in lanes}}

    def _relaxed(
        self,
        round: int,
        lanes: Sequence[int],
        *,
        refit: bool,
        look: bool = False,
        anew: bool = False,
    ) -> dict[str, Envelope]:
        """Return the sites' sound answers to the predictions of a round."""
        hub = self._hub
        silent = [
            name
            for name, heard in self._memory.heard.items()
            if round - heard > hub.settings.staleness
        ]
        more = {"lanes": list(lanes), "refit": refit, "silent": silent, "round": round}
        more |= {"look": look, "anew": anew}
        letters = {
            name: self._letter(
                "relax", name, again(round) if anew else round, self._heeded(name, lanes, more)
            )
            for name in self._agreement.labels
        }
        answers = self._ask(letters, "relaxed", round)
        sound = {}
        for name, letter in answers.items():
            try:
                self._check_report(letter, name, lanes)
            except Refused as error:
                hub.note(f"site {name!r}, round {round}: its report is refused: {error}")
            else:
                sound[name] = letter
        return sound

    def _welcome(self, back: Mapping[str, Hello]) -> None:
        """Readmit sites that came back at another address, if they know this run."""
        for name, hello in back.items():
            if hello.nonce != self._memory.hellos[name]["nonce"]:
                self._hub.note(
                    f"site {name!r} is back without the state of this run and stays out of it"
                )
                del self._hub.addresses[name]

    def finish(self, federated: Federated) -> None:
        """Tell every site which round is kept; it saves its model and reports its errors."""
        from fedrelax.federation.hub import own_history

        letters = {}
        for name in self._agreement.labels:
            more = {
                "lane": federated.number,
                "alpha": federated.alpha,
                "round": federated.outcome.n_rounds,
                "alone": name in federated.alone,
                "reason": federated.outcome.reason,
                "history": own_history(federated, name),
            }
            letters[name] = Envelope("finish", {"run": self._memory.run, **more})
        for name, letter in self._ask(letters, "finished").items():
            try:
                self.reports[name] = _errors(letter)
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

    def _check_report(self, letter: Envelope, name: str, lanes: Sequence[int]) -> None:
        if letter.head.get("lanes") != list(lanes):
            raise Refused("it covers other lanes than those asked for")
        self._measures(letter, name)
        self._looks(letter, name)
        refused = letter.value("refused", dict)
        for sender, reason in refused.items():
            self._hub.note(f"site {sender!r}: site {name!r} refused what came from it: {reason}")

    def _measures(self, letter: Envelope, name: str) -> dict[int, SiteMeasure]:
        near = list(self._agreement.hellos[name].neighbours)
        return read_numbers(letter, letter.value("lanes", list), near)

    def _looks(self, letter: Envelope, name: str) -> Looks:
        near = list(self._agreement.hellos[name].neighbours)
        return read_looks(letter, letter.value("lanes", list), near)

    def _record(self, round: int, letters: Mapping[str, Envelope]) -> None:
        """Hand the reports of a round to their lanes."""
        found: dict[int, dict[str, SiteMeasure]] = {}
        for name, letter in letters.items():
            for lane, measure in self._measures(letter, name).items():
                found.setdefault(lane, {})[name] = measure
            for lane, fits in self._looks(letter, name).items():
                self._lanes[lane].looks.setdefault(round, {})[name] = fits
        for lane, reports in found.items():
            if len(self._lanes[lane].recorded) == round:
                self._lanes[lane].record(reports)

    def _note_missing(self, round: int, sound: Mapping[str, Envelope]) -> None:
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


def _errors(letter: Envelope) -> dict[str, Any]:
    """Return the errors that a site reports at the end: sums over its test rows."""
    rows, errors = letter.value("test_rows", int), letter.value("errors", dict)
    found = {way: errors.get(way) for way in ("alone", "together")}
    if rows < 0 or (rows and not all(_is_sum(value) for value in found.values())):
        raise Refused("its errors are not sums over its test rows")
    return {"test_rows": rows, "errors": found}


def _is_sum(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value >= 0


def _numbers_only(letter: Envelope) -> Envelope:
    """Return a report without its boxes."""
    parts = {name: data for name, data in letter.parts.items() if not name.startswith("to ")}
    return Envelope(letter.kind, letter.head, parts)
