"""The default: linear models by partial pooling, and what may do better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedrelax.engines import UnsupportedNetworkError
from fedrelax.models import adapt
from fedrelax.network import Network
from fedrelax.network.stacked import StackedNetwork
from fedrelax.pooling.boosting import (
    LEVEL,
    LINEAR,
    SECONDS,
    WAYS,
    BoostingChoice,
    Chain,
    Ground,
    NodeRows,
    decide,
    folds_for,
    held_out_by,
    numbers_in_search,
    run,
    sampled,
    tally,
)
from fedrelax.pooling.network import ONE_MODEL, TOGETHER, PooledNetwork, find, rows_of
from fedrelax.pooling.search import ALONE, ONE
from fedrelax.public import allow_boosting
from fedrelax.runtime import Callback, Keeper
from fedrelax.selection.beside import compare_beside
from fedrelax.selection.budget import Budget, Overtime
from fedrelax.selection.candidates import Candidate, Wirings, unit, wirings_for
from fedrelax.selection.choice import Choice
from fedrelax.selection.losses import Losses, Recorded
from fedrelax.selection.trials import Enough, Tell, heard
from fedrelax.selection.trials import tried as tried_once
from fedrelax.solvers import FedRelax, PartialPooling, Result, Solver
from fedrelax.threads import one_thread
from fedrelax.typing import AnyArray, FloatArray
from fedrelax.wiring import Wiring

Fold = tuple[AnyArray, AnyArray]
"""Masks of the rows to train on and of those to hold out."""
STRENGTHS = (1.0, 30.0)
"""alpha times the mean degree, at which a wiring is tried against what was found."""

PUBLIC_ROWS = 200
"""Public rows on which nodes compare linear models where a wiring is tried."""
BOOSTING_SHARE = 1 / 3
"""The share of the time for the whole search that boosting may take on folds."""
MANY_CLASSES = 30
"""With more classes, other models take too long."""
MOST_NODES = 60
"""With more nodes, wirings of classifiers take too long and are not tried."""


@dataclass(frozen=True)
class Default:
    """What was chosen for a network, and the solver: it has the models, or trains a network of others."""

    choice: Choice
    pooled: PooledNetwork
    solver: Solver
    quick: bool = False
    seed: int = 0
    boosting: BoostingChoice | None = None
    """How boosted differences are added to the linear models, if they are."""
    boosted: tuple[Any, ...] = ()
    """The nodes' models with these differences."""

    @property
    def is_one_model(self) -> bool:
        """Whether the same linear model was chosen for all nodes."""
        plain = isinstance(self.solver, PartialPooling) and self.boosting is None
        return plain and self.pooled.is_one_model

    def but(self, note: str, left_out: str = "") -> Default:
        """Return what was found, with a further part of the reason, and with what was left out."""
        return replace(self, choice=self.choice.but(note, left_out))

    def network(self, network: Network) -> Network:
        """Return the network for the solver: as it is, or with the linear model found."""
        if isinstance(self.solver, PartialPooling):
            return network
        return self.linear_network(network)

    def linear_network(self, network: Network) -> Network:
        """Return a network of linear models with the penalty found, and the public rows that these need."""
        model = self.pooled.model(float(network.own_rows.counts.mean()))
        return network.with_models(model).with_public(network.public.thinned(PUBLIC_ROWS))

    def solve(self, network: Network, callbacks: Sequence[Callback] = ()) -> Result:
        """Train the network."""
        result = self.solver.solve(self.network(network), callbacks)
        if self.boosting is not None and self.boosting.rounds:
            why = "as many rounds of boosting as were best on held-out rows"
            result = replace(result, n_rounds=self.boosting.rounds, reason=why, engine="boosting")
        models = dict(zip(network.labels, self.boosted, strict=False))
        return result.with_models(
            {label: adapt(model, network.task) for label, model in models.items()}
        )

    def again_linear(self, network: Network, anew: bool = False) -> PooledNetwork:
        """Pool a network with other rows in the same way, with the strengths that were learned, or anew."""
        before = self.pooled
        learned = before.best_learned if anew else before.learned
        pooled = find(network, curves=not self.quick, seed=self.seed, learned=learned, anew=anew)
        if before.way in (ALONE, ONE):
            pooled = pooled.instead(before.way)
        return replace(pooled, left_out=before.left_out)

    def again(self, network: Network) -> Default:
        """Return the same choice for a network with other rows."""
        pooled = self.again_linear(network, anew=True).saying(self.pooled.numbers)
        if self.boosting is not None:
            ground = self.ground(network)
            pooled = pooled.saying(self.boosting.rounds * ground.level.size * len(ground.public))
        solver = PartialPooling(pooled) if isinstance(self.solver, PartialPooling) else self.solver
        return replace(self, pooled=pooled, solver=solver).with_boosting(network, self.boosting)

    def with_boosting(self, network: Network, choice: BoostingChoice | None) -> Default:
        """Add the boosted differences that were chosen, trained on all rows of a network."""
        if choice is None:
            return self
        with one_thread():  # the fits are small: threads would wait for each other
            chain = run(self._chain(network, choice.start, self.pooled.together), choice.rounds)
            models = chain.models(choice.rounds, choice.own)
        return replace(self, boosting=choice, boosted=tuple(models))

    def _chain(self, network: Network, start: str, linear: Sequence[Any]) -> Chain:
        """Return boosted differences of nodes with these linear models, or of one with all rows."""
        (X, _, node), y, ground = rows_of(network), network.own_rows.y, self.ground(network)
        if len(linear) == 1:
            node = np.zeros_like(node)
        rows = NodeRows(X, y, node, len(linear), network.task)
        return Chain(ground, start, ground.firsts(start, linear), rows)

    def ground(self, network: Network) -> Ground:
        """Return what all nodes know before they boost differences."""
        public, pooled = network.public.common, self.pooled
        assert public is not None
        one = pooled.predict(pooled.first, public, np.zeros(len(public), dtype=np.int64))
        columns = pooled.columns
        return Ground.of(network.task, public, columns.level, columns.size, one)

    def references(self, network: Network) -> tuple[list[Any], Any]:
        """Return every node's model alone and one model for all rows, of the kind that does best there."""
        alone, pooled = self.pooled.alone, self.pooled.pooled
        if self.boosting is not None:
            with one_thread():
                if self.boosting.alone < self.pooled.left_out[ALONE]:
                    alone = self._chain(network, LEVEL, alone).models(0, own=True)
                pooled = self._chain(network, LEVEL, [pooled]).models(0, own=True)[0]
        return alone, pooled


def pooled_for_penalty(network: Network, seed: int = 0) -> PooledNetwork | None:
    """Return linear models whose penalty suits a network that cannot be pooled along its graph.

    None if the rows do not allow it.
    """
    if PartialPooling.unsupported_rows(network) is not None:
        return None
    return find(network, curves=False, seed=seed)


def choose_default(
    network: Network,
    folds: Sequence[Network],
    settings: FedRelax,
    wiring: Wirings = "fixed",
    *,
    apart: bool = False,
    asked: bool = False,
    quick: bool = False,
    seed: int = 0,
    tell: Tell | None = None,
    keeper: Keeper | None = None,
    budget: Budget | None = None,
) -> Default:
    """Pool a network, and try whether something else does better than linear models.

    With ``apart``, rows of several nodes belong together, and the folds keep them together: then the
    folds judge all settings. A wiring that looks better on the first fold is tried on all. It is taken if
    it lowers the loss on held-out rows by more than one standard error of the difference, taken over
    nodes, and is better than the linear models are where each row is left out in turn; one that was
    ``asked`` for is taken if it lowers the loss at all.
    Boosted differences are tried if there are rows enough. ``quick`` skips all of that, and curves. If
    ``tell`` returns anything true, the search ends, and what was found so far is kept; the same when the
    time of ``budget`` is up.
    """
    masks = []
    if isinstance(network, StackedNetwork):
        masks = [network.masks_of(fold) for fold in folds if isinstance(fold, StackedNetwork)]
    pooled = find(network, folds if apart else (), curves=not quick, seed=seed)
    default = Default(_choice(pooled), pooled, PartialPooling(pooled), quick, seed)
    parts = _Parts(default, folds)
    if network.task.n_outputs > MANY_CLASSES:
        return default.but(f"with more than {MANY_CLASSES} classes no other models are tried")
    if quick or not folds:
        return default
    if network.task.is_classification and _is_one_class(folds):
        return default.but("no other models are tried, as all rows held out are of one class")
    dear = network.task.is_classification and len(network) > MOST_NODES
    wirings = [] if len(network) < 3 or dear else wirings_for(network, wiring)
    wired = [way for way in wirings if way is not None]
    # Other kinds train on all rows that a fold does not hold out, so folds must not drop any row.
    complete = bool(masks) and all((train | held).all() for train, held in masks)
    told = heard(tell if budget is None else budget.telling(tell))
    left = "boosted differences and wirings" if wired else "boosted differences"
    try:
        if budget is not None and budget.left < 0:
            raise Enough(f"stopped after {budget.words}")
        if complete:
            default = _boosted(default, network, parts, masks, told, budget)
            left = "wirings"
        if wired and default.boosting is None:
            default = _wired(default, parts, settings, wired, asked, told, keeper, budget)
        if complete and default.boosting is None and isinstance(default.solver, PartialPooling):
            losses = np.full(int(network.own_rows.counts.sum()), np.nan)
            for number, (_, held) in enumerate(masks):
                losses[held] = parts.losses(number)
            default = _with_advice(default, network, losses, masks)
    except Enough as enough:
        over = budget is not None and budget.left < 0
        left = f"not all {left} were tried" if over else ""
        default = default.but(f"the search was {enough}", left)
    if dear and asked:
        note = (
            f"no wiring was tried, because for classes at more than {MOST_NODES} nodes that takes too "
            "long; with a model of your choice, wirings are tried"
        )
        default = default.but(note)
    return replace(
        default, pooled=default.pooled.saying(sum(one.numbers for one in parts.made.values()))
    )


class _Parts:
    """The folds, and the linear models that were trained on the rest of each, once these are needed."""

    def __init__(self, default: Default, folds: Sequence[Network]) -> None:
        self.folds, self._default = folds, default
        self.made: dict[int, PooledNetwork] = {}

    def pooled(self, number: int) -> PooledNetwork:
        """Return the models of one fold."""
        if number not in self.made:
            self.made[number] = self._default.again_linear(self.folds[number])
        return self.made[number]

    def losses(self, number: int) -> FloatArray:
        """Return the losses of a fold's validation rows."""
        pooled, held = self.pooled(number), self.folds[number].validation_rows
        assert held is not None
        where = np.repeat(np.arange(len(held.counts)), held.counts)
        X = np.asarray(held.X, dtype=float)
        return pooled.losses(pooled.rounds[-1], X, held.y, where)

    def node_losses(self, number: int) -> FloatArray:
        """Return every node's mean loss on a fold's validation rows."""
        held = self.folds[number].validation_rows
        assert held is not None
        where = np.repeat(np.arange(len(held.counts)), held.counts)
        sums = np.bincount(where, self.losses(number), minlength=len(held.counts))
        return np.asarray(sums / np.where(held.counts > 0, held.counts, np.nan))


def _is_one_class(folds: Sequence[Network]) -> bool:
    """Tell whether all rows held out are of one class, so that being certain of it would look best."""
    held = [fold.validation_rows for fold in folds]
    return len(np.unique(np.concatenate([rows.y for rows in held if rows is not None]))) < 2


def _boosted(
    default: Default,
    network: Network,
    parts: _Parts,
    masks: Sequence[Fold],
    tell: Tell | None,
    budget: Budget | None,
) -> Default:
    """Add boosted differences, if folds show that they help."""
    (X, _, node), y, n = rows_of(network), network.own_rows.y, len(network)
    counts, scores = network.own_rows.counts, max(network.task.n_outputs, 1)
    seconds = SECONDS if budget is None else max(BOOSTING_SHARE * budget.seconds, SECONDS)
    folds = folds_for(counts, scores if scores > 2 else 1, len(parts.folds), seconds)
    alike = network.public.common is not None and (network.graph.is_uniform or n == 1)
    if not alike or not allow_boosting(counts):
        return default
    if not folds:
        left = "boosted differences were not tried"
        return default.but("boosted differences would have taken too long", left)
    ground, nodes = default.ground(network), sampled(n, default.seed)
    place = np.full(n, -1)
    place[nodes] = np.arange(len(nodes))
    losses, tallies = np.full((len(WAYS), len(X)), np.nan), np.zeros((len(WAYS), 2))
    for fold in range(folds):
        train, held = (mask & (place[node] >= 0) for mask in masks[fold])
        linear, chains = parts.pooled(fold).together, {}
        for start in (LINEAR, LEVEL):
            rows = [
                NodeRows(X[part], y[part], place[node[part]], len(nodes), network.task)
                for part in (train, held)
            ]
            firsts = ground.firsts(start, [linear[i] for i in nodes])
            chains[start] = Chain(ground, start, firsts, *rows)
        with one_thread():
            losses[:, held] = found = held_out_by(chains)
        tallies += [tally(line, found[0]) for line in found]
        if tell is not None:
            tell(fold + 1, folds)
    answers = ground.level.size * len(ground.public)
    default = replace(default, pooled=default.pooled.saying(numbers_in_search(folds, answers)))
    chosen = decide(tallies, int(np.isfinite(losses[0]).sum()))
    if chosen is None:
        return default
    default = _with_advice(default, network, losses[chosen.way], masks)
    alpha = chosen.alpha(default.pooled.alpha, n)
    choice = replace(default.choice, chosen=Candidate(alpha), reason=chosen.reason)
    return replace(default, choice=choice).with_boosting(network, chosen)


def _with_advice(
    default: Default, network: Network, losses: FloatArray, masks: Sequence[Fold]
) -> Default:
    """Say what would do better with all rows in one place, given the losses of held-out rows."""
    (X, _, node), y, held = rows_of(network), network.own_rows.y, [mask for _, mask in masks]
    beside = compare_beside(X, y, node, len(network), network.task, losses, held, seed=default.seed)
    better = None if beside is None else beside.sentence
    return replace(default, choice=replace(default.choice, better=better))


def _choice(pooled: PooledNetwork) -> Choice:
    """Return a choice among nodes alone, partial pooling and one model for all, with held-out losses."""
    alone = pooled.left_out[ALONE]
    lines = {0.0: alone, pooled.alpha: pooled.left_out[TOGETHER]}
    lines.setdefault(ONE_MODEL, pooled.left_out[ONE])
    return Choice(
        chosen=Candidate(pooled.alpha, level=pooled.level),
        rounds=len(pooled.rounds),
        candidates=tuple(
            Candidate(alpha, level=pooled.level if alpha == pooled.alpha else 1.0)
            for alpha in lines
        ),
        losses=np.array([[alone, value] for value in lines.values()]),
        reason=(
            f"{pooled.words}: the loss on held-out rows is {pooled.left_out[TOGETHER]:.4g}, and "
            f"{alone:.4g} for each node alone"
        ),
    )


def _wired(
    default: Default,
    parts: _Parts,
    settings: FedRelax,
    wirings: Sequence[Wiring],
    asked: bool,
    tell: Tell | None,
    keeper: Keeper | None,
    budget: Budget | None,
) -> Default:
    pooled, folds = default.pooled, parts.folds
    copies = [default.linear_network(fold) for fold in folds]
    engine = "softmax" if folds[0].task.is_classification else "linear"
    trial = replace(settings, level=pooled.level, engine=engine)
    rounds = trial.rounds_for(copies[0])
    tried = [
        Candidate(strength * unit(copies[0].graph), way.paced(rounds), pooled.level)
        for way in wirings
        for strength in STRENGTHS
    ]
    own = [parts.node_losses(number) for number in range(len(folds))]
    losses = Losses.of(folds, rounds)
    losses.append_still(own)
    done = 0

    def run(candidate: Candidate, copy: Network) -> Recorded:
        nonlocal done
        cut = [] if budget is None else [Overtime(budget)]
        result = tried_once(candidate.settings(trial, rounds), copy, done, keeper, cut)
        done += 1
        if tell is not None:
            tell(done, len(tried) * len(copies))
        return result

    try:
        firsts = [run(candidate, copies[0]) for candidate in tried]
        promising = Losses.of(folds[:1], rounds)
        promising.append_still(own[:1])
        for first in firsts:
            promising.append([first])
        if not asked and promising.means[1:, rounds].min() >= promising.means[0, rounds]:
            return default
        for candidate, first in zip(tried, firsts, strict=True):
            losses.append([first, *(run(candidate, copy) for copy in copies[1:])])
    except UnsupportedNetworkError:
        return default
    means, last = losses.means, (0, rounds)
    place = (1 + int(np.argmin(means[1:, rounds])), rounds)
    before = default.choice
    padded = np.column_stack([before.losses[:, 0], *[before.losses[:, 1]] * rounds])
    # The lines of the first choice are leave-one-out losses, the others are losses on folds.
    choice = replace(
        before,
        candidates=(*before.candidates, *tried),
        losses=np.vstack([padded, means[1:]]),
    )
    better = means[last] - means[place] > (0.0 if asked else losses.standard_error(place, last))
    if not (better and (asked or means[place] < pooled.left_out[TOGETHER])):
        return replace(default, choice=choice)
    chosen = tried[place[0] - 1]
    choice = replace(
        choice,
        chosen=chosen,
        rounds=rounds,
        reason=(
            f"neighbours that agree: the loss on held-out rows is {means[place]:.4g}, and "
            f"{means[last]:.4g} without a wiring"
        ),
    )
    # The engine of the trials may not suit the rows of the final training.
    solver = choice.settings(replace(trial, engine=settings.engine))
    return replace(default, choice=choice, solver=solver)
