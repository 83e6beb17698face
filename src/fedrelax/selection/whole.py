"""The choice for a whole network: settings and models are found together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedrelax.engines import UnsupportedNetworkError
from fedrelax.engines.whole.found import ONE_MODEL, Found, find, linear_model, rows_of
from fedrelax.engines.whole.ridge_rows import Fold
from fedrelax.engines.whole.softmax import reason_for_few
from fedrelax.models import adapt
from fedrelax.network import Network
from fedrelax.network.stacked import StackedNetwork
from fedrelax.runtime import Callback, Keeper
from fedrelax.selection.beside import compare_beside
from fedrelax.selection.boosting import (
    LEAST_MEAN_ROWS,
    LEAST_ROWS,
    LINEAR,
    BoostingChoice,
    Rows,
    choose_boosting,
    seconds_for,
)
from fedrelax.selection.boosting import MOST_NODES as MOST_NODES_BOOSTED
from fedrelax.selection.budget import Budget, Overtime
from fedrelax.selection.candidates import Candidate, Wirings, unit, wirings_for
from fedrelax.selection.choice import Choice
from fedrelax.selection.losses import Losses, Recorded
from fedrelax.selection.trials import Enough, Tell, heard
from fedrelax.selection.trials import tried as tried_once
from fedrelax.solvers import FedRelax, Result, Solver, WholeNetwork
from fedrelax.wiring import Wiring

STRENGTHS = (1.0, 30.0)
"""alpha times the mean degree, at which a wiring is tried against what was found."""

SECONDS = 10.0
"""The estimated time that boosting may take on folds."""
MOST_NODES = 60
"""With more nodes, wirings of classifiers take too long and are not tried."""


@dataclass(frozen=True)
class Whole:
    """What was found for a network, and the solver: it has the models, or trains a network of others."""

    choice: Choice
    found: Found
    solver: Solver
    seed: int = 0
    boosting: BoostingChoice | None = None
    """How boosted differences are added to the linear models, if they are."""
    boosted: tuple[Any, ...] = ()
    """The nodes' models with these differences."""

    def but(self, note: str, left_out: str = "") -> Whole:
        """Return what was found, with a further part of the reason, and with what was left out."""
        return replace(self, choice=self.choice.but(note, left_out))

    def network(self, network: Network) -> Network:
        """Return the network for the solver: as it is, or with the linear model found."""
        if isinstance(self.solver, WholeNetwork):
            return network
        return network.with_models(self.found.model(_mean_rows(network)))

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

    def again(self, network: Network) -> Whole:
        """Return the same choice for a network with other rows."""
        found = self.found.again(network)
        solver = WholeNetwork(found) if isinstance(self.solver, WholeNetwork) else self.solver
        return replace(self, found=found, solver=solver).with_boosting(network, self.boosting)

    def with_boosting(self, network: Network, choice: BoostingChoice | None) -> Whole:
        """Add the boosted differences that were chosen, trained on all rows of a network."""
        if choice is None:
            return self
        rows = _boosting_rows(network)
        firsts = rows.starts(choice.start, self.found.together)
        trained = rows.train(choice.start, firsts, choice.rounds, choice.own)
        return replace(self, boosting=choice, boosted=tuple(trained.models(firsts, rows)))

    def references(self, network: Network) -> tuple[list[Any], Any]:
        """Return every node's model alone and one model for all rows, of the kind that does best there."""
        alone, pooled = self.found.alone, self.found.pooled
        if self.boosting is not None:
            rows = _boosting_rows(network)
            if self.boosting.alone < self.found.left_out["alone"]:
                alone = rows.alone()
            y, one = network.own_rows.y, np.zeros_like(rows.node)
            pooled = Rows(rows.X, y, one, 1, network.task, rows.public).alone()[0]
        return alone, pooled


def model_for(network: Network, seed: int = 0) -> Any:
    """Return a linear model with the best penalty for a network that cannot be solved as a whole.

    None if the rows do not allow it.
    """
    if WholeNetwork.unsupported_rows(network) is not None:
        return None
    return linear_model(network, seed)


def choose_whole(
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
) -> Whole:
    """Find the settings of a network, and try whether something else does better than linear models.

    With ``apart``, rows of several nodes belong together, and the folds keep them together: then the
    folds judge all settings. A wiring that looks better on the first fold is tried on all, and taken if
    it lowers the loss on held-out rows by more than one standard error of the difference, taken over
    nodes; one that was ``asked`` for is taken if it lowers the loss at all.
    Boosted differences are tried if there are rows enough. ``quick`` skips all of that, and curves. If
    ``tell`` returns anything true, the search ends, and what was found so far is kept; the same when the
    time of ``budget`` is up.
    """
    masks = []
    if isinstance(network, StackedNetwork):
        masks = [network.masks_of(fold) for fold in folds if isinstance(fold, StackedNetwork)]
    found = find(network, masks if apart else (), curves=not quick, seed=seed)
    whole = Whole(_choice(found), found, WholeNetwork(found), seed=seed)
    if network.task.is_classification:
        few = reason_for_few(network.task.n_outputs, len(network.own_rows.y))
        if few is not None:
            return whole.but(f"{few} few settings and no other models are tried")
    if quick or not folds:
        return whole
    if network.task.is_classification and _is_one_class(folds):
        return whole.but("no other models are tried, as all rows held out are of one class")
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
            whole = _boosted(whole, network, folds, masks, told)
            left = "wirings"
        if wired and whole.boosting is None:
            whole = _wired(whole, folds, settings, wired, asked, told, keeper, budget)
        if complete and whole.boosting is None and isinstance(whole.solver, WholeNetwork):
            whole = _with_advice(whole, network, folds, masks)
    except Enough as enough:
        over = budget is not None and budget.left < 0
        left = f"not all {left} were tried" if over else ""
        whole = whole.but(f"the search was {enough}", left)
    if dear and asked:
        note = (
            f"no wiring was tried, because for classes at more than {MOST_NODES} nodes that takes too "
            "long; with a model of your choice, wirings are tried"
        )
        whole = whole.but(note)
    return whole


def _is_one_class(folds: Sequence[Network]) -> bool:
    """Tell whether all rows held out are of one class, so that being certain of it would look best."""
    held = [fold.validation_rows for fold in folds]
    return len(np.unique(np.concatenate([rows.y for rows in held if rows is not None]))) < 2


def _boosted(
    whole: Whole,
    network: Network,
    folds: Sequence[Network],
    masks: Sequence[Fold],
    tell: Tell | None,
) -> Whole:
    """Add boosted differences, if folds show that they help."""
    scores = network.task.n_outputs if network.task.n_outputs > 2 else 1
    seconds = seconds_for(network.own_rows.counts, scores)
    if seconds > SECONDS or not _suits_boosting(network):
        return whole
    used = min(int(SECONDS / seconds), len(folds))
    models = [whole.found.again(fold).together for fold in folds[:used]]
    held = [mask for _, mask in masks[:used]]
    rows, y = _boosting_rows(network), network.own_rows.y
    chosen = choose_boosting(rows, y, held, models, seed=whole.seed, tell=tell)
    if chosen is None:
        return whole
    alpha = whole.found.alpha if chosen.start == LINEAR else 0.0
    if chosen.rounds and alpha == 0:  # everybody's mean is taken as it is
        alpha = 1.0 / len(network)
    choice = replace(whole.choice, chosen=Candidate(alpha), reason=chosen.reason)
    return replace(whole, choice=choice).with_boosting(network, chosen)


def _suits_boosting(network: Network) -> bool:
    """Tell whether all nodes are joined alike, are not too many, and have rows enough."""
    counts = network.own_rows.counts
    alike = network.public.common is not None and (network.graph.is_uniform or len(network) == 1)
    enough = counts.sum() >= LEAST_ROWS and counts.mean() >= LEAST_MEAN_ROWS
    return bool(alike and enough and len(network) <= MOST_NODES_BOOSTED)


def _with_advice(
    whole: Whole, network: Network, folds: Sequence[Network], masks: Sequence[Fold]
) -> Whole:
    """Say what would do better with all rows in one place."""
    found, held = whole.found, [mask for _, mask in masks]
    (X, _, node), y = rows_of(network), network.own_rows.y
    losses = np.full(len(X), np.nan)
    for fold, mask in zip(folds, held, strict=True):
        losses[mask] = found.losses(fold, means=False)
    beside = compare_beside(X, y, node, len(network), network.task, losses, held, seed=whole.seed)
    better = None if beside is None else beside.sentence
    return replace(whole, choice=replace(whole.choice, better=better))


def _boosting_rows(network: Network) -> Rows:
    X, _, node = rows_of(network)
    assert network.public.common is not None
    return Rows(X, network.own_rows.y, node, len(network), network.task, network.public.common)


def _choice(found: Found) -> Choice:
    """Return a choice among nodes alone, what was found and one model for all, with held-out losses."""
    alone = found.left_out["alone"]
    lines = {0.0: alone, found.alpha: found.left_out["together"]}
    lines.setdefault(ONE_MODEL, found.left_out["one model"])
    return Choice(
        chosen=Candidate(found.alpha, level=found.level),
        rounds=1,
        candidates=tuple(
            Candidate(alpha, level=found.level if alpha == found.alpha else 1.0) for alpha in lines
        ),
        losses=np.array([[alone, value] for value in lines.values()]),
        reason=(
            f"{found.words}: the loss on held-out rows is {found.left_out['together']:.4g}, and "
            f"{alone:.4g} for each node alone"
        ),
    )


def _wired(
    whole: Whole,
    folds: Sequence[Network],
    settings: FedRelax,
    wirings: Sequence[Wiring],
    asked: bool,
    tell: Tell | None,
    keeper: Keeper | None,
    budget: Budget | None,
) -> Whole:
    found = whole.found
    copies = [fold.with_models(found.model(_mean_rows(fold))) for fold in folds]
    engine = "softmax" if folds[0].task.is_classification else "linear"
    trial = replace(settings, level=found.level, engine=engine)
    rounds = trial.rounds_for(copies[0])
    tried = [
        Candidate(strength * unit(copies[0].graph), way.paced(rounds), found.level)
        for way in wirings
        for strength in STRENGTHS
    ]
    own = [found.losses(fold) for fold in folds]
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
            return whole
        for candidate, first in zip(tried, firsts, strict=True):
            losses.append([first, *(run(candidate, copy) for copy in copies[1:])])
    except UnsupportedNetworkError:
        return whole
    means, last = losses.means, (0, rounds)
    place = (1 + int(np.argmin(means[1:, rounds])), rounds)
    before = whole.choice
    padded = np.column_stack([before.losses[:, 0], *[before.losses[:, 1]] * rounds])
    # The lines of the first choice are leave-one-out losses, the others are losses on folds.
    choice = replace(
        before,
        candidates=(*before.candidates, *tried),
        losses=np.vstack([padded, means[1:]]),
    )
    if not means[last] - means[place] > (0.0 if asked else losses.standard_error(place, last)):
        return replace(whole, choice=choice)
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
    return replace(whole, choice=choice, solver=solver)


def _mean_rows(network: Network) -> float:
    return float(np.mean(network.own_rows.counts))
