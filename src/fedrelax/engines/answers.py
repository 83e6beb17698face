"""Answers of all nodes on one common public set, (nodes, rows, outputs), and how far apart they are."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.special import xlogy

from fedrelax.losses import Loss, Squared
from fedrelax.losses.classification import SMALLEST
from fedrelax.public import PublicRows, Smoother
from fedrelax.runtime.site import Site, distances
from fedrelax.typing import AnyArray, FloatArray, Label, SparseMatrix

AT_ONCE = 1 << 20
"""Numbers compared at a time, so that they stay in cache."""


def mean_square(values: FloatArray) -> FloatArray:
    """Return the mean square of every node's numbers."""
    flat = values.reshape(len(values), -1)
    return np.asarray(np.einsum("ij,ij->i", flat, flat) / flat.shape[1])


def learners_of(edges: SparseMatrix) -> AnyArray:
    """Return the row of every stored entry of a CSR matrix."""
    return np.repeat(np.arange(edges.shape[0]), np.diff(edges.indptr))


def discrepancies(
    edges: SparseMatrix, own: FloatArray, told: FloatArray, loss: Loss, level: float, classes: bool
) -> FloatArray:
    """Return d(i, j) for every stored entry: node i's own answers against what j has sent."""
    learners = learners_of(edges)
    values = np.empty(len(learners))
    most = max(1, AT_ONCE // max(own[0].size, 1))
    for low in range(0, len(values), most):
        part = slice(low, low + most)
        mine, theirs = own[learners[part]], told[edges.indices[part]]
        values[part] = distances(mine, theirs, loss, level, classes)
    return values


def variations(
    edges: SparseMatrix,
    own: FloatArray,
    told: FloatArray,
    heard: FloatArray,
    loss: Loss,
    level: float,
    classes: bool,
) -> FloatArray:
    """Return ``sum_j A_ij d(i, j)`` of every node; ``heard`` is ``sum_j A_ij v_j`` of the answers sent.

    Neither loss needs to visit single edges: ``sum_j A_ij |p_i - v_j|^2 = deg_i |p_i|^2 - 2 p_i'
    heard_i + sum_j A_ij |v_j|^2``, and similarly for the log loss. For classes with a level below 1,
    the targets differ from edge to edge, so every edge is visited.
    """
    if level < 1.0 and classes:
        values = edges.data * discrepancies(edges, own, told, loss, level, classes)
        return np.bincount(learners_of(edges), values, len(own)).astype(np.float64)
    if isinstance(loss, Squared):
        return _squared(edges, own, told, heard, level)
    entropy = xlogy(told, told).sum(axis=2).mean(axis=1)
    likely = np.log(np.clip(own, SMALLEST, 1.0))
    cross = (heard * likely).sum(axis=2).mean(axis=1)
    return np.asarray(np.maximum(edges @ entropy - cross, 0.0))


def _squared(
    edges: SparseMatrix, own: FloatArray, told: FloatArray, heard: FloatArray, level: float
) -> FloatArray:
    centre = told.mean(axis=0)  # subtracted: the common part would swamp the differences
    degree = np.asarray(edges.sum(axis=1), dtype=float).reshape(-1)
    mine, theirs = own - centre, told - centre
    between = np.einsum("ipk,ipk->i", mine, heard) - degree * np.einsum("ipk,pk->i", mine, centre)
    rows = own.shape[1]
    size = rows * own.shape[2]
    squares = degree * mean_square(mine) * size - 2 * between
    squares += edges @ (mean_square(theirs) * size)
    values = squares / rows
    if level < 1.0:
        levels, others = own.mean(axis=1), told.mean(axis=1)
        learners = learners_of(edges)
        gap = np.square(levels[learners] - others[edges.indices]).sum(axis=1)
        values -= (1.0 - level) * np.bincount(learners, edges.data * gap, len(own))
    return np.asarray(np.maximum(values, 0.0))


class AnswerExtrapolator:
    """Estimates what neighbours would predict on a site's rows from their answers on public rows."""

    def __init__(self, public: PublicRows) -> None:
        self._public = public
        self._smoothers: dict[Label | None, Smoother] = {}
        self._told: dict[int, tuple[FloatArray, FloatArray]] = {}
        """By id: most answers are one array for all who hear it. Storing the array keeps its id valid."""

    def losses(self, site: Site, others: Iterable[Label]) -> dict[Label, float]:
        """Return the site's loss on its own rows if it predicted them with each neighbour's answers."""
        X, common = self._public.as_numbers(site.node.X), self._public.common is not None
        weights = self._smoother(site.label).weights(X) if common else None
        found: dict[Label, float] = {}
        for j in others:
            answer = site.received.get((j, j))
            if answer is None:
                found[j] = np.inf
                continue
            smoother = self._smoother(j)
            if id(answer) not in self._told:
                self._told[id(answer)] = answer, smoother.coefficients(answer)
            K = smoother.weights(X) if weights is None else weights
            guess = site.task.plausible(K @ self._told[id(answer)][1])
            found[j] = site.coupling.loss.mean(site.target, guess)
        return found

    def _smoother(self, owner: Label) -> Smoother:
        key = None if self._public.common is not None else owner
        if key not in self._smoothers:
            self._smoothers[key] = Smoother(self._public.as_numbers(self._public.of(owner)))
        return self._smoothers[key]
