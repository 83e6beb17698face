"""Ridge for a whole network: penalty, coupling, level and curves are found from the rows.

Candidates on the complete graph are judged by their evidence (the restricted likelihood, see
``closed``) or, if rows of several nodes belong together (days, patients), by the error on the caller's
folds. What is chosen must beat both every node alone and one model for all on rows left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from fedrelax.engines.whole.closed import learn_coupling
from fedrelax.engines.whole.ridge_rows import (
    ALONE,
    FAINT,
    ONE,
    Candidate,
    Fold,
    NetworkRidge,
    Rows,
    Scale,
    mean,
    models_of,
    ridge_of,
    square,
)
from fedrelax.models.curves import Curves, Values
from fedrelax.typing import FloatArray, IntArray

PENALTIES = (1e-3, 0.03, 1.0, 10.0)
"""Ridge penalties tried, in units of sums over a node's rows of standardised columns."""
STRENGTHS = (1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
"""Pulls of all other nodes together that are tried, relative to a node's own rows."""
LEVELS = (1.0, 0.1, 0.01, 0.001)
"""Shares of the pull that also apply to the level."""
BENDS, BEND_STRENGTHS = (0.1, 1.0, 10.0, 100.0), (0.01, 0.1, 1.0, 1000.0)
"""Penalties and pulls tried for curves."""
EFFECTS, COMMON = (0.003, 0.03, 0.3, 3.0, 30.0), 1000.0
"""Penalties tried for effects that all nodes have in common, and the pull that makes them common."""
OWN_LEVELS = (1e-3, 1e-2, 0.1, 1.0)
"""Pulls tried for the levels if slopes are common."""
NEAR = 2.0
"""Effects that are worse by more than this, in minus twice the log evidence, are not refined."""
MOST_KNOTS, MOST_LINES = 12, 36
"""The most knots in the smooth line of a column, and of all columns together."""
MARGIN = 4.0
"""What curves or effects must gain in minus twice the log evidence: two for each of two settings."""
MOST_WORK = 1e8
"""Nodes times columns cubed up to which curves are tried: about ten seconds for all candidates."""


def choose_ridge(
    X: FloatArray,
    y: FloatArray,
    node: IntArray,
    n: int,
    *,
    curves: bool = True,
    folds: Sequence[Fold] = (),
) -> NetworkRidge:
    """Choose and fit all nodes' models; ``folds`` judge if rows of several nodes belong together.

    Curves are left out if they would make the nodes' matrices too slow to factorise.
    """
    scale = Scale.of(X, y)
    counts = np.bincount(node, minlength=n)
    ways = [scale] if counts.min() == counts.max() else [scale, replace(scale, means=True)]
    tried = [Rows(way, X, y, node, n, folds) for way in ways]
    found = [straight_candidates(rows) for rows in tried]
    place = int(np.argmin([_least(parts) for parts in found]))
    rows, best, scale = tried[place], found[place], ways[place]
    alone, one = _simple(rows)
    common = _common_slopes(rows)
    bends = Curves.of((X - scale.centre) / scale.spread) if curves else None
    if bends and n * (X.shape[1] + len(bends)) ** 3 <= MOST_WORK:
        bent_scale = replace(scale, curves=bends)
        with_bends = Rows(bent_scale, X, y, node, n, folds)
        bent = _bent(with_bends, best, len(bends))
        if _least(bent) < _least(best) - (0.0 if folds else MARGIN):
            rows, best, scale = with_bends, bent, bent_scale
    if curves and not folds and n > 1:
        rows, best, scale = _with_effects(rows, best, scale, X, y, node)
    together = square(rows.left_out(best))
    errors = {"alone": alone[1], "one model": one[1]}
    for simple, error in (alone, one, common) if n > 1 else (alone, one):
        if error < together:
            best, scale, together = (simple,), scale.plain, error
    errors["together"] = together
    return NetworkRidge(
        scale=scale,
        parts=best,
        simple=(alone[0], one[0]),
        models=scale.models(mean([part.models for part in best])),
        apart=scale.models(alone[0].models),
        one=scale.models(one[0].models[0]),
        words=scale.words + best[0].words,
        errors={way: error * scale.size**2 for way, error in errors.items()},
        per_edge=1.0 / n,
    )


def _least(parts: Sequence[Candidate]) -> float:
    return min(part.score for part in parts)


def straight_candidates(rows: Rows) -> tuple[Candidate, ...]:
    """Return the best candidate of the grid, and the strengths learned from there."""
    d = rows.X.shape[1]
    pulls = list(product(STRENGTHS, LEVELS)) if rows.sums.n > 1 else [(1.0, 1.0)]
    grid = [
        replace(
            rows.candidate(
                f"penalty {penalty:g}, pull {strength:g}, {level:g} of it on the level",
                ridge_of(penalty, d),
                strength * rows.pull * np.diag(np.append(np.ones(d - 1), level)),
            ),
            level=level,
        )
        for penalty, (strength, level) in product(PENALTIES, pulls)
    ]
    return _with_learned(rows, grid, np.empty(0, dtype=np.int64))


def _bent(rows: Rows, straight: Sequence[Candidate], bends: int) -> tuple[Candidate, ...]:
    """Return candidates with curves, tried on top of what was found for the columns."""
    d = rows.X.shape[1]
    curved = np.arange(d - 1 - bends, d - 1)
    plain = np.setdiff1d(np.arange(d), curved)
    grid = []
    for part in straight:
        assert part.coupling is not None
        for penalty, strength in product(BENDS, BEND_STRENGTHS):
            ridge, coupling = np.full(d, penalty), np.zeros((d, d))
            ridge[plain] = part.ridge
            coupling[np.ix_(plain, plain)] = part.coupling
            coupling[curved, curved] = strength * rows.pull
            grid.append(replace(rows.candidate(part.words, ridge, coupling), level=part.level))
    return _with_learned(rows, grid, curved)


def _with_effects(
    rows: Rows,
    best: tuple[Candidate, ...],
    scale: Scale,
    X: FloatArray,
    y: FloatArray,
    node: IntArray,
) -> tuple[Rows, tuple[Candidate, ...], Scale]:
    """Add effects that all nodes may share, if the evidence is for them: smooth lines, single values."""
    n, p = rows.sums.n, X.shape[1]
    Z = (X - scale.centre) / scale.spread
    knots = max(min(MOST_KNOTS, MOST_LINES // max(p, 1)), 1)
    open_: dict[str, Any] = {"lines": Curves.of(Z, knots, power=1), "values": Values.of(X, node)}
    while open_:
        found = {}
        for name, basis in open_.items():
            if basis and n * (rows.X.shape[1] + len(basis)) ** 3 <= MOST_WORK:
                wider = replace(scale, **{name: basis})
                made = Rows(wider, X, y, node, n, ())
                found[name] = (made, _effects(made, best, wider, name), wider)
        if not found:
            break
        name = min(found, key=lambda each: _least(found[each][1]))
        if _least(found[name][1]) >= _least(best) - MARGIN:
            break
        rows, best, scale = found[name]
        del open_[name]
    return rows, best, scale


def _effects(
    rows: Rows, before: Sequence[Candidate], scale: Scale, name: str
) -> tuple[Candidate, ...]:
    """Return candidates with effects that all nodes share."""
    d, n, new = rows.X.shape[1], rows.sums.n, scale.places(name)
    old = np.setdiff1d(np.arange(d), new)
    grid = []
    for part in before:
        assert part.coupling is not None
        for penalty in EFFECTS:
            ridge, coupling = np.full(d, penalty / n), np.zeros((d, d))
            ridge[old] = part.ridge
            coupling[np.ix_(old, old)] = part.coupling
            coupling[new, new] = COMMON * rows.pull
            grid.append(replace(rows.candidate(part.words, ridge, coupling), level=part.level))
    if _least(grid) > _least(before) + NEAR:
        return (min(grid, key=lambda candidate: candidate.score),)
    common = np.concatenate([scale.places("lines"), scale.places("values")])
    return _with_learned(rows, grid, scale.places("curves"), common)


def _with_learned(
    rows: Rows, grid: list[Candidate], tied: IntArray, held: IntArray | None = None
) -> tuple[Candidate, ...]:
    """Return the best of a grid and the strengths learned from it, to be averaged.

    Learning them assumes independent rows; if rows belong together, folds tell whether it helps.
    """
    best = min(grid, key=lambda candidate: candidate.score)
    assert best.coupling is not None
    if rows.sums.n == 1:
        return (best,)
    coupling = learn_coupling(rows.sums, best.ridge, best.coupling, tied=tied, held=held)
    both = (best, rows.candidate("coupling learned from the network", best.ridge, coupling))
    if rows.folds and square(rows.left_out(both)) > best.score:
        return (best,)
    return both


def _simple(rows: Rows) -> list[tuple[Candidate, float]]:
    """Return every node alone and one model for all, each with its best penalty, and their errors."""
    d = rows.X.shape[1]
    faint = np.zeros((d, d))
    faint[-1, -1] = FAINT
    best = []
    for words, coupling in ((ALONE, faint), (ONE, None)):
        tried = [rows.candidate(words, ridge_of(penalty, d), coupling) for penalty in PENALTIES]
        errors = [square(rows.left_out([candidate])) for candidate in tried]
        best.append((tried[int(np.argmin(errors))], min(errors)))
    return best


def _common_slopes(rows: Rows) -> tuple[Candidate, float]:
    """Return common slopes with separate levels: the best by the error on rows left out."""
    d, best = rows.X.shape[1], None
    for penalty, level in product(PENALTIES, OWN_LEVELS):
        coupling = np.diag(np.append(np.full(d - 1, COMMON), level)) * rows.pull
        words = f"common slopes, penalty {penalty:g}, levels pulled by {level:g}"
        tried = Candidate(words, ridge_of(penalty, d), coupling, np.empty(0), np.inf, level)
        error = square(rows.left_out([tried]))
        if best is None or error < best[1]:
            best = tried, error
    assert best is not None
    return replace(best[0], models=models_of(rows.sums, best[0])), best[1]
