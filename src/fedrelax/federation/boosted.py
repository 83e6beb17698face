"""A site's rounds of boosted differences, once partial pooling has ended.

First all sites pool linear models without the rows of each fold, side by side; then the chains of
``pooling.boosting`` run side by side, on the rows of each fold and on all rows. A box holds, for every
lane, answers on everybody's public rows and the sums of losses on rows that the site holds out, so that
all sites know the same and choose the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fedrelax.federation.table import held_out
from fedrelax.models import LocalModel, adapt
from fedrelax.pooling.boosting import (
    LINEAR,
    NUMBERS,
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
from fedrelax.pooling.search import ALONE, MOST_CANDIDATES, ONE
from fedrelax.splits import deal_own
from fedrelax.typing import FloatArray

if TYPE_CHECKING:
    from fedrelax.federation.pooled import PooledSite

STARTS = tuple(ROUNDS)
BOOSTING_ROUNDS = RESTING + max(ROUNDS.values()) + 1
"""Rounds after those of partial pooling: for the folds' linear models, then for the chains."""

Lines = Mapping[int, tuple[FloatArray, FloatArray]]
"""What a site says in a round: by lane, answers and numbers."""


class BoostedSite:
    """What a site says, hears and knows in these rounds; ``state`` is all that has to be kept."""

    def __init__(self, pooled: PooledSite, state: dict[str, Any]) -> None:
        self.pooled, plan = pooled, pooled.sites.plan
        self.folds, self.names, self.task = plan.boosting, pooled.names, pooled.task
        nodes = sampled(len(self.names), plan.settings.random_state or 0)
        self.sampled = [self.names[i] for i in nodes]
        self.X, self.y = pooled.arranged
        self.dealt = deal_own(len(self.X), plan.folds, plan.seed)
        self.round = int(state.get("round", 0))
        self.means: dict[int, list[FloatArray]] = state.get("means", {})
        """By lane, what all sites said together in each round of the chains."""
        self.tallies = np.array(state.get("tallies", np.zeros((len(WAYS), 2))))
        self.count = int(state.get("count", 0))
        before, rows = state.get("folds", {}), {name: plan.rows[name] for name in self.names}
        self.searches = {}
        for fold in range(self.folds):
            left = np.array(list(rows.values())) - held_out(rows, plan.folds, fold)
            design, own = replace(pooled.design, rows=left), self.dealt != fold
            learned = before.get(fold, pooled.search.learned)
            self.searches[fold] = pooled.searching(design, learned, self.X[own], self.y[own])

    @property
    def state(self) -> dict[str, Any]:
        """What the rounds so far have changed."""
        folds = {fold: search.state for fold, search in self.searches.items()}
        names = ("round", "means", "tallies", "count")
        return {"folds": folds, **{name: getattr(self, name) for name in names}}

    @property
    def chained(self) -> bool:
        """Whether the next round is one of the chains."""
        return self.round >= RESTING

    # The folds' linear models

    def _linear(self, fold: int) -> Any:
        """Return the site's linear model that has not seen the rows of a fold."""
        search, way = self.searches[fold], self.pooled.search.best.words
        shares = search.way(way) if way in (ALONE, ONE) else search.shares
        return self.pooled.estimator(search.average(search.said(), shares))

    # The chains

    @cached_property
    def ground(self) -> Ground:
        """What all sites know before they boost."""
        pooled, plan = self.pooled, self.pooled.sites.plan
        one = pooled.search.average(pooled.search.said(), pooled.search.way(ONE))[0]
        answers = predictions(self.task, pooled.design.answers @ one.T)
        return Ground.of(self.task, pooled.design.public, plan.level, plan.size, answers)

    @cached_property
    def chains(self) -> dict[int, Chain]:
        """The chains by lane, as far as the rounds have come: those of folds, then those on all rows."""
        chains, self._linear_losses = {}, dict[int, FloatArray]()
        for fold in range(self.folds + 1):
            whole, name = fold == self.folds, self.pooled.sites.site.name
            if not whole and name not in self.sampled:
                continue
            first = self.pooled.linear if whole else self._linear(fold)
            held = self.dealt == fold
            for lane, start in enumerate(STARTS, fold * len(STARTS)):
                parts = [
                    NodeRows(self.X[rows], self.y[rows], np.zeros(rows.sum(), int), 1, self.task)
                    for rows in ([np.ones_like(held)] if whole else [~held, held])
                ]
                firsts = self.ground.firsts(start, [first])
                chain = chains[lane] = Chain(self.ground, start, firsts, *parts)
                if start == LINEAR and not whole:
                    self._linear_losses[fold] = chain.held_out()
                for mean in self.means.get(lane, ()):
                    if whole:
                        _ = chain.differences
                    chain.hear(mean)
        return chains

    def lines(self) -> Lines:
        """Return what the site says in the next round."""
        if not self.chained:
            return {
                fold * MOST_CANDIDATES + k: line
                for fold, search in self.searches.items()
                for k, line in search.messages(search.said()).items()
            }
        return {
            lane: self._line(lane, chain)
            for lane, chain in self.chains.items()
            if self.round - RESTING <= ROUNDS[STARTS[lane % len(STARTS)]]
        }

    def _line(self, lane: int, chain: Chain) -> tuple[FloatArray, FloatArray]:
        fold, numbers = lane // len(STARTS), np.zeros(NUMBERS)
        if fold < self.folds:
            linear = self._linear_losses[fold]
            tallies = [tally(chain.held_out(own), linear) for own in (False, True)]
            numbers = np.array([len(linear), *np.concatenate(tallies)])
        return chain.answers(), numbers[None]

    def hear(self, replies: Mapping[str, Lines]) -> None:
        """Take what all sites said in a round; those that said nothing take no part in it."""
        if not self.chained:
            most = MOST_CANDIDATES
            for fold, search in self.searches.items():
                lines = {
                    name: {k - fold * most: line for k, line in said.items() if k // most == fold}
                    for name, said in replies.items()
                }
                search.learn(lines)
        else:
            for lane in range((self.folds + 1) * len(STARTS)):
                self._hear_of(lane, replies)
        self.round += 1

    def _hear_of(self, lane: int, replies: Mapping[str, Lines]) -> None:
        step, (fold, number) = self.round - RESTING, divmod(lane, len(STARTS))
        start, whole = STARTS[number], fold == self.folds
        names = self.names if whole else self.sampled
        present = [name for name in names if lane in replies.get(name, ())]
        if not present or step > ROUNDS[start]:
            return
        if not whole:
            numbers = sum(replies[name][lane][1][0] for name in present)
            place = WAYS.index((start, step, False))
            self.tallies[place : place + 2] += np.reshape(numbers[1:], (2, 2))
            self.count += int(numbers[0]) if place == 0 else 0
        if step < ROUNDS[start]:
            answers = np.concatenate([replies[name][lane][0] for name in present])
            mean = answers.mean(axis=0)
            self.means.setdefault(lane, []).append(mean)
            if lane in self.chains:
                self.chains[lane].hear(mean)

    # What comes out

    @property
    def choice(self) -> BoostingChoice | None:
        """What all sites choose in the end; None where linear models do as well, and before."""
        return decide(self.tallies, self.count) if self.round == BOOSTING_ROUNDS else None

    @property
    def model(self) -> LocalModel:
        """The site's model, once the rounds have ended."""
        choice, whole = self.choice, self.folds * len(STARTS)
        if choice is None:
            return adapt(self.pooled.linear, self.task)
        chain = self.chains[whole + STARTS.index(choice.start)]
        return adapt(chain.models(choice.rounds, choice.own)[0], self.task)
