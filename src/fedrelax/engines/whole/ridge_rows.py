"""Rows of a whole network of ridge models: scaling, solving and judging."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from fedrelax.engines.whole.closed import (
    NodeSums,
    leave_one_out,
    negative_log_evidence,
    solve_complete,
    solve_one,
)
from fedrelax.linear.arrays import centre_and_spread, rescaled
from fedrelax.models.curves import Curves, Values
from fedrelax.typing import AnyArray, FloatArray, IntArray, SparseMatrix

Fold = tuple[AnyArray, AnyArray]
"""Masks of the rows to train on and of those to hold out."""
ALONE, ONE = "every node alone", "one model for all"
FAINT = 1e-6
"""A coupling of the level just strong enough to give a node without rows the mean of the others."""


@dataclass(frozen=True)
class Candidate:
    """Settings (``coupling`` None: one model for all), the resulting models (n, d), and their score.

    The score is minus twice the log evidence, or the error on folds; lower is better.
    """

    words: str
    ridge: FloatArray
    coupling: FloatArray | None
    models: FloatArray
    score: float
    level: float = 1.0
    """The share of the pull that also applies to the level, if it is a single number."""


@dataclass(frozen=True)
class Scale:
    """How rows are standardised, which curves are added, and how a node's rows are weighted."""

    centre: FloatArray
    spread: FloatArray
    level: float
    size: float
    means: bool = False
    """Whether a node's rows count as a mean; otherwise every row counts the same."""
    curves: Curves | None = None
    lines: Curves | None = None
    values: Values | None = None

    @classmethod
    def of(cls, X: FloatArray, y: FloatArray) -> Scale:
        """Return the scale of training rows and targets."""
        return cls(*centre_and_spread(X), float(y.mean()), float(y.std()) or 1.0)

    def weights(self, counts: IntArray) -> FloatArray:
        """Return the weight of each row of every node."""
        if not self.means:
            return np.ones(len(counts))
        return np.asarray(counts.mean() / np.maximum(counts, 1))

    def columns(self, X: FloatArray, curves: bool = True) -> FloatArray:
        """Return standardised columns, curves of them if there are any, and the constant column."""
        Z = (X - self.centre) / self.spread
        parts = [Z]
        if curves:
            parts += [basis(Z) for basis in (self.curves, self.lines) if basis is not None]
            parts += [] if self.values is None else [self.values(X)]
        return np.column_stack([*parts, np.ones(len(Z))])

    @property
    def plain(self) -> Scale:
        """The same scale with the columns only."""
        return replace(self, curves=None, lines=None, values=None)

    @property
    def is_plain(self) -> bool:
        """Whether there are only the columns."""
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
        """What is added to the columns, in words."""
        bases = ("curves of them", self.curves), ("smooth lines", self.lines)
        more = [
            words for words, basis in (*bases, ("effects of single values", self.values)) if basis
        ]
        return f"columns and {' and '.join(more)}, " if more else ""

    def models(self, w: FloatArray) -> FloatArray:
        """Return models (..., d) of the standardised target as models of the target itself."""
        found = self.size * w
        found[..., -1] += self.level
        return np.asarray(found)


@dataclass(frozen=True)
class NetworkRidge:
    """One plain linear model per node, on standardised columns and possibly curves of them.

    ``parts`` are the candidates whose models are averaged; ``apart`` (n, p + 1) is every node alone
    and ``one`` (p + 1,) one model for all, each with its best penalty and without curves. ``errors``
    are the mean squared errors on rows left out: alone, one model, together.
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
    """The share of the coupling that an edge of weight one gets."""

    @property
    def penalty(self) -> float:
        """The ridge penalty of the columns in the best candidate."""
        return float(self.parts[0].ridge[0])

    def predict(self, X: FloatArray, node: IntArray) -> FloatArray:
        """Return predictions for rows X (N, p), each by the model of its node."""
        return np.asarray(np.einsum("ri,ri->r", self.scale.columns(X), self.models[node]))

    def rescaled(self, X: FloatArray) -> Self:
        """Return the same settings for rows with columns that the earlier rows did not show."""
        centre, spread = rescaled(self.scale.centre, self.scale.spread, X)
        return replace(self, scale=replace(self.scale, centre=centre, spread=spread))

    def refitted(
        self, X: FloatArray, y: FloatArray, node: IntArray, n: int, laplacian: SparseMatrix = None
    ) -> NetworkRidge:
        """Refit to other rows, and possibly other nodes, with the settings found here.

        ``laplacian`` is that of the nodes' graph; it is not needed here, for the complete graph.
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
        """Return sums over rows of the standardised columns, and of these with curves."""
        scale, weight = self.scale, self.scale.weights(np.bincount(node, minlength=n))
        z = (y - scale.level) / scale.size
        straight = NodeSums.of(scale.columns(X, curves=False), z, node, n, weight)
        if scale.is_plain:
            return straight, straight
        return straight, NodeSums.of(scale.columns(X), z, node, n, weight)


class Rows:
    """Training rows with one set of columns, which judge candidates on the complete graph."""

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
        """Use these folds to judge candidates."""
        X, y, node, n, weight = self.X, self.y, self.node, self.sums.n, self.weight
        self.folds = folds
        self.kept = [NodeSums.of(X[f], y[f], node[f], n, weight) for f, _ in folds]

    def with_folds(self, folds: Sequence[Fold]) -> Rows:
        """Return the same rows with other folds to judge by."""
        if self.folds is folds:
            return self
        made = copy.copy(self)
        made.judge_by(folds)
        return made

    @property
    def pull(self) -> float:
        """The unit of pulls: the total weight of an average node's rows."""
        return float((self.sums.rows * self.weight).mean())

    def candidate(self, words: str, ridge: FloatArray, coupling: FloatArray | None) -> Candidate:
        """Solve for one coupling and judge it: by folds if there are any, else by evidence."""
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
        """Return residuals of rows that the averaged models have not seen: by folds, or leave-one-out."""
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


def mean(arrays: Sequence[FloatArray]) -> FloatArray:
    """Return the mean of arrays."""
    return np.asarray(np.mean(arrays, axis=0))


def square(residuals: FloatArray) -> float:
    """Return the mean square."""
    return float(np.mean(np.square(residuals)))


def _solve(
    sums: NodeSums, ridge: FloatArray, coupling: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Return models (n, d) and the nodes' blocks (n, d, d) of the inverse."""
    if coupling is None:
        w, inverse = solve_one(sums, ridge)
        return np.tile(w, (sums.n, 1)), np.tile(inverse, (sums.n, 1, 1))
    net = solve_complete(sums, ridge, coupling)
    return net.models, net.covariances()


def models_of(sums: NodeSums, part: Candidate) -> FloatArray:
    """Return the models (n, d) that a candidate's settings give."""
    if part.coupling is None:
        return np.tile(solve_one(sums, part.ridge)[0], (sums.n, 1))
    return solve_complete(sums, part.ridge, part.coupling).models


def ridge_of(penalty: float, d: int) -> FloatArray:
    """Return the diagonal of a ridge on all columns but the last, which is constant."""
    return np.append(np.full(d - 1, penalty), 0.0)
