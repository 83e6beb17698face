"""A site's part in boosted differences, which run beside and after partial pooling.

Chains from a level need nothing but the public rows and begin in the second round; those from linear models
begin when these are known. The linear models of folds are pooled, side by side with those of all rows, in
the last rounds of partial pooling, with the strengths that had been learned by then. At the end each site
says how well every way did on the rows that it held out, so that all know the same and choose the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fedrelax.federation.table import held_out
from fedrelax.models import LocalModel, adapt
from fedrelax.pooling.boosting import (
    LEVEL,
    LINEAR,
    ROUNDS,
    WAYS,
    BoostingChoice,
    Chain,
    Ground,
    NodeRows,
    decide,
    sampled,
    tally,
)
from fedrelax.pooling.exchange import RESTING
from fedrelax.pooling.network import predictions
from fedrelax.pooling.search import ALONE, MOST_CANDIDATES, ONE, Message
from fedrelax.splits import deal_own
from fedrelax.typing import FloatArray

if TYPE_CHECKING:
    from fedrelax.federation.pooled import PooledSite

STARTS = tuple(ROUNDS)
FIRST_CHAINS = 2
"""The round of the first answers of chains from a level: what that is shows after the first."""
BOOSTING_ROUNDS = ROUNDS[LINEAR] + 1
"""Rounds after those of partial pooling: chains from linear models, then how well all ways did."""


@dataclass
class Said:
    """What a site says in a round, by lane: of candidates, answers of chains, and numbers of folds."""

    candidates: dict[int, Message] = field(default_factory=dict)
    answers: dict[int, FloatArray] = field(default_factory=dict)
    numbers: dict[int, FloatArray] = field(default_factory=dict)

    def of_candidates(self, group: int) -> dict[int, Message]:
        """Return what it says of the candidates of all rows (group 0), or of fold ``group - 1``."""
        first = group * MOST_CANDIDATES
        return {
            k - first: line
            for k, line in self.candidates.items()
            if first <= k < first + MOST_CANDIDATES
        }


class BoostedSite:
    """What a site says, hears and knows of boosting; ``state`` is all that has to be kept."""

    def __init__(self, pooled: PooledSite, state: dict[str, Any]) -> None:
        self.pooled, plan = pooled, pooled.sites.plan
        self.folds, self.names, self.task = plan.boosting, pooled.names, pooled.task
        nodes = sampled(len(self.names), plan.settings.random_state or 0)
        self.sampled = [self.names[i] for i in nodes]
        self.X, self.y = pooled.arranged
        self.dealt = deal_own(len(self.X), plan.folds, plan.seed)
        self.means: dict[int, list[FloatArray]] = state.get("means", {})
        """By lane, what all sites said together in each round of a chain."""
        self.tallies = np.array(state.get("tallies", np.zeros((len(WAYS), 2))))
        self.count = int(state.get("count", 0))
        self.searches = {
            fold: self._search(fold, learned) for fold, learned in state.get("folds", {}).items()
        }
        self._chains: dict[int, Chain] = {}
        self._losses: dict[int, list[list[FloatArray]]] = {}

    @property
    def state(self) -> dict[str, Any]:
        """What the rounds so far have changed."""
        folds = {fold: search.state for fold, search in self.searches.items()}
        names = ("means", "tallies", "count")
        return {"folds": folds, **{name: getattr(self, name) for name in names}}

    # The rounds

    def _lanes(self, round: int) -> list[int]:
        """Return the lanes of the chains that answer in a round: those of folds, then those of all rows."""
        last = self.pooled.rounds
        starts = []
        if FIRST_CHAINS <= round < FIRST_CHAINS + ROUNDS[LEVEL]:
            starts.append(STARTS.index(LEVEL))
        if last < round <= last + ROUNDS[LINEAR]:
            starts.append(STARTS.index(LINEAR))
        return [fold * len(STARTS) + start for fold in range(self.folds + 1) for start in starts]

    def _pools_folds(self, round: int) -> bool:
        last = self.pooled.rounds
        return last - RESTING < round <= last

    def say(self, round: int) -> Said:
        """Return what the site says in a round."""
        said = Said()
        if self._pools_folds(round):
            for fold, search in self.searches.items():
                first = (fold + 1) * MOST_CANDIDATES
                lines = search.messages(search.said())
                said.candidates |= {first + k: line for k, line in lines.items()}
        for lane in self._lanes(round):
            if self._takes_part(lane):
                said.answers[lane] = self._chain(lane).answers()[0]
        if round == self.pooled.rounds + BOOSTING_ROUNDS and self._is_sampled:
            said.numbers = {fold: self._numbers(fold) for fold in range(self.folds)}
        return said

    def hear(self, round: int, said: Mapping[str, Said]) -> None:
        """Take what all sites said in a round; those that said nothing take no part in it."""
        if self._pools_folds(round):
            for fold, search in self.searches.items():
                search.learn({name: one.of_candidates(fold + 1) for name, one in said.items()})
        for lane in self._lanes(round):
            names = self.names if lane // len(STARTS) == self.folds else self.sampled
            lines = (said[name].answers for name in names if name in said)
            present = [answers[lane] for answers in lines if lane in answers]
            nothing = np.zeros((self.ground.level.size, len(self.ground.public)))
            mean = np.mean(present, axis=0) if present else nothing
            if self._takes_part(lane):
                self._chain(lane).hear(mean)
                self._note(lane)
            self.means.setdefault(lane, []).append(mean)
        for name in (name for name in self.sampled if name in said):
            for numbers in said[name].numbers.values():
                self.tallies += numbers[1:].reshape(-1, 2)
                self.count += int(numbers[0])
        if round == self.pooled.rounds - RESTING:
            learned = self.pooled.search.learned
            self.searches = {fold: self._search(fold, learned) for fold in range(self.folds)}

    # Folds

    @property
    def _is_sampled(self) -> bool:
        return self.pooled.sites.site.name in self.sampled

    def _search(self, fold: int, learned: Any) -> Any:
        """Return the candidates without the rows of a fold, which go on from what has been learned."""
        plan = self.pooled.sites.plan
        rows = {name: plan.rows[name] for name in self.names}
        left = np.array(list(rows.values())) - held_out(rows, plan.folds, fold)
        design, own = replace(self.pooled.design, rows=left), self.dealt != fold
        return self.pooled.searching(design, learned, self.X[own], self.y[own])

    def _linear(self, fold: int) -> Any:
        """Return the site's linear model that has not seen the rows of a fold."""
        search, way = self.searches[fold], self.pooled.search.best.words
        shares = search.way(way) if way in (ALONE, ONE) else search.shares
        return self.pooled.estimator(search.average(search.said(), shares))

    def _numbers(self, fold: int) -> FloatArray:
        """Return how many rows of a fold the site held out, and a tally of every way."""
        first = fold * len(STARTS)
        for start in range(len(STARTS)):
            self._chain(first + start)
        by_start = {start: self._losses[first + k] for k, start in enumerate(STARTS)}
        linear = by_start[LINEAR][0][False]
        tallies = [tally(by_start[start][rounds][own], linear) for start, rounds, own in WAYS]
        return np.concatenate([[len(linear)], *tallies])

    # Chains

    def _takes_part(self, lane: int) -> bool:
        return self._is_sampled or lane // len(STARTS) == self.folds

    @cached_property
    def ground(self) -> Ground:
        """What all sites know before they boost."""
        pooled, plan = self.pooled, self.pooled.sites.plan
        answers = predictions(self.task, pooled.design.answers @ pooled.state["first"].T)
        return Ground.of(self.task, pooled.design.public, plan.level, plan.size, answers)

    def _chain(self, lane: int) -> Chain:
        """Return a chain as far as the rounds have come."""
        if lane in self._chains:
            return self._chains[lane]
        fold, start = lane // len(STARTS), STARTS[lane % len(STARTS)]
        held = self.dealt == fold
        whole = fold == self.folds
        parts = [
            NodeRows(self.X[rows], self.y[rows], np.zeros(rows.sum(), int), 1, self.task)
            for rows in ([np.ones_like(held)] if whole else [~held, held])
        ]
        first = None
        if start == LINEAR:
            first = self.pooled.linear if whole else self._linear(fold)
        chain = Chain(self.ground, start, self.ground.firsts(start, [first]), *parts)
        self._chains[lane], self._losses[lane] = chain, []
        self._note(lane)
        for mean in self.means.get(lane, []):
            chain.hear(mean)
            self._note(lane)
        return chain

    def _note(self, lane: int) -> None:
        """Fit the difference from what a chain has so far, and note the losses on rows held out."""
        chain = self._chains[lane]
        if lane // len(STARTS) == self.folds:
            _ = chain.differences
        else:
            self._losses[lane].append([chain.held_out(own) for own in (False, True)])

    # What comes out

    @property
    def choice(self) -> BoostingChoice | None:
        """What all sites choose in the end; None where linear models do as well, and before."""
        return decide(self.tallies, self.count)

    @property
    def model(self) -> LocalModel:
        """The site's model, once the rounds have ended."""
        choice = self.choice
        if choice is None:
            return adapt(self.pooled.linear, self.task)
        chain = self._chain(self.folds * len(STARTS) + STARTS.index(choice.start))
        return adapt(chain.models(choice.rounds, choice.own)[0], self.task)
