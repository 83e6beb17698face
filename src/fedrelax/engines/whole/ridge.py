"""Ridge for a whole network with nothing to set: penalty, coupling, level, curves from the rows.

Candidates on the complete graph are judged by their evidence (the restricted likelihood, see
``closed``), or, where rows of several nodes belong together (days, patients), by the error on folds that
the caller deals. What is chosen must beat every node alone and one model for all on rows left out.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from fedrelax.engines.whole.closed import (
    NodeSums,
    learn_coupling,
    leave_one_out,
    level_and_shape,
    negative_log_evidence,
    solve_complete,
    solve_one,
)
from fedrelax.models.curves import Curves, Values
from fedrelax.typing import AnyArray, FloatArray, IntArray

PENALTIES = (1e-3, 0.03, 1.0, 10.0)
"""Ridge penalties tried, in the units of sums over a node's rows of standardised columns."""
STRENGTHS = (1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
"""Pulls of all other nodes together, relative to a node's own rows."""
LEVELS = (1.0, 0.1, 0.01, 0.001)
"""Shares of the pull that also hold for the level."""
BENDS, BEND_STRENGTHS = (0.1, 1.0, 10.0, 100.0), (0.01, 0.1, 1.0, 1000.0)
"""Penalties and pulls tried for curves."""
EFFECTS, COMMON = (0.003, 0.03, 0.3, 3.0, 30.0), 1000.0
"""Penalties tried for effects that all nodes have in common, and the pull that makes them common."""
OWN_LEVELS = (1e-3, 1e-2, 0.1, 1.0)
"""Pulls of the levels where slopes are common."""
NEAR = 2.0
"""Effects that are worse by more than this in minus twice the log evidence are not looked at further."""
MOST_KNOTS, MOST_LINES = 12, 36
"""Knots of the smooth line of a column, and of all columns together."""
MARGIN = 4.0
"""What curves, or effects, must gain in minus twice the log evidence: two for each of two settings."""
MOST_WORK = 1e8
"""Nodes times columns cubed up to which curves are tried: some ten seconds for all candidates."""
Fold = tuple[AnyArray, AnyArray]
"""The rows to train on and those to hold out, as masks."""
ALONE, ONE = "every node alone", "one model for all"
FAINT = 1e-6
"""Coupling of the level that gives a node without rows the mean of the others, and no more."""


@dataclass(frozen=True)
class Candidate:
    """Settings (``coupling`` None: one model for all), the models (n, d) they give, and their score.

    The score is minus twice the log evidence, or the error on folds; lower is better.
    """

    words: str
    ridge: FloatArray
    coupling: FloatArray | None
    models: FloatArray
    score: float
    level: float = 1.0
    """The share of the pull that also holds for the level, where it is one number."""


@dataclass(frozen=True)
class Scale:
    """How rows are put to a common scale, which curves join them, and how a node's rows count."""

    centre: FloatArray
    spread: FloatArray
    level: float
    size: float
    means: bool = False
    """Whether a node's rows count as a mean, or each as one row."""
    curves: Curves | None = None
    lines: Curves | None = None
    values: Values | None = None

    @classmethod
    def of(cls, X: FloatArray, y: FloatArray) -> Scale:
        """Return the scale of training rows and targets."""
        spread = X.std(axis=0)
        size = float(y.std()) or 1.0
        return cls(X.mean(axis=0), np.where(spread > 0, spread, 1.0), float(y.mean()), size)

    def weights(self, counts: IntArray) -> FloatArray:
        """Return the weight of each row of every node."""
        if not self.means:
            return np.ones(len(counts))
        return np.asarray(counts.mean() / np.maximum(counts, 1))

    def columns(self, X: FloatArray, curves: bool = True) -> FloatArray:
        """Return standardised columns, curves of them if there are, and the constant one."""
        Z = (X - self.centre) / self.spread
        parts = [Z]
        if curves:
            parts += [basis(Z) for basis in (self.curves, self.lines) if basis is not None]
            parts += [] if self.values is None else [self.values(X)]
        return np.column_stack([*parts, np.ones(len(Z))])

    @property
    def plain(self) -> Scale:
        """The same with nothing but the columns."""
        return replace(self, curves=None, lines=None, values=None)

    @property
    def is_plain(self) -> bool:
        """Whether there are nothing but the columns."""
        return self.curves is None and self.lines is None and self.values is None

    def places(self, name: str) -> IntArray:
        """Return which columns belong to "curves", "lines" or "values"."""
        start = len(self.centre)
        for basis in ("curves", "lines", "values"):
            many = len(getattr(self, basis) or ())
            if basis == name:
                return np.arange(start, start + many)
            start += many
        raise ValueError(name)

    @property
    def words(self) -> str:
        """What joins the columns, in words."""
        bases = ("curves of them", self.curves), ("smooth lines", self.lines)
        more = [
            words for words, basis in (*bases, ("effects of single values", self.values)) if basis
        ]
        return f"columns and {' and '.join(more)}, " if more else ""

    def models(self, w: FloatArray) -> FloatArray:
        """Return models (..., d) of the standardised target as models of the target."""
        found = self.size * w
        found[..., -1] += self.level
        return np.asarray(found)


@dataclass(frozen=True)
class NetworkRidge:
    """One plain linear model for each node, on standardised columns and perhaps curves of them.

    ``parts`` are the candidates whose models are averaged; ``apart`` (n, p + 1) is every node alone
    and ``one`` (p + 1,) one model for all, each with the penalty that suits it, without curves.
    ``errors`` are the mean squared errors of rows left out: alone, one model, together.
    """

    scale: Scale
    parts: tuple[Candidate, ...]
    simple: tuple[Candidate, Candidate]
    models: FloatArray
    apart: FloatArray
    one: FloatArray
    words: str
    errors: dict[str, float]
    per_edge: float
    """The share of a coupling that an edge of weight one has."""

    def predict(self, X: FloatArray, node: IntArray) -> FloatArray:
        """Return predictions for rows X (N, p), each by the model of its node."""
        return np.asarray(np.einsum("ri,ri->r", self.scale.columns(X), self.models[node]))

    def refitted(
        self, X: FloatArray, y: FloatArray, node: IntArray, n: int, laplacian: Any = None
    ) -> NetworkRidge:
        """Return the models of other rows, and perhaps other nodes, with the settings found here.

        ``laplacian`` is that of the nodes' graph, which the complete one does not need.
        """
        straight, sums = self.sums_of(X, y, node, n)
        alone, one = self.simple
        return replace(
            self,
            models=self.scale.models(mean([models_of(sums, part) for part in self.parts])),
            apart=self.scale.models(models_of(straight, alone)),
            one=self.scale.models(solve_one(straight, one.ridge)[0]),
        )

    def sums_of(
        self, X: FloatArray, y: FloatArray, node: IntArray, n: int
    ) -> tuple[NodeSums, NodeSums]:
        """Return sums over rows of the standardised columns, and of these with their curves."""
        scale, weight = self.scale, self.scale.weights(np.bincount(node, minlength=n))
        z = (y - scale.level) / scale.size
        straight = NodeSums.of(scale.columns(X, curves=False), z, node, n, weight)
        if scale.is_plain:
            return straight, straight
        return straight, NodeSums.of(scale.columns(X), z, node, n, weight)


def choose_ridge(
    X: FloatArray,
    y: FloatArray,
    node: IntArray,
    n: int,
    *,
    curves: bool = True,
    folds: Sequence[Fold] = (),
) -> NetworkRidge:
    """Choose and fit all nodes' models; ``folds`` judge, if rows of several nodes belong together.

    Curves need room: they are left out where a node's matrices would take too long.
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


def mean(arrays: Sequence[FloatArray]) -> FloatArray:
    """Return the mean of arrays."""
    return np.asarray(np.mean(arrays, axis=0))


def _least(parts: Sequence[Candidate]) -> float:
    return min(part.score for part in parts)


class Rows:
    """Training rows with one set of columns, and how a candidate on the complete graph is judged."""

    def __init__(
        self,
        scale: Scale,
        X: FloatArray,
        y: FloatArray,
        node: IntArray,
        n: int,
        folds: Sequence[Fold],
    ) -> None:
        self.X, self.y, self.node = scale.columns(X), (y - scale.level) / scale.size, node
        self.weight = scale.weights(np.bincount(node, minlength=n))
        self.sums = NodeSums.of(self.X, self.y, node, n, self.weight)
        self.judge_by(folds)

    def judge_by(self, folds: Sequence[Fold]) -> None:
        """Take these folds to judge candidates by."""
        X, y, node, n, weight = self.X, self.y, self.node, self.sums.n, self.weight
        self.folds = folds
        self.kept = [NodeSums.of(X[f], y[f], node[f], n, weight) for f, _ in folds]

    def with_folds(self, folds: Sequence[Fold]) -> Rows:
        """Return the same rows, judged by other folds."""
        if self.folds is folds:
            return self
        made = copy.copy(self)
        made.judge_by(folds)
        return made

    @property
    def pull(self) -> float:
        """The unit of a pull: what an average node's rows weigh."""
        return float((self.sums.rows * self.weight).mean())

    def candidate(self, words: str, ridge: FloatArray, coupling: FloatArray | None) -> Candidate:
        """Solve for one coupling and judge it: by folds if there are, else by evidence."""
        if coupling is None:
            models = _solve(self.sums, ridge, None)[0]
            return Candidate(words, ridge, None, models, np.inf)
        net = solve_complete(self.sums, ridge, coupling)
        if self.folds:
            score = square(self.left_out([Candidate(words, ridge, coupling, net.models, np.inf)]))
        else:
            score = negative_log_evidence(self.sums, net)
        return Candidate(words, ridge, coupling, net.models, score)

    def left_out(self, parts: Sequence[Candidate]) -> FloatArray:
        """Return residuals of rows that the averaged models have not seen: folds, or row by row."""
        lefts = []
        for part in parts:
            left = np.zeros(len(self.y))
            if not self.folds:
                found = _solve(self.sums, part.ridge, part.coupling)
                left = leave_one_out(self.X, self.y, self.node, *found, self.weight)
            for (_, fold), kept in zip(self.folds, self.kept, strict=True):
                models = models_of(kept, part)[self.node[fold]]
                left[fold] = self.y[fold] - np.einsum("ri,ri->r", self.X[fold], models)
            lefts.append(left)
        seen = np.any([held for _, held in self.folds], axis=0) if self.folds else slice(None)
        return mean(lefts)[seen]


def square(residuals: FloatArray) -> float:
    """Return the mean square."""
    return float(np.mean(np.square(residuals)))


def _solve(
    sums: NodeSums, ridge: FloatArray, coupling: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Return models (n, d) and their blocks (n, d, d) of the inverse."""
    if coupling is None:
        w, inverse = solve_one(sums, ridge)
        return np.tile(w, (sums.n, 1)), np.tile(inverse, (sums.n, 1, 1))
    net = solve_complete(sums, ridge, coupling)
    return net.models, net.covariances()


def models_of(sums: NodeSums, part: Candidate) -> FloatArray:
    """Return the models (n, d) of a candidate's settings."""
    if part.coupling is None:
        return np.tile(solve_one(sums, part.ridge)[0], (sums.n, 1))
    return solve_complete(sums, part.ridge, part.coupling).models


def ridge_of(penalty: float, d: int) -> FloatArray:
    """Return the diagonal of a ridge for all columns but the last, constant one."""
    return np.append(np.full(d - 1, penalty), 0.0)


def straight_candidates(rows: Rows) -> tuple[Candidate, ...]:
    """Return the best of the grid, and the two couplings that are learned from there."""
    d = rows.X.shape[1]
    Q, centre = rows.X.T @ rows.X / len(rows.X), rows.X.mean(axis=0)
    pulls = list(product(STRENGTHS, LEVELS)) if rows.sums.n > 1 else [(1.0, 1.0)]
    grid = [
        replace(
            rows.candidate(
                f"penalty {penalty:g}, pull {strength:g}, {level:g} of it on the level",
                ridge_of(penalty, d),
                strength * rows.pull * level_and_shape(Q, centre, level),
            ),
            level=level,
        )
        for penalty, (strength, level) in product(PENALTIES, pulls)
    ]
    return _with_learned(rows, grid, np.empty(0, dtype=np.int64))


def _bent(rows: Rows, straight: Sequence[Candidate], bends: int) -> tuple[Candidate, ...]:
    """Return the same with curves, which are tried on top of what was found for the columns."""
    d = rows.X.shape[1]
    curved = np.arange(d - 1 - bends, d - 1)
    plain = np.setdiff1d(np.arange(d), curved)
    grid = []
    for part in straight[:2]:  # the best of the grid, and one strength for each column
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
    """Add what all nodes may have in common, by evidence: smooth lines, effects of single values."""
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
    """Return the same with effects that all nodes have in common."""
    d, n, new = rows.X.shape[1], rows.sums.n, scale.places(name)
    old = np.setdiff1d(np.arange(d), new)
    grid = []
    for part in before[:2]:
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
    """Return the best of a grid with the couplings learned from there, to be averaged.

    What is learned trusts rows to be independent; where they belong together, folds tell whether it
    helps.
    """
    best = min(grid, key=lambda candidate: candidate.score)
    assert best.coupling is not None
    if rows.sums.n == 1:
        return (best,)
    learned = [
        rows.candidate(
            "coupling learned from the network",
            best.ridge,
            learn_coupling(rows.sums, best.ridge, best.coupling, full=full, tied=tied, held=held),
        )
        for full in (False, True)
    ]
    both = (best, *learned)
    if rows.folds and square(rows.left_out(both)) > best.score:
        return (best,)
    return both


def _simple(rows: Rows) -> list[tuple[Candidate, float]]:
    """Return every node alone and one model for all, with the penalty that suits each, and errors."""
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
    """Return common slopes and levels of the nodes' own, the best by the error of rows left out."""
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
