"""A node's own rows as partial pooling needs them: the only code of it that sees labels.

Models are scores ``x'w`` of columns x: one score for numbers and for two classes, one less than there are
classes for more of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from fedrelax.typing import AnyArray, FloatArray, IntArray

STEPS, CLOSE, HALVINGS = 12, 1e-7, 8
"""Newton's steps for classes, the change after which they end, and how often one is halved."""
ROUNDING, ABSURD = 1e-9, 1e6
"""A sum of squares below zero by more than this share is lost in rounding errors; what is reported then."""
LEAST_LEFT = 0.05
"""The least part of a row's own influence that is left without it."""


def positions_of(node: IntArray, n: int) -> list[IntArray]:
    """Return the positions of every node's rows."""
    order = np.argsort(node, kind="stable")
    return np.split(order, np.cumsum(np.bincount(node, minlength=n))[:-1])


@dataclass(frozen=True)
class Fit:
    """Models (n, c, d) of n nodes and c scores, minus twice their log likelihood (n,), and its curvature.

    For numbers the noise has variance 1: ``loss`` is the sum of squares. ``gram`` (n, c, d, d) is the
    curvature of the rows, ``inverse`` that with the coupling, inverted.
    """

    models: FloatArray
    loss: FloatArray
    gram: FloatArray
    inverse: FloatArray


class OwnRows(Protocol):
    """The rows of some nodes."""

    def of(self, columns: IntArray, weight: FloatArray) -> OwnRows:
        """Return the same with some of the columns, and a weight for each node's rows."""

    def fit(self, consensus: FloatArray, coupling: FloatArray) -> Fit:
        """Fit models to the rows, pulled to each node's consensus (n, c, d) by strengths (d,)."""

    def left_out(self, models: FloatArray, covariance: FloatArray) -> FloatArray:
        """Return the scores (N, c) of every row under models that have not seen it.

        ``covariance`` (n, c, d, d) is that of a node's model: the inverse curvature of the whole.
        """


@dataclass(frozen=True)
class NumberRows:
    """Rows with numbers as targets: sums of squares and products say all."""

    X: FloatArray
    y: FloatArray
    node: IntArray
    gram: FloatArray
    moment: FloatArray
    power: FloatArray
    weight: FloatArray

    @classmethod
    def made(cls, X: FloatArray, y: FloatArray, node: IntArray, n: int) -> NumberRows:
        """Sum up rows X (N, d), targets (N,) and the node (N,) of each."""
        d = X.shape[1]
        gram, moment, power = np.zeros((n, d, d)), np.zeros((n, d)), np.zeros(n)
        for i, own in enumerate(positions_of(node, n)):
            gram[i], moment[i], power[i] = X[own].T @ X[own], X[own].T @ y[own], y[own] @ y[own]
        return cls(X, y, node, gram, moment, power, np.ones(n))

    def of(self, columns: IntArray, weight: FloatArray) -> NumberRows:
        """Return the sums for some of the columns, with a weight for each node's rows."""
        gram = self.gram[:, columns[:, None], columns] * weight[:, None, None]
        moment, power = self.moment[:, columns] * weight[:, None], self.power * weight
        return NumberRows(self.X[:, columns], self.y, self.node, gram, moment, power, weight)

    def fit(self, consensus: FloatArray, coupling: FloatArray) -> Fit:
        """Solve for all nodes."""
        inverse = np.asarray(np.linalg.inv(self.gram + np.diag(coupling)), dtype=float)
        start = consensus[:, 0]
        aims = self.moment - np.einsum("nkl,nl->nk", self.gram, start)
        models = start + np.einsum("nkl,nl->nk", inverse, aims)
        left = self.power - 2 * np.einsum("nk,nk->n", self.moment, models)
        left += np.einsum("nk,nkl,nl->n", models, self.gram, models)
        lost = left < -ROUNDING * self.power
        left = np.where(lost, ABSURD * self.power, np.maximum(left, 0.0))
        return Fit(models[:, None], left, self.gram[:, None], inverse[:, None])

    def left_out(self, models: FloatArray, covariance: FloatArray) -> FloatArray:
        """Leave every row out in turn, in closed form."""
        left = np.empty((len(self.X), 1))
        for i, own in enumerate(positions_of(self.node, len(models))):
            X, y = self.X[own], self.y[own]
            reach = self.weight[i] * np.einsum("ri,ij,rj->r", X, covariance[i, 0], X)
            rest = np.maximum(1.0 - reach, LEAST_LEFT)
            left[own, 0] = y - (y - X @ models[i, 0]) / rest
        return left


@dataclass(frozen=True)
class ClassRows:
    """Rows with classes 0 .. K - 1 as targets, padded so that all nodes are computed at once."""

    X: FloatArray
    """(n, r, d)."""
    y: IntArray
    """(n, r), -1 where there is no row."""
    place: IntArray
    contrasts: FloatArray
    """(K, c), from scores to those of the classes."""

    @classmethod
    def made(cls, X: FloatArray, y: IntArray, node: IntArray, n: int, classes: int) -> ClassRows:
        """Pad rows X (N, d), classes (N,) and the node (N,) of each."""
        own = positions_of(node, n)
        place = np.full((n, max(1, *(len(rows) for rows in own))), -1)
        for i, rows in enumerate(own):
            place[i, : len(rows)] = rows
        there = place >= 0
        if not len(X):
            nothing = np.zeros((*place.shape, X.shape[1]))
            return cls(nothing, place, place, contrasts_of(classes))
        padded, labels = np.where(there[..., None], X[place], 0.0), np.where(there, y[place], -1)
        return cls(padded, labels, place, contrasts_of(classes))

    def of(self, columns: IntArray, weight: FloatArray) -> ClassRows:
        """Return the same with some of the columns; every row counts the same."""
        return replace(self, X=self.X[..., columns])

    @cached_property
    def there(self) -> AnyArray:
        """Which rows are rows."""
        return self.y >= 0

    @cached_property
    def labels(self) -> FloatArray:
        """One column per class."""
        return np.eye(len(self.contrasts))[self.y] * self.there[..., None]

    def fit(self, consensus: FloatArray, coupling: FloatArray) -> Fit:
        """Take Newton's steps, without the curvature between scores, from the consensus."""
        n, pull = len(self.X), np.diag(coupling)
        models = consensus
        loss, p = self._at(models)
        worth = loss.copy()
        for _ in range(STEPS):
            gram = self._gram(p)
            slope = self._slope(p) + (models - consensus) * coupling
            step = np.linalg.solve(gram + pull, slope[..., None])[..., 0]
            size = np.ones(n)
            for _ in range(HALVINGS):
                tried = models - size[:, None, None] * step
                loss_tried, p = self._at(tried)
                worth_tried = loss_tried + np.square(tried - consensus).sum(axis=1) @ coupling
                worse = worth_tried > worth + CLOSE
                if not worse.any():
                    break
                size = np.where(worse, size / 2, size)
            change = np.abs(tried - models).max()
            models, loss, worth = tried, loss_tried, worth_tried
            if change <= CLOSE * (1.0 + np.abs(models).max()):
                break
        gram = self._gram(p)
        inverse = np.asarray(np.linalg.inv(gram + pull), dtype=float)
        return Fit(models, loss, gram, inverse)

    def left_out(self, models: FloatArray, covariance: FloatArray) -> FloatArray:
        """Leave every row out in turn, exact to first order."""
        _, p = self._at(models)
        error, q = (self.labels - p) @ self.contrasts, self._curvature(p)
        reach = np.einsum("nri,ncij,nrj->nrc", self.X, covariance, self.X, optimize=True)
        scores = np.einsum("nri,nci->nrc", self.X, models)
        left = scores - reach * error / np.maximum(1.0 - q * reach, LEAST_LEFT)
        out = np.empty((int(self.there.sum()), left.shape[2]))
        out[self.place[self.there]] = left[self.there]
        return out

    def _at(self, models: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return minus twice every node's log likelihood, and the probabilities (n, r, K)."""
        scores = np.einsum("nri,nci->nrc", self.X, models) @ self.contrasts.T
        scores = scores - scores.max(axis=-1, keepdims=True)
        p = np.exp(scores)
        total = p.sum(axis=-1, keepdims=True)
        own = (self.labels * (scores - np.log(total))).sum(axis=(1, 2))
        return -2.0 * own, p / total

    def _slope(self, p: FloatArray) -> FloatArray:
        left = ((p - self.labels) * self.there[..., None]) @ self.contrasts
        return np.asarray(left.transpose(0, 2, 1) @ self.X)

    def _curvature(self, p: FloatArray) -> FloatArray:
        C = self.contrasts
        return np.asarray((p @ np.square(C) - np.square(p @ C)) * self.there[..., None])

    def _gram(self, p: FloatArray) -> FloatArray:
        q = self._curvature(p).transpose(0, 2, 1)
        return np.asarray((self.X.transpose(0, 2, 1)[:, None] * q[:, :, None]) @ self.X[:, None])


def contrasts_of(classes: int) -> FloatArray:
    """Return orthonormal contrasts (K, K - 1) of K classes; of two, the score of the second."""
    if classes == 2:
        return np.array([[0.0], [1.0]])
    vectors = np.linalg.qr(np.column_stack([np.ones(classes), np.eye(classes)[:, :-1]]))[0]
    return np.asarray(vectors[:, 1:], dtype=np.float64)
