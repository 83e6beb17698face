"""Trying candidates on folds of a network, and the rule that picks one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.network import Network
from fedrelax.runtime import Keeper
from fedrelax.selection.budget import Budget, Overtime, first_run, most_telling
from fedrelax.selection.candidates import Candidate, unit
from fedrelax.selection.choice import Choice
from fedrelax.selection.losses import Losses, Place, Recorded
from fedrelax.selection.trials import Tell, Trials, remembering
from fedrelax.solvers import FedRelax
from fedrelax.splits import Part, deal
from fedrelax.typing import AnyArray, FloatArray, Label
from fedrelax.validation import check_count

FOLDS, TRIES = 5, 3
"""Folds into which a node's rows are split, and how many of them are held out in turn."""
PATIENCE = 5
"""Rounds without a better validation loss after which a trial ends, for models that may get worse again."""
STRONGER = 2
"""Where runs are expensive, a wiring is tried with the fixed graph's best alpha and this many above it."""


def fold_rows(
    rows: Mapping[Label, AnyArray],
    folds: int,
    rng: np.random.Generator,
    groups: AnyArray | None = None,
    times: AnyArray | None = None,
    seeds: Sequence[int] | None = None,
) -> list[Part]:
    """Split every node's rows into folds; return those that are held out in turn, each with the rest.

    Five folds rather than three: a network that finds its clusters with ten rows per node may not find
    them with seven, and what is chosen should suit ten. A node with fewer rows than folds takes part
    with those it has. With ``groups``, one value for every row, rows with the same value are held out
    together, at all nodes; with ``times``, held-out rows come after training rows. With ``seeds``,
    every node deals its rows with its own one.
    """
    check_count("folds", folds, least=2)
    parts = deal(rows, folds, rng, groups, times, seeds)
    if groups is None:  # values of groups are few, so all are held out once
        parts = parts[:TRIES] if times is None else parts[-TRIES:]
    if not parts and (groups is not None or times is not None):
        raise FedRelaxError(
            f"{'groups' if times is None else 'times'} leaves no rows to hold out: every node would "
            "be without a row to train on; give alpha as a number, or other groups"
        )
    if not parts:
        raise FedRelaxError(
            "every node has a single row, so none can be held out to choose alpha; give alpha as a number"
        )
    return parts


def choose(
    folds: Sequence[Network],
    settings: FedRelax,
    candidates: Sequence[Candidate],
    *,
    levels: Sequence[float] = (),
    halving: bool = True,
    tell: Tell | None = None,
    keeper: Keeper | None = None,
    budget: Budget | None = None,
    heavier: float = 1.0,
) -> Choice:
    """Run every candidate on every fold and choose one by the losses on the rows held out there.

    Each of ``folds`` trains on some of the rows and has the others as validation rows. ``settings``
    hold all that is not chosen; ``levels`` are tried with the best alpha and stronger ones; ``tell`` is
    called with how many runs are done, out of how many, and ends the search if it returns anything
    true: the best so far is chosen. ``keeper`` recalls runs of a search that was stopped. With a
    ``budget``, one run is made first; if by its cost not all fit, the most telling strengths come first,
    runs have fewer rounds, and ``Choice.left_out`` says what was not tried when the time was up;
    ``heavier`` is how many times longer the final models take.

    The loss is measured after every round, and a run may be stopped early: models that are refitted to
    refitted models can get worse again. Linear least squares does not need that: it converges, and
    alpha does the rest; so on a fixed graph it goes straight to its fixed point. With a wiring, only the
    rounds after its last stage count: half a wiring may look good on the few rows of a fold but is not
    what was meant. Models that may get worse are also expensive, so a wiring is then tried with only a
    few alphas: the one that suits the fixed graph best, and stronger ones, because neighbours that agree
    can be trusted more. With ``halving``, a candidate that is clearly behind after a fold is not tried
    on the next.

    Simpler ways have the benefit of the doubt: coupling is chosen over training alone, a wiring over the
    fixed graph, and an earlier stop over running to the end, only if the loss is lower by more than one
    standard error of the difference, taken over nodes. A node with enough held-out rows to tell that
    it does better alone is named in ``Choice.alone``, and keeps the model trained on its own rows.
    """
    early = not settings.settles(folds[0])
    rounds, to_rest = settings.rounds_for(folds[0]), settings.rounds is None and not early
    fixed = [candidate for candidate in candidates if candidate.wiring is None]
    wired = [candidate for candidate in candidates if candidate.wiring is not None]

    def trial(candidate: Candidate) -> FedRelax:
        most = None if to_rest and candidate.wiring is None else rounds
        return candidate.settings(settings, most, PATIENCE if early else None)

    planned = _planned(fixed, wired, len(levels), early)
    known: dict[Candidate, Recorded] = {}
    coupled, full = [one for one in fixed if one.alpha > 0], rounds
    more = planned - len(fixed)
    with remembering(folds):
        if budget is not None and keeper is None and coupled:
            telling = most_telling(coupled, unit(folds[0].graph))
            final = heavier if early and settings.rounds is None else None
            run, seconds, rounds = first_run(telling[0], folds[0], trial, budget, rounds, final)
            known = {telling[0]: run}
            if planned * len(folds) * seconds > budget.left:
                fixed = [one for one in fixed if one.alpha == 0] + telling
            if rounds < full:  # too few for a wiring to end
                wired, levels = [], ()
        losses = Losses.of(folds, rounds, ends=not early)
        trials = Trials(
            folds,
            losses,
            trial,
            planned,
            halving=early and halving,
            tell=tell if budget is None else budget.telling(tell),
            keeper=keeper,
            known=known,
            overtime=None if budget is None or keeper is not None else partial(Overtime, budget),
        )
        if fixed:
            trials.run(fixed)
        if fixed and levels and not trials.stopped:
            near = _near([one.alpha for one in coupled], fixed, losses)
            shaped = [
                Candidate(a, level=v) for v in (levels[:1] if early else levels) for a in near
            ]
            trials.run(shaped)
            fixed += shaped
        if early and fixed and not trials.stopped:
            near = _near([one.alpha for one in wired], fixed, losses)
            wired = [candidate for candidate in wired if candidate.alpha in near]
            trials.plan(len(wired))
        if fixed and levels and wired and not trials.stopped:
            level = fixed[int(np.argmin(losses.means.min(axis=1)))].level
            wired = [replace(candidate, level=level) for candidate in wired]
        if not trials.stopped:
            trials.run(wired)
    choice = decide(trials.tried, losses, early)
    over = budget is not None and budget.left < 0 and bool(trials.stopped)
    if budget is not None and (over or rounds < full):
        strengths = sum(one in coupled for one in trials.tried)
        rest = len(trials.tried) - strengths - sum(one.alpha == 0 for one in trials.tried)
        counts = {
            "strengths": (strengths, len(coupled)),
            "folds": (losses.used, len(folds)),
            "rounds": (rounds, full),
            "levels and wirings": (rest, more),
        }
        few = [f"{n} of {most} {name}" for name, (n, most) in counts.items() if n < most]
        left_out = f"only {', '.join(few)} were tried" if few else "all was tried"
        choice = choice.but(f"to stay within {budget.words}, {left_out}", left_out * bool(few))
    elif trials.stopped:
        choice = choice.but(f"the search was {trials.stopped}")
    return replace(choice, to_rest=to_rest and choice.wiring is None and choice.rounds > 0)


def _planned(
    fixed: Sequence[Candidate], wired: Sequence[Candidate], levels: int, early: bool
) -> int:
    """Return how many candidates will be tried."""
    strong = min(1 + STRONGER, len({one.alpha for one in fixed if one.alpha > 0}))
    shaped = (min(levels, 1) if early else levels) * strong if fixed else 0
    ways = len({one.wiring for one in wired})
    near = min(1 + STRONGER, len({one.alpha for one in wired}))
    return len(fixed) + shaped + (ways * near if early and fixed else len(wired))


def _near(alphas: Sequence[float], fixed: Sequence[Candidate], losses: Losses) -> list[float]:
    """Return, of some alphas, the one that is best on the fixed graph and the next stronger ones."""
    best = fixed[int(np.argmin(losses.means.min(axis=1)))].alpha
    ordered = sorted(set(alphas))
    first = min(int(np.searchsorted(ordered, best)), max(len(ordered) - 1 - STRONGER, 0))
    return ordered[first : first + 1 + STRONGER]


def decide(candidates: Sequence[Candidate], losses: Losses, early: bool) -> Choice:
    """Return the best candidate of the simplest tier that no later tier clearly beats."""
    found, complete = losses.means, losses.complete
    means = np.where(np.isnan(found) | ~complete[:, None], np.inf, found)
    for line, candidate in enumerate(candidates):
        if candidate.wiring is not None:
            on_the_way = [not candidate.wiring.settled(round) for round in range(means.shape[1])]
            means[line, on_the_way] = np.inf
    chosen, words = (0, 0), "training alone was best"
    tiers = (
        ("the given graph", [k for k, one in enumerate(candidates) if one.wiring is None]),
        ("a rewired graph", [k for k, one in enumerate(candidates) if one.wiring is not None]),
    )
    last = means.shape[1] - 1
    stops = [
        _stop(line, means, losses) if early and complete[line] else (line, last)
        for line in range(len(candidates))
    ]
    for name, lines in tiers:
        numbers = [line for line in lines if complete[line]]
        if not numbers:
            continue
        best = min((stops[line] for line in numbers), key=lambda place: means[place])
        gain = means[chosen] - means[best]
        if gain > losses.standard_error(best, chosen):
            chosen = best
            words = f"{name} clearly lowered the validation loss, to {means[best]:.4g}"
    choice = Choice(
        chosen=candidates[chosen[0]],
        rounds=chosen[1],
        candidates=tuple(candidates),
        losses=found,
        reason=words,
    )
    if choice.rounds == 0 or choice.alpha == 0:
        return replace(choice, chosen=Candidate(0.0))
    alone = np.flatnonzero(losses.better_alone(chosen)).tolist()
    return replace(choice, alone=tuple(losses.labels[i] for i in alone))


def _stop(line: int, means: FloatArray, losses: Losses) -> Place:
    """Return a candidate's line and round: the last round, or the best one if it is clearly better."""
    best, last = (line, int(np.argmin(means[line]))), (line, means.shape[1] - 1)
    clearly = means[last] > means[best] + losses.standard_error(best, last)
    return best if clearly else last
