"""Trying candidates on folds, and the rule that picks one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from fedrelax.selection.choice import Choice
from fedrelax.selection.losses import Losses, Place
from fedrelax.solvers import Result
from fedrelax.typing import AnyArray, FloatArray, Label
from fedrelax.wiring import Wiring

Line = tuple[Wiring | None, float]
"""A candidate: a wiring (None: fixed) and an alpha."""
STRONGER = 2
"""Where runs are dear, a wiring is tried with the fixed graph's best alpha and so many above it."""


def search(
    lines: Sequence[Line],
    labels: Sequence[Label],
    counts: Sequence[AnyArray],
    solve: Callable[[int, Line], Result],
    *,
    rounds: int,
    early: bool,
    progress: Callable[[int, int], None] | None = None,
) -> Choice:
    """Run every candidate on every fold (``solve(fold, line)``) and choose one.

    ``counts`` holds the number of held-out rows per fold and node. ``early`` says that the models may
    get worse again with more rounds. Such models are dear too, so a wiring is then tried with a few of
    the alphas only: the one that suits the fixed graph best, and stronger ones, because neighbours that
    agree can be trusted more.
    """
    losses = Losses(counts, rounds, ends=not early)
    fixed = [line for line in lines if line[0] is None]
    wired = [line for line in lines if line[0] is not None]

    def runs(line: Line) -> Iterator[Result]:
        for fold in range(len(counts)):
            yield solve(fold, line)
            if progress is not None:
                done = len(losses) * len(counts) + fold + 1
                progress(done, (len(fixed) + len(wired)) * len(counts))

    for line in fixed:
        losses.append(runs(line))
    if early and fixed:
        wired = _strong_enough(wired, fixed, losses)
    for line in wired:
        losses.append(runs(line))
    return decide([*fixed, *wired], labels, losses, early)


def _strong_enough(wired: Sequence[Line], fixed: Sequence[Line], losses: Losses) -> list[Line]:
    """Return the wired candidates with the best alpha of the fixed ones, and the next above it."""
    best = fixed[int(np.argmin(losses.means.min(axis=1)))][1]
    alphas = sorted({alpha for _, alpha in wired})
    first = min(int(np.searchsorted(alphas, best)), max(len(alphas) - 1 - STRONGER, 0))
    near = alphas[first : first + 1 + STRONGER]
    return [line for line in wired if line[1] in near]


def decide(lines: Sequence[Line], labels: Sequence[Label], losses: Losses, early: bool) -> Choice:
    """Return the least loss of the simplest tier that no later tier clearly beats."""
    means = np.where(np.isnan(losses.means), np.inf, losses.means)
    for line, (wiring, _) in enumerate(lines):
        if wiring is not None:
            on_the_way = [not wiring.settled(round) for round in range(means.shape[1])]
            means[line, on_the_way] = np.inf
    chosen, words = (0, 0), "training alone was best"
    tiers = (
        ("the given graph", [k for k, (w, _) in enumerate(lines) if w is None]),
        ("a rewired graph", [k for k, (w, _) in enumerate(lines) if w is not None]),
    )
    last = means.shape[1] - 1
    stops = [_stop(line, means, losses) if early else (line, last) for line in range(len(lines))]
    for name, numbers in tiers:
        if not numbers:
            continue
        best = min((stops[line] for line in numbers), key=lambda place: means[place])
        gain = means[chosen] - means[best]
        if gain > losses.standard_error(best, chosen):
            chosen = best
            words = f"{name} lowered the validation loss clearly, to {means[best]:.4g}"
    wiring, alpha = lines[chosen[0]]
    choice = Choice(
        alpha=alpha,
        rounds=chosen[1],
        wiring=wiring,
        alphas=tuple(a for _, a in lines),
        wirings=tuple(w for w, _ in lines),
        losses=losses.means,
        reason=words,
    )
    if chosen[1] == 0 or alpha == 0:
        return replace(choice, alpha=0.0, wiring=None)
    alone = np.flatnonzero(losses.better_alone(chosen)).tolist()
    return replace(choice, alone=tuple(labels[i] for i in alone))


def _stop(line: int, means: FloatArray, losses: Losses) -> Place:
    """Return a candidate's line and round: the last, or the best one if that is clearly better."""
    best, last = (line, int(np.argmin(means[line]))), (line, means.shape[1] - 1)
    return best if means[last] - means[best] > losses.standard_error(best, last) else last
