"""The hub's side of a run: greet, agree, run rounds, choose, end. It never sees a row.

With ``alpha="auto"`` all candidates and folds run side by side, in the same letters. Every candidate also
runs on all rows, so that the chosen run is already there: the search takes no more rounds than a single
run. The rule is that of ``selection.search.decide``; it needs sums of losses on rows that the sites hold
out, which they report with every round anyway.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError, listing
from fedrelax.federation.agreement import Agreement, SiteManifest, agree
from fedrelax.federation.lanes import CandidateRun
from fedrelax.federation.letters import Finished, LaneSpec, Plan
from fedrelax.federation.pooled import pooling_plan
from fedrelax.federation.protocol import HubProtocol
from fedrelax.federation.settings import plain_method
from fedrelax.federation.table import held_out
from fedrelax.graph import Graph
from fedrelax.public import NODE_ROWS
from fedrelax.runtime import Callback, Loop, Outcome, Stopping
from fedrelax.runtime.site import seeds_of
from fedrelax.selection import Candidate, Choice
from fedrelax.selection.candidates import alphas_for, check_alpha
from fedrelax.selection.losses import Losses
from fedrelax.selection.search import PATIENCE, TRIES, decide
from fedrelax.typing import Label
from fedrelax.wiring import Wiring

PAUSE = 0.5
"""Seconds between two looks for sites that have yet to join."""

log = logging.getLogger("fedrelax.federation")


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


class Hub(HubProtocol):
    """Drives a run over sites that a transport reaches."""

    def run(self, callbacks: Sequence[Callback] = ()) -> Federated:
        """Run the rounds and return how they ended."""
        if self.folder is not None and not self.resumed:
            self.folder.begin()
        log.info("waiting for %s", listing(self.settings.sites))
        met = self._meet()
        self.hellos = self.hellos or met  # if resumed, what the sites said when the run began
        agreement = agree(self.hellos, self.settings.sites, self.settings.schema)
        self.hellos = dict(agreement.hellos)
        for text in agreement.notes:
            self.note(text)
        method, wiring = self.settings.method, self.settings.wiring
        rows = {name: hello.rows for name, hello in self.hellos.items()}
        pooling = pooling_plan(agreement, self.settings)
        if pooling is None:
            public = {name: one.public_rows or NODE_ROWS for name, one in self.hellos.items()}
            specs = self._specs(agreement.graph, rows)
        else:
            public, method = pooling.pop("public"), pooling.pop("method")
            self.settings = replace(self.settings, method=method)
            specs = [LaneSpec(1.0, None)]  # what the sites learn takes its place
        symmetric = method.objective == "gtvmin"
        self.lanes = lanes = [
            CandidateRun(one, agreement.graph, symmetric, wiring) for one in specs
        ]
        lanes[0].may_rest = pooling is None  # sites that rest may yet boost differences
        if self.resumed:
            self.go_on()
        else:
            self.begin(self._plans(agreement, public, pooling or {}))
        outcomes, reached = self._rounds(wiring, callbacks)
        choice, number, lane, outcome = None, 0, lanes[0], outcomes[0]
        if len(lanes) > 1:  # choose, and replay the chosen run up to its end
            choice, number = self._choose(outcomes, reached, rows)
            lane = lanes[number].with_alpha(choice.alpha)
            outcome = lane.replay(Stopping(choice.rounds, self.settings.tol), callbacks)
        elif pooling is not None:
            lane = lane.with_alpha(self.alpha)
            outcome = replace(lane.replay(Stopping(outcome.n_rounds)), reason=self.words)
        head = {"lane": number, "alpha": lane.spec.alpha, "round": outcome.n_rounds}
        reports = self.finish(
            {**head, "reason": outcome.reason}, () if choice is None else choice.alone
        )
        log.info("finished: %s", outcome.reason)
        if self.folder is not None:
            self.folder.begin()
        largest, notes = self.largest_box, tuple(self.notes)
        return Federated(
            agreement, outcome, lane, choice, self.missed, largest, reports, public, notes
        )

    def _meet(self) -> dict[str, SiteManifest]:
        """Greet whoever can be reached until all sites have joined; each name has one address.

        A run that was stopped goes on without sites that do not come back.
        """
        hellos: dict[str, SiteManifest] = {}
        end = time.monotonic() + self.settings.join
        while True:
            hellos |= self.greet(hellos)
            missing = [name for name in self.settings.sites if name not in hellos]
            if not missing or (self.resumed and time.monotonic() > end):
                return hellos
            if time.monotonic() > end:
                raise FedRelaxError(
                    f"missing after {self.settings.join:g} seconds: {listing(missing)}; start "
                    "them, or leave them out of sites"
                )
            time.sleep(PAUSE)

    def _plans(
        self, agreement: Agreement, public: Mapping[str, int], more: Mapping[str, Any]
    ) -> dict[str, Plan]:
        """Return each site's plan; ``more`` is what only some runs need."""
        settings, hellos, classes = self.settings, self.hellos, agreement.task.classes
        method = replace(settings.method, rounds=settings.rounds)
        seeds = seeds_of(method.random_state, len(hellos)).tolist()
        return {
            name: Plan(
                run=self.id,
                method=plain_method(method),
                lanes=tuple(lane.spec for lane in self.lanes),
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
        self, wiring: Wiring | None, callbacks: Sequence[Callback]
    ) -> tuple[list[Outcome], int]:
        """Run all lanes side by side: once each has shared, one exchange serves them all.

        Return how they ended, and the most rounds that they could have run: fewer if a callback ended
        the search.
        """
        lanes, rounds, many = self.lanes, self.settings.rounds, len(self.lanes) > 1

        def stopping(lane: CandidateRun, rounds: int) -> Stopping:
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
            if asked and round == len(self.reports):  # else a run that was stopped is replayed
                stage = None if wiring is None else wiring.due(round - 1)
                if wiring is not None and stage is not None:
                    final = stage == wiring.stages - 1  # models that drift then start anew
                    self.refit(round - 1, asked, final and not self.settles)
                rewired = wiring is not None and wiring.due(round) is not None
                self.exchange(round, asked, rewired)
            done = max(lane.round for lane in lanes)
            if many and any([call.choosing(done, rounds) for call in callbacks]):
                return [lane.replay(stopping(lane, done)) for lane in lanes], done
        return [outcomes[number] for number in range(len(lanes))], rounds

    # Choosing alpha

    def _specs(self, graph: Graph, rows: Mapping[str, int]) -> list[LaneSpec]:
        """Return the lanes of a run: one for a given alpha, else one per candidate and fold.

        After these comes one lane on all rows per candidate. ``rows`` gives every site's number of
        training rows.
        """
        alpha, folds = self.settings.alpha, self.settings.folds
        check_alpha(alpha)
        if isinstance(alpha, int | float | np.number):
            return [LaneSpec(float(alpha), None)]
        alphas = alphas_for(graph, alpha, update=self.settings.method.update)
        used = [fold for fold in range(min(folds, TRIES)) if held_out(rows, folds, fold).any()]
        if not used:
            raise FedRelaxError(
                "every site has a single row, so none can be held out to choose alpha; give a number for "
                "alpha"
            )
        return [LaneSpec(strength, fold) for fold in (*used, None) for strength in alphas]

    def _choose(
        self, outcomes: Sequence[Outcome], rounds: int, rows: Mapping[str, int]
    ) -> tuple[Choice, int]:
        """Return the choice among the candidates, and the number of its lane on all rows."""
        specs, wiring = [lane.spec for lane in self.lanes], self.lanes[0].wiring
        used = [
            spec.fold for spec in specs if spec.fold is not None and spec.alpha == specs[0].alpha
        ]
        counts = np.array([held_out(rows, self.settings.folds, fold) for fold in used])
        losses, candidates = Losses(list(rows), counts, rounds), []
        for alpha in dict.fromkeys(spec.alpha for spec in specs):
            tried = zip(specs, outcomes, strict=True)
            losses.append(end for one, end in tried if one.alpha == alpha and one.fold is not None)
            candidates.append(Candidate(alpha, wiring, level=self.settings.method.level))
        choice = decide(candidates, losses, early=True)
        chosen = [spec.fold is None and spec.alpha == choice.alpha for spec in specs]
        return choice, chosen.index(True) if any(chosen) else specs.index(
            LaneSpec(specs[0].alpha, None)
        )
