"""The choice for a whole network: settings and models are found together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedrelax.engines import Unsuited
from fedrelax.engines.whole.found import ONE_MODEL, Found, find
from fedrelax.network import Network
from fedrelax.network.stacked import StackedNetwork
from fedrelax.selection.candidates import Candidate, Wirings, alphas_for, wirings_for
from fedrelax.selection.choice import Choice
from fedrelax.selection.losses import Losses
from fedrelax.solvers import FedRelax, Result, Solver, WholeNetwork
from fedrelax.wiring import Wiring

STRENGTHS = (1.0, 30.0)
"""alpha times the degree with which a wiring is tried against what was found."""

MOST_NODES = 60
"""With more nodes, wirings of classifiers are too dear to be tried unasked."""


@dataclass(frozen=True)
class Whole:
    """What was found for a network, and what is to be solved: models, or a wired network of them."""

    choice: Choice
    found: Found
    solver: Solver

    def network(self, network: Network) -> Network:
        """Return the network that the solver takes: where it is wired, with the model found."""
        if isinstance(self.solver, WholeNetwork):
            return network
        return network.with_models(self.found.model(_mean_rows(network)))

    def again(self, network: Network) -> Whole:
        """Return the same for a network of other rows."""
        found = self.found.again(network)
        solver = WholeNetwork(found) if isinstance(self.solver, WholeNetwork) else self.solver
        return Whole(self.choice, found, solver)


def choose_whole(
    network: Network,
    folds: Sequence[Network],
    settings: FedRelax,
    wiring: Wirings = "fixed",
    *,
    apart: bool = False,
    quick: bool = False,
    seed: int = 0,
    tell: Callable[[int, int], None] | None = None,
) -> Whole:
    """Find the settings of a network, and try whether a wiring does better than all nodes alike.

    With ``apart`` rows of several nodes belong together, and the folds keep them so: then these judge
    all settings. A wiring that looks better on the first fold is tried on all, and taken if it lowers
    the loss on held-out rows by more than one standard error of the difference, taken over nodes;
    ``quick`` tries neither wirings nor curves.
    """
    masks = []
    if apart and isinstance(network, StackedNetwork):
        masks = [network.masks_of(fold) for fold in folds if isinstance(fold, StackedNetwork)]
    found = find(network, masks, curves=not quick, seed=seed)
    whole = Whole(_choice(found), found, WholeNetwork(found))
    dear = network.task.is_classification and len(network) > MOST_NODES
    few = len(network) < 3 or not folds
    wirings = [] if quick or few or dear else wirings_for(network, wiring)
    wired = [way for way in wirings if way is not None]
    return _wired(whole, folds, settings, wired, tell) if wired else whole


def _choice(found: Found) -> Choice:
    """Name each node alone, what was chosen and one model for all, with the losses of rows left out."""
    alone = found.left_out["alone"]
    lines = {0.0: alone, found.alpha: found.left_out["together"]}
    lines.setdefault(ONE_MODEL, found.left_out["one model"])
    return Choice(
        chosen=Candidate(found.alpha, level=found.level),
        rounds=1,
        candidates=tuple(Candidate(alpha) for alpha in lines),
        losses=np.array([[alone, value] for value in lines.values()]),
        reason=(
            f"{found.words}: the loss of rows left out is {found.left_out['together']:.4g}, and "
            f"{alone:.4g} for each node alone"
        ),
    )


def _wired(
    whole: Whole,
    folds: Sequence[Network],
    settings: FedRelax,
    wirings: Sequence[Wiring],
    tell: Callable[[int, int], None] | None,
) -> Whole:
    found = whole.found
    copies = [fold.with_models(found.model(_mean_rows(fold))) for fold in folds]
    engine = "softmax" if folds[0].task.is_classification else "linear"
    trial = replace(settings, level=found.level, engine=engine)
    rounds = trial.rounds_for(copies[0])
    unit = alphas_for(copies[0].graph, "auto")[-1] / 30.0
    tried = [
        Candidate(strength * unit, way.paced(rounds), found.level)
        for way in wirings
        for strength in STRENGTHS
    ]
    own = [found.losses(fold) for fold in folds]
    losses = Losses.of(folds, rounds)
    losses.append_still(own)
    done = 0

    def run(candidate: Candidate, copy: Network) -> Result:
        nonlocal done
        result = candidate.settings(trial, rounds).solve(copy)
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
        if promising.means[1:, rounds].min() >= promising.means[0, rounds]:
            return whole
        for candidate, first in zip(tried, firsts, strict=True):
            losses.append([first, *(run(candidate, copy) for copy in copies[1:])])
    except Unsuited:
        return whole
    means, last = losses.means, (0, rounds)
    place = (1 + int(np.argmin(means[1:, rounds])), rounds)
    before = whole.choice
    padded = np.column_stack([before.losses[:, 0], *[before.losses[:, 1]] * rounds])
    # The lines of the first choice are losses of single rows left out, the others those on folds.
    choice = replace(
        before,
        candidates=(*before.candidates, *tried),
        losses=np.vstack([padded, means[1:]]),
    )
    if not means[last] - means[place] > losses.standard_error(place, last):
        return replace(whole, choice=choice)
    chosen = tried[place[0] - 1]
    choice = replace(
        choice,
        chosen=chosen,
        rounds=rounds,
        reason=(
            f"neighbours that agree: the loss on held-out rows is {means[place]:.4g}, and "
            f"{means[last]:.4g} where all nodes are joined alike"
        ),
    )
    return Whole(choice, found, choice.settings(trial))


def _mean_rows(network: Network) -> float:
    return float(np.mean(network.own_rows.counts))
