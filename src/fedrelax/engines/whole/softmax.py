"""Softmax regression for a whole network with nothing to set: penalty, coupling and level from the rows.

The complete network of ``closed``, with the log loss in the place of squares: Newton's method, each step
a weighted least-squares network in closed form. Candidates are judged by the log loss of every row
under models that have not seen it, to first order exact (approximate leave-one-out).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedrelax.engines.whole.closed import NodeSums, level_and_shape, rows_of, solve_complete
from fedrelax.typing import AnyArray, FloatArray, IntArray

PENALTIES = (0.3, 3.0, 10.0)
"""Ridge penalties tried, in the units of sums over a node's rows of standardised columns."""
STRENGTHS = (100.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.01)
"""Pulls of all other nodes together, relative to a node's own rows; each starts from the one before."""
LEVELS = (1.0, 0.1, 0.01)
"""Shares of the pull that also hold for the level: the shares of classes."""
AVERAGED = 5
"""So many of the best candidates are averaged: the average of linear scores is a linear score."""
STEPS, CLOSE = 30, 1e-3
ALONE = 0.1
"""Coupling of the level that keeps a node with rows of one class from certainty."""
FAINT = 1e-3
"""Ridge of the constant column where every class has one: only differences matter."""


@dataclass(frozen=True)
class SoftmaxCandidate:
    """Settings, the models (scores, n, d) they give, and the log loss of rows left out."""

    penalty: float
    strength: float
    level: float
    models: FloatArray
    loss: float


@dataclass(frozen=True)
class NetworkSoftmax:
    """One softmax model for each node: linear scores (one for two classes) of standardised columns."""

    centre: FloatArray
    spread: FloatArray
    models: FloatArray
    tried: tuple[SoftmaxCandidate, ...]
    apart: SoftmaxCandidate
    """Every node alone, with the penalty that suits them."""

    def predict(self, X: FloatArray, node: IntArray) -> FloatArray:
        """Return class probabilities (N, K) for rows X (N, p), each by the model of its node."""
        rows = np.column_stack([(X - self.centre) / self.spread, np.ones(len(X))])
        return probabilities(np.einsum("ri,kri->rk", rows, self.models[:, node]))


def probabilities(scores: FloatArray) -> FloatArray:
    """Return the softmax of scores (N, K); a single column is the second class against the first."""
    if scores.shape[1] == 1:
        scores = np.column_stack([np.zeros(len(scores)), scores[:, 0]])
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def choose_softmax(
    X: FloatArray, y: IntArray, node: IntArray, n: int, classes: int
) -> NetworkSoftmax:
    """Choose and fit all nodes' models; ``y`` holds classes 0 .. classes - 1."""
    centre, spread = X.mean(axis=0), X.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    rows = _Rows(np.column_stack([(X - centre) / spread, np.ones(len(X))]), y, node, n, classes)
    d = rows.X.shape[1]
    Q, mean = rows.X.T @ rows.X / len(X), rows.X.mean(axis=0)
    unit = len(X) / n / 4.0
    tried = []
    for penalty in PENALTIES:
        ridge = np.append(np.full(d - 1, penalty), 0.0 if rows.scores == 1 else FAINT)
        for level in LEVELS:
            models = np.zeros((rows.scores, n, d))
            for strength in STRENGTHS:
                coupling = strength * unit * level_and_shape(Q, mean, level)
                models, loss = rows.fit(ridge, coupling, models)
                tried.append(SoftmaxCandidate(penalty, strength, level, models, loss))
    faint = np.zeros((d, d))
    faint[-1, -1] = ALONE
    alone = []
    for penalty in PENALTIES:
        ridge = np.append(np.full(d - 1, penalty), 0.0 if rows.scores == 1 else FAINT)
        found, loss = rows.fit(ridge, faint, np.zeros((rows.scores, n, d)))
        alone.append(SoftmaxCandidate(penalty, 0.0, 1.0, found, loss))
    best = sorted(tried, key=lambda candidate: candidate.loss)[:AVERAGED]
    models = np.asarray(np.mean([candidate.models for candidate in best], axis=0))
    apart = min(alone, key=lambda candidate: candidate.loss)
    return NetworkSoftmax(centre, spread, models, tuple(tried), apart)


class _Rows:
    """Training rows, padded to one length so that all nodes are multiplied at once."""

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
        # Curvature across classes is left out; this factor makes up for it where classes are even.
        self.factor = 1.0 if self.scores == 1 else classes / (classes - 1.0)

    def fit(
        self, ridge: FloatArray, coupling: FloatArray, models: FloatArray
    ) -> tuple[FloatArray, float]:
        """Return the models for one coupling, starting at ``models``, and their loss left out."""
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
        """Return scores, probabilities (of the second class if there are two) and curvatures."""
        eta = np.einsum("nmi,kni->nmk", self.rows, models)
        p = probabilities(eta.reshape(-1, self.scores)).reshape(*eta.shape[:2], -1)
        p = p[..., 1:] if self.scores == 1 else p
        return eta, p, np.maximum(self.factor * p * (1.0 - p), 1e-4)
