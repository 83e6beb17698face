"""Ridge for a whole network with nothing to set: penalty, coupling, level, curves from the rows.

Candidates on the complete graph are judged by their evidence (the restricted likelihood, see
``closed``), or, where rows of several nodes belong together (days, patients), by the error on folds that
the caller deals. What is chosen must beat every node alone and one model for all on rows left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

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
from fedrelax.models.curves import Curves
from fedrelax.typing import AnyArray, FloatArray, IntArray

PENALTIES = (1e-3, 0.03, 1.0, 10.0)
"""Ridge penalties tried, in the units of sums over a node's rows of standardised columns."""
STRENGTHS = (1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
"""Pulls of all other nodes together, relative to a node's own rows."""
LEVELS = (1.0, 0.1, 0.01, 0.001)
"""Shares of the pull that also hold for the level."""
BENDS, BEND_STRENGTHS = (0.1, 1.0, 10.0, 100.0), (0.01, 0.1, 1.0, 1000.0)
"""Penalties and pulls tried for curves."""
MARGIN = 4.0
"""What curves must gain in minus twice the log evidence: two for each of their two settings."""
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


@dataclass(frozen=True)
class NetworkRidge:
    """One plain linear model for each node, on standardised columns and perhaps curves of them.

    ``together``, ``alone`` and ``one_model`` are the mean squared errors of rows left out; ``parts``
    are the candidates whose models were averaged.
    """

    centre: FloatArray
    spread: FloatArray
    curves: Curves | None
    models: FloatArray
    words: str
    together: float
    alone: float
    one_model: float
    parts: tuple[Candidate, ...]
    apart: FloatArray
    """Every node alone, (n, p + 1) on the standardised columns, with the penalty that suits them."""

    def predict(self, X: FloatArray, node: IntArray) -> FloatArray:
        """Return predictions for rows X (N, p), each by the model of its node."""
        rows = _columns((X - self.centre) / self.spread, self.curves)
        return np.asarray(np.einsum("ri,ri->r", rows, self.models[node]))


def choose_ridge(
    X: FloatArray,
    y: FloatArray,
    node: IntArray,
    n: int,
    *,
    curves: bool = True,
    folds: Sequence[AnyArray] = (),
) -> NetworkRidge:
    """Choose and fit all nodes' models; ``folds`` are masks of held-out rows, if rows belong together."""
    centre, spread = X.mean(axis=0), X.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    level, scale = float(y.mean()), float(y.std()) or 1.0
    Z, z = (X - centre) / spread, (y - level) / scale
    counts = np.bincount(node, minlength=n)
    weights = [np.ones(n)]
    if counts.min() != counts.max():
        weights.append(counts.mean() / np.maximum(counts, 1))
    tried = [_Rows(_columns(Z, None), z, node, w, folds) for w in weights]
    found = [_straight(rows) for rows in tried]
    place = int(np.argmin([_least(parts) for parts in found]))
    rows, best = tried[place], found[place]
    alone, one = _simple(rows)
    basis: Curves | None = None
    bends = Curves.of(Z) if curves else None
    if bends:
        with_bends = _Rows(_columns(Z, bends), z, node, weights[place], folds)
        bent = _bent(with_bends, best, len(bends))
        if _least(bent) < _least(best) - (0.0 if folds else MARGIN):
            rows, best, basis = with_bends, bent, bends
    together = _square(rows.left_out(best))
    for simple, error in (alone, one):
        if error < together:
            best, basis, together = (simple,), None, error
    models = scale * _mean([part.models for part in best])
    apart = scale * alone[0].models
    models[:, -1] += level
    apart[:, -1] += level
    return NetworkRidge(
        centre,
        spread,
        basis,
        models,
        ("columns and curves of them, " if basis else "") + best[0].words,
        together * scale**2,
        alone[1] * scale**2,
        one[1] * scale**2,
        best,
        apart,
    )


def _columns(Z: FloatArray, curves: Curves | None) -> FloatArray:
    parts = [Z] if curves is None else [Z, curves(Z)]
    return np.column_stack([*parts, np.ones(len(Z))])


def _mean(arrays: Sequence[FloatArray]) -> FloatArray:
    return np.asarray(np.mean(arrays, axis=0))


def _least(parts: Sequence[Candidate]) -> float:
    return min(part.score for part in parts)


class _Rows:
    """Training rows with one set of columns, and how a candidate on them is judged."""

    def __init__(
        self,
        X: FloatArray,
        y: FloatArray,
        node: IntArray,
        weight: FloatArray,
        folds: Sequence[AnyArray],
    ) -> None:
        n = len(weight)
        self.X, self.y, self.node, self.weight, self.folds = X, y, node, weight, folds
        self.sums = NodeSums.of(X, y, node, n, weight)
        self.kept = [NodeSums.of(X[~f], y[~f], node[~f], n, weight) for f in folds]

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
            score = _square(self.left_out([Candidate(words, ridge, coupling, net.models, np.inf)]))
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
            for fold, kept in zip(self.folds, self.kept, strict=True):
                models = _solve(kept, part.ridge, part.coupling)[0][self.node[fold]]
                left[fold] = self.y[fold] - np.einsum("ri,ri->r", self.X[fold], models)
            lefts.append(left)
        seen = np.any(self.folds, axis=0) if self.folds else slice(None)
        return _mean(lefts)[seen]


def _square(residuals: FloatArray) -> float:
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


def _ridge(penalty: float, d: int) -> FloatArray:
    return np.append(np.full(d - 1, penalty), 0.0)


def _straight(rows: _Rows) -> tuple[Candidate, ...]:
    """Return the best of the grid, and the two couplings that are learned from there."""
    d = rows.X.shape[1]
    Q, mean = rows.X.T @ rows.X / len(rows.X), rows.X.mean(axis=0)
    grid = [
        rows.candidate(
            f"penalty {penalty:g}, pull {strength:g}, {level:g} of it on the level",
            _ridge(penalty, d),
            strength * rows.pull * level_and_shape(Q, mean, level),
        )
        for penalty, strength, level in product(PENALTIES, STRENGTHS, LEVELS)
    ]
    return _with_learned(rows, grid, np.empty(0, dtype=np.int64))


def _bent(rows: _Rows, straight: Sequence[Candidate], bends: int) -> tuple[Candidate, ...]:
    """Return the same with curves, which are tried on top of what was found for the columns."""
    d = rows.X.shape[1]
    curved = np.arange(d - 1 - bends, d - 1)
    plain = np.setdiff1d(np.arange(d), curved)
    grid = []
    for part in straight[:2]:
        assert part.coupling is not None
        for penalty, strength in product(BENDS, BEND_STRENGTHS):
            ridge, coupling = np.full(d, penalty), np.zeros((d, d))
            ridge[plain] = part.ridge
            coupling[np.ix_(plain, plain)] = part.coupling
            coupling[curved, curved] = strength * rows.pull
            grid.append(rows.candidate(part.words, ridge, coupling))
    return _with_learned(rows, grid, curved)


def _with_learned(rows: _Rows, grid: list[Candidate], tied: IntArray) -> tuple[Candidate, ...]:
    best = min(grid, key=lambda candidate: candidate.score)
    assert best.coupling is not None
    learned = [
        rows.candidate(
            "coupling learned from the network",
            best.ridge,
            learn_coupling(rows.sums, best.ridge, best.coupling, full=full, tied=tied),
        )
        for full in (False, True)
    ]
    return (best, *learned)


def _simple(rows: _Rows) -> list[tuple[Candidate, float]]:
    """Return every node alone and one model for all, with the penalty that suits each, and errors."""
    d = rows.X.shape[1]
    faint = np.zeros((d, d))
    faint[-1, -1] = FAINT
    best = []
    for words, coupling in (("every node alone", faint), ("one model for all", None)):
        tried = [rows.candidate(words, _ridge(penalty, d), coupling) for penalty in PENALTIES]
        errors = [_square(rows.left_out([candidate])) for candidate in tried]
        best.append((tried[int(np.argmin(errors))], min(errors)))
    return best
