"""The choice for a whole network: settings and models are found together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fedrelax.engines import UnsupportedNetworkError
from fedrelax.engines.whole.found import ONE_MODEL, Found, find, linear_model, rows_of
from fedrelax.engines.whole.ridge_rows import Fold
from fedrelax.engines.whole.softmax import reason_for_few
from fedrelax.models import adapt
from fedrelax.models.names import model_by_name
from fedrelax.network import Network
from fedrelax.network.stacked import StackedNetwork
from fedrelax.runtime import Callback, Keeper
from fedrelax.selection.beside import compare_beside
from fedrelax.selection.budget import Budget, Overtime
from fedrelax.selection.candidates import Candidate, Wirings, unit, wirings_for
from fedrelax.selection.choice import Choice
from fedrelax.selection.kinds import (
    ROUNDS,
    KindChoice,
    choose_kinds,
    forest_network,
    nodes_to_try,
    refit_kinds,
)
from fedrelax.selection.losses import Losses, Recorded
from fedrelax.selection.trials import Enough, Tell, heard
from fedrelax.selection.trials import tried as tried_once
from fedrelax.solvers import FedRelax, Result, Solver, WholeNetwork
from fedrelax.typing import Label
from fedrelax.wiring import Wiring

STRENGTHS = (1.0, 30.0)
"""alpha times the mean degree, at which a wiring is tried against what was found."""

SECONDS = 4.0
"""The estimated time that forests at all nodes, and other kinds at single ones, may each take."""
MOST_NODES = 60
"""With more nodes, wirings of classifiers take too long and are not tried."""


@dataclass(frozen=True)
class Whole:
    """What was found for a network, and the solver: it has the models, or trains a network of others.

    ``kinds`` are the nodes whose models are of another kind than the others'.
    """

    choice: Choice
    found: Found
    solver: Solver
    forests: bool = False
    kinds: Mapping[Label, KindChoice] = field(default_factory=dict)
    seed: int = 0

    def but(self, note: str, left_out: str = "") -> Whole:
        """Return what was found, with a further part of the reason, and with what was left out."""
        return replace(self, choice=self.choice.but(note, left_out))

    def network(self, network: Network) -> Network:
        """Return the network for the solver: as it is, with forests, or with the linear model found."""
        if isinstance(self.solver, WholeNetwork):
            return network
        if self.forests:
            return network.with_models(model_by_name("forest", network.kind))
        return network.with_models(self.found.model(_mean_rows(network)))

    def solve(self, network: Network, callbacks: Sequence[Callback] = ()) -> Result:
        """Train the network."""
        result = self.solver.solve(self.network(network), callbacks)
        task = network.task
        return result.with_models({i: adapt(one.model, task) for i, one in self.kinds.items()})

    def again(self, network: Network) -> Whole:
        """Return the same choice for a network with other rows."""
        found = self.found.again(network)
        solver = WholeNetwork(found) if isinstance(self.solver, WholeNetwork) else self.solver
        kinds = dict(self.kinds)
        if kinds:
            labels, common = network.labels, network.public.common
            assert common is not None
            place = {label: i for i, label in enumerate(labels)}
            own = {place[label]: one for label, one in kinds.items() if label in place}
            X, _, node = rows_of(network)
            y, task = network.own_rows.y, network.task
            new = refit_kinds(
                own, X, y, node, len(labels), task, found.together, common, seed=self.seed
            )
            kinds = {labels[i]: one for i, one in new.items()}
        return replace(self, found=found, solver=solver, kinds=kinds)


def model_for(network: Network, seed: int = 0) -> Any:
    """Return a linear model with the best penalty for a network that cannot be solved as a whole.

    None if the rows do not allow it.
    """
    if WholeNetwork.refusal_of_rows(network) is not None:
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
    Forests and boosting are tried at single nodes, and forests at all nodes, if there are rows enough
    to tell. ``quick`` skips all of that, and curves. If ``tell`` returns anything true, the search
    ends, and what was found so far is kept; the same when the time of ``budget`` is up.
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
    left = "wirings and other kinds of models" if wired else "other kinds of models"
    try:
        if budget is not None and budget.left < 0:
            raise Enough(f"stopped after {budget.words}")
        if wired:
            whole = _wired(whole, folds, settings, wired, asked, told, keeper, budget)
            left = "other kinds of models"
        if isinstance(whole.solver, WholeNetwork) and complete:
            whole = _other_kinds(whole, network, folds, masks, settings.n_jobs, told)
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


def _other_kinds(
    whole: Whole,
    network: Network,
    folds: Sequence[Network],
    masks: Sequence[Fold],
    n_jobs: int | None,
    tell: Tell | None,
) -> Whole:
    """Try forests and boosting, and say what would do better with all rows in one place."""
    found, seed, choice = whole.found, whole.seed, whole.choice
    held = [mask for _, mask in masks]
    means = [found.losses(fold) for fold in folds]
    forests = forest_network(folds, means, seconds=SECONDS, seed=seed, n_jobs=n_jobs, tell=tell)
    if forests.alpha is not None:
        chosen = replace(choice.chosen, alpha=forests.alpha)
        choice = replace(choice, chosen=chosen, rounds=ROUNDS, reason=forests.reason)
        solver = replace(forests.settings, n_jobs=n_jobs)
        return replace(whole, choice=choice, solver=solver, forests=True)
    (X, _, node), y = rows_of(network), network.own_rows.y
    losses = np.full(len(X), np.nan)
    for fold, mask in zip(folds, held, strict=True):
        losses[mask] = found.losses(fold, means=False)
    n, task, common = len(network), network.task, network.public.common
    beside = compare_beside(X, y, node, n, task, losses, held, seed=seed)
    choice = replace(choice, better=None if beside is None else beside.sentence)
    kinds: dict[int, KindChoice] = {}
    if common is not None and nodes_to_try(node, n, X.shape[1], folds=len(held), seconds=SECONDS):
        models = [found.again(fold).together for fold in folds]
        kinds = choose_kinds(
            X, y, node, n, task, held, models, found.together, common, seconds=SECONDS, seed=seed,
            tell=tell,
        )  # fmt: skip
    if kinds:
        named = [f"node {network.labels[i]!r}: {one.reason}" for i, one in kinds.items()]
        more = f", and {len(named) - 3} more nodes changed" if len(named) > 3 else ""
        choice = replace(choice, reason=f"{choice.reason}; {'; '.join(named[:3])}{more}")
    labelled = {network.labels[i]: one for i, one in kinds.items()}
    return replace(whole, choice=choice, kinds=labelled)


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
