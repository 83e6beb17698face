"""Softmax regression for a whole network: penalty, coupling and level are found from the rows.

The complete network of ``closed``, with the log loss instead of squared error: Newton's method, each step
a weighted least-squares network in closed form. Candidates are judged by the log loss of every row
under models that have not seen it, exact to first order (approximate leave-one-out).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedrelax.engines.whole.closed import NodeSums, level_and_shape, rows_of, solve_complete
from fedrelax.linear.arrays import centre_and_spread, rescaled
from fedrelax.models.additive import probabilities
from fedrelax.typing import AnyArray, FloatArray, IntArray, SparseMatrix

PENALTIES = (0.3, 3.0, 10.0)
"""Ridge penalties tried, in units of sums over a node's rows of standardised columns."""
STRENGTHS = (100.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.01)
"""Pulls of all other nodes together, relative to a node's own rows; each fit starts from the last."""
LEVELS = (1.0, 0.1, 0.01)
"""Shares of the pull that also apply to the level, which is the class frequencies."""
MANY_CLASSES, ROWS_PER_CLASS = 30, 4
"""Each fit takes time in proportion to the classes, so with more of them, or with fewer rows of each in the
mean, which tell little, fewer candidates are tried."""
FEW: tuple[tuple[float, ...], ...] = (3.0,), (10.0, 1.0, 0.1), (1.0, 0.1)
"""The penalties, strengths and levels that are tried then."""
AVERAGED = 5
"""How many of the best candidates are averaged: the average of linear scores is a linear score."""
STEPS, CLOSE = 30, 1e-3
ALONE = 0.1
"""Coupling of the level that keeps a node whose rows have one class from being certain."""
FAINT = 1e-3
"""Ridge of the constant column if every class has one, because only differences matter."""


@dataclass(frozen=True)
class SoftmaxCandidate:
    """Settings, the resulting models (scores, n, d), and the log loss of rows left out.

    A strength of 0 is every node alone, an infinite one is one model for all.
    """

    penalty: float
    strength: float
    level: float
    models: FloatArray
    loss: float

    @property
    def words(self) -> str:
        """The settings in words."""
        if self.strength == 0:
            return f"every node alone, penalty {self.penalty:g}"
        if np.isinf(self.strength):
            return f"one model for all, penalty {self.penalty:g}"
        pull = f"pull {self.strength:g}, {self.level:g} of it on the level"
        return f"penalty {self.penalty:g}, {pull}"


@dataclass(frozen=True)
class NetworkSoftmax:
    """One softmax model per node: linear scores (a single one for two classes) of standardised columns.

    ``parts`` are the candidates whose models are averaged, the best one first; ``apart`` is every node
    alone and ``one`` (scores, 1, d) one model for all, each with its best penalty. ``losses`` are the
    log losses on rows left out: alone, one model, together.
    """

    centre: FloatArray
    spread: FloatArray
    classes: int
    models: FloatArray
    parts: tuple[SoftmaxCandidate, ...]
    alone: SoftmaxCandidate
    pooled: SoftmaxCandidate
    losses: dict[str, float]

    @property
    def penalty(self) -> float:
        """The ridge penalty of the best candidate."""
        return self.parts[0].penalty

    @property
    def apart(self) -> FloatArray:
        """Every node alone."""
        return self.alone.models

    @property
    def one(self) -> FloatArray:
        """One model for all."""
        return self.pooled.models

    def predict(self, X: FloatArray, node: IntArray) -> FloatArray:
        """Return class probabilities (N, K) for rows X (N, p), each by the model of its node."""
        rows = np.column_stack([(X - self.centre) / self.spread, np.ones(len(X))])
        return probabilities(np.einsum("ri,kri->rk", rows, self.models[:, node]))

    def rescaled(self, X: FloatArray) -> NetworkSoftmax:
        """Return the same settings for rows with columns that the earlier rows did not show."""
        centre, spread = rescaled(self.centre, self.spread, X)
        return replace(self, centre=centre, spread=spread)

    def refitted(
        self, X: FloatArray, y: IntArray, node: IntArray, n: int, laplacian: SparseMatrix = None
    ) -> NetworkSoftmax:
        """Refit to other rows, and possibly other nodes, with the settings found here."""
        Z = np.column_stack([(X - self.centre) / self.spread, np.ones(len(X))])
        rows = _Rows(Z, y, node, n, self.classes)
        together = _Rows(Z, y, np.zeros_like(node), 1, self.classes)

        def again(part: SoftmaxCandidate) -> SoftmaxCandidate:
            own = together if np.isinf(part.strength) else rows
            return replace(part, models=own.models_of(part))

        parts, alone, pooled = tuple(map(again, self.parts)), again(self.alone), again(self.pooled)
        return replace(self, parts=parts, alone=alone, pooled=pooled, models=_averaged(parts, n))


def reason_for_few(classes: int, rows: int) -> str | None:
    """Return why only few settings are tried, or None."""
    if classes > MANY_CLASSES:
        return f"with more than {MANY_CLASSES} classes"
    if rows < ROWS_PER_CLASS * classes:
        return f"with {rows} rows of {classes} classes"
    return None


def choose_softmax(
    X: FloatArray,
    y: IntArray,
    node: IntArray,
    n: int,
    classes: int,
    *,
    folds: Sequence[tuple[AnyArray, AnyArray]] = (),
) -> NetworkSoftmax:
    """Choose and fit all nodes' models; ``y`` holds classes 0 .. classes - 1.

    ``folds`` (masks of rows to train on and to hold out) judge if rows of several nodes belong together.
    What is chosen must beat both every node alone and one model for all on rows left out. With more than
    ``MANY_CLASSES`` classes, or few rows of each, fewer candidates are tried.
    """
    centre, spread = centre_and_spread(X)
    Z = np.column_stack([(X - centre) / spread, np.ones(len(X))])
    judge = _Judge(Z, y, node, n, classes, folds)
    few = reason_for_few(classes, len(y)) is not None
    penalties, strengths, levels = FEW if few else (PENALTIES, STRENGTHS, LEVELS)
    pulls = [(strength, level) for level in levels for strength in strengths]
    tried = judge.path([(p, s, lv) for p in penalties for s, lv in pulls]) if n > 1 else []
    alone = min(judge.path([(p, 0.0, 1.0) for p in penalties]), key=_loss)
    whole = _Judge(Z, y, np.zeros_like(node), 1, classes, folds)
    pooled = min(whole.path([(p, np.inf, 1.0) for p in penalties]), key=_loss)
    best = tuple(sorted(tried, key=_loss)[:AVERAGED])
    for simple in (alone, pooled):
        if not best or simple.loss < best[0].loss:
            best = (simple,)
    losses = {"alone": alone.loss, "one model": pooled.loss, "together": best[0].loss}
    models = _averaged(best, n)
    return NetworkSoftmax(centre, spread, classes, models, best, alone, pooled, losses)


def _loss(candidate: SoftmaxCandidate) -> float:
    return candidate.loss


def _averaged(parts: Sequence[SoftmaxCandidate], n: int) -> FloatArray:
    """Return the mean of the candidates' models, one for each of n nodes."""
    models = np.asarray(np.mean([part.models for part in parts], axis=0))
    return np.repeat(models, n, axis=1) if models.shape[1] == 1 else models


class _Judge:
    """Training rows, and the folds held out of them."""

    def __init__(
        self,
        X: FloatArray,
        y: IntArray,
        node: IntArray,
        n: int,
        classes: int,
        folds: Sequence[tuple[AnyArray, AnyArray]],
    ) -> None:
        self.rows = _Rows(X, y, node, n, classes)
        self.kept = [_Rows(X[f], y[f], node[f], n, classes) for f, _ in folds]
        self.held = [(X[f], y[f], node[f]) for _, f in folds]

    def path(self, settings: Sequence[tuple[float, float, float]]) -> list[SoftmaxCandidate]:
        """Fit the candidates in order, each starting from the models of the one before."""
        found = []
        starts = [rows.zeros() for rows in (self.rows, *self.kept)]
        for penalty, strength, level in settings:
            fits = [
                rows.fit(*rows.coupled(penalty, strength, level), start)
                for rows, start in zip((self.rows, *self.kept), starts, strict=True)
            ]
            starts = [models for models, _ in fits]
            loss = self._held_loss(starts[1:]) if self.held else fits[0][1]
            found.append(SoftmaxCandidate(penalty, strength, level, starts[0], loss))
        return found

    def _held_loss(self, fits: Sequence[FloatArray]) -> float:
        losses = []
        for models, (X, y, node) in zip(fits, self.held, strict=True):
            found = probabilities(np.einsum("ri,kri->rk", X, models[:, node]))
            losses.append(-np.log(np.clip(found[np.arange(len(y)), y], 1e-6, 1.0)))
        return float(np.concatenate(losses).mean())


class _Rows:
    """Training rows, padded to one length so that all nodes are computed at once."""

    def __init__(self, X: FloatArray, y: IntArray, node: IntArray, n: int, classes: int) -> None:
        self.X, self.n = X, n
        self.scores = 1 if classes == 2 else classes
        own = rows_of(node, n)
        most = max(len(rows) for rows in own)
        self.place: AnyArray = np.full((n, most), -1)
        for i, rows in enumerate(own):
            self.place[i, : len(rows)] = rows
        self.there = self.place >= 0
        self.rows = np.where(self.there[..., None], X[self.place], 0.0)
        labels = np.eye(classes)[y][self.place]
        self.labels = labels[..., 1:] if self.scores == 1 else labels
        self.true = y[self.place]
        # Curvature across classes is left out; this factor makes up for it if classes are balanced.
        self.factor = 1.0 if self.scores == 1 else classes / (classes - 1.0)

    def zeros(self) -> FloatArray:
        """Return all-zero models, to start from."""
        return np.zeros((self.scores, self.n, self.X.shape[1]))

    def models_of(self, part: SoftmaxCandidate) -> FloatArray:
        """Return the models that a candidate's settings give."""
        return self.fit(*self.coupled(part.penalty, part.strength, part.level), self.zeros())[0]

    def coupled(
        self, penalty: float, strength: float, level: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return the ridge and the coupling of settings; alone, only the level is coupled, weakly."""
        d = self.X.shape[1]
        ridge = np.append(np.full(d - 1, penalty), 0.0 if self.scores == 1 else FAINT)
        if strength == 0 or np.isinf(strength):
            coupling = np.zeros((d, d))
            coupling[-1, -1] = ALONE
            return ridge, coupling
        Q, mean = self.X.T @ self.X / len(self.X), self.X.mean(axis=0)
        return ridge, strength * len(self.X) / self.n / 4.0 * level_and_shape(Q, mean, level)

    def fit(
        self, ridge: FloatArray, coupling: FloatArray, models: FloatArray
    ) -> tuple[FloatArray, float]:
        """Return the models for one coupling, starting at ``models``, and their leave-one-out loss."""
        n = self.n
        counts, ones = self.there.sum(axis=1), np.ones(n)
        for _ in range(STEPS):
            eta, p, curvature = self._at(models)
            new = np.empty_like(models)
            networks = []
            for k in range(self.scores):
                weighted = self.rows * curvature[..., k : k + 1]
                gram = weighted.transpose(0, 2, 1) @ self.rows
                slope = np.where(self.there, self.labels[..., k] - p[..., k], 0.0)
                moment = np.einsum("nij,nj->ni", gram, models[k])
                moment += np.einsum("nmi,nm->ni", self.rows, slope)
                sums = NodeSums(gram, moment, np.zeros(n), counts, ones)
                networks.append(solve_complete(sums, ridge, coupling))
                new[k] = networks[-1].models
            change, size = np.abs(new - models).max(), np.abs(new).max()
            models = new
            if change <= CLOSE * (1.0 + size):
                break
        eta, p, curvature = self._at(models)
        left = eta.copy()
        for k, network in enumerate(networks):
            block = self.rows @ network.covariances()
            reach = np.einsum("nmi,nmi->nm", block, self.rows)
            error = self.labels[..., k] - p[..., k]
            left[..., k] -= reach * error / np.maximum(1.0 - curvature[..., k] * reach, 1e-3)
        there = self.there
        found = probabilities(left[there])[np.arange(there.sum()), self.true[there]]
        return models, float(-np.log(np.clip(found, 1e-6, 1.0)).mean())

    def _at(self, models: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return scores, probabilities (of two classes, only the second's) and curvatures."""
        eta = np.einsum("nmi,kni->nmk", self.rows, models)
        p = probabilities(eta.reshape(-1, self.scores)).reshape(*eta.shape[:2], -1)
        p = p[..., 1:] if self.scores == 1 else p
        return eta, p, np.maximum(self.factor * p * (1.0 - p), 1e-4)
