"""Partial pooling by exchange: a mixed model whose parts never leave the nodes.

Node i has rows ``X_i``, ``y_i`` and the model ``w_i = m + c_i``: the consensus and its own difference.
All models together minimise

    sum_i |X_i w_i - y_i|^2 + c_i'P c_i + m'R m,

with diagonal strengths P, of the coupling, and R, of the common part. Given m, a node finds its
difference from its own rows, ``c_i = M_i (b_i - S_i m)`` with ``M_i = (S_i + P)^-1``, and says what its
model answers on public rows. From these answers everybody knows the gradient ``sum_i P c_i - R m`` of the
consensus. Its curvature, ``sum_i S_i M_i P + R``, needs the nodes' rows; an estimate has the public rows of
each node in their place, and is corrected along its own eigenvectors by the curvature that nodes report
there. So a round is nearly a step of Newton's method. The strengths are learned on the way, by MacKay's
rule for the evidence (the restricted likelihood of the mixed model), from sums of numbers that every node
reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from fedrelax.typing import FloatArray, IntArray

LEAST, MOST = 1e-6, 1e5
"""The least strength that is learned, and the largest relative to a node's rows."""
FEW_FREE = 1e-3
"""The least share of its coefficients that a strength is learned from."""
TIED_ROUNDS = 3
"""Rounds in which all columns have one strength of coupling, before each learns its own."""
LOST = 100.0
"""Where a step promises to lower the loss by more than this many times the loss, the rounds diverge."""
FAR_OFF = 30.0
"""The most by which public rows may mistake the scale of a column's curvature."""
ROUNDING = 1e-9
"""A sum of squares below zero by more than this share is lost in rounding errors."""
ABSURD = 1e6
"""The loss, relative to the sum of squares, that is reported instead."""
RESTING = 3
"""Rounds at the end in which no strength is learned, so that the consensus comes to rest."""


@dataclass(frozen=True)
class Moments:
    """Sums over the rows of some nodes: Gram matrices (n, d, d), moments (n, d), squares and rows (n,)."""

    gram: FloatArray
    moment: FloatArray
    power: FloatArray

    def of(self, columns: IntArray, weight: FloatArray) -> Moments:
        """Return the sums for some of the columns, with a weight for each node's rows."""
        gram = self.gram[:, columns[:, None], columns] * weight[:, None, None]
        return Moments(gram, self.moment[:, columns] * weight[:, None], self.power * weight)


@dataclass(frozen=True)
class Question:
    """What all nodes are asked in a round, known to everybody.

    ``directions`` (d, d) are those along which nodes report curvature, as columns; ``spread`` (d, d) is
    the estimated covariance of the consensus.
    """

    consensus: FloatArray
    common: FloatArray
    coupling: FloatArray
    directions: FloatArray
    spread: FloatArray


@dataclass(frozen=True)
class Reply:
    """What nodes say in a round: models (n, d), which answers on public rows show, and numbers.

    ``loss`` (n,) is the minimised sum without the common part, ``log_determinant`` (n,) that of M_i;
    ``uncertainty``, ``curvature`` and ``along`` (n, d) are the variances of the difference, the diagonal of
    the node's curvature and its values along the directions asked for.
    """

    models: FloatArray
    loss: FloatArray
    log_determinant: FloatArray
    uncertainty: FloatArray
    curvature: FloatArray
    along: FloatArray

    @property
    def numbers(self) -> FloatArray:
        """All numbers besides the models, one row per node."""
        return np.column_stack([getattr(self, f.name) for f in fields(self)[1:]])

    @classmethod
    def of(cls, models: FloatArray, numbers: FloatArray) -> Reply:
        """Return the reply with these models and numbers."""
        d = models.shape[1]
        ends = np.cumsum([1, 1, d, d])
        loss, log_determinant, *rest = np.split(numbers, ends, axis=1)
        return cls(models, loss[:, 0], log_determinant[:, 0], *rest)

    @staticmethod
    def size(columns: int) -> int:
        """Return how many numbers a node reports."""
        return 2 + 3 * columns


def reply(own: Moments, asked: Question) -> Reply:
    """Return what nodes say: the only computation that needs their rows."""
    P, S, m = asked.coupling, own.gram, asked.consensus
    M = np.linalg.inv(S + np.diag(P))
    SM = S @ M
    difference = np.einsum("nkl,nl->nk", M, own.moment - S @ m)
    models = m + difference
    left = own.power - 2 * np.einsum("nk,nk->n", own.moment, models)
    left += np.einsum("nk,nkl,nl->n", models, S, models)
    left = np.where(left < -ROUNDING * own.power, ABSURD * own.power, np.maximum(left, 0.0))
    moved = SM.transpose(0, 2, 1)  # M_i S_i, by which the consensus moves the difference
    uncertainty = np.einsum("nkk->nk", M) + np.einsum("nkl,lm,nkm->nk", moved, asked.spread, moved)
    curvature = SM * P
    along = np.einsum("ak,nab,bk->nk", asked.directions, curvature, asked.directions)
    return Reply(
        models=models,
        loss=left + np.square(difference) @ P,
        log_determinant=np.linalg.slogdet(M)[1],
        uncertainty=uncertainty,
        curvature=np.einsum("nkk->nk", curvature),
        along=along,
    )


@dataclass
class Pooling:
    """One candidate's common knowledge: the same at all nodes, as all hear the same replies.

    ``score`` is minus twice the log evidence, up to a constant; ``models`` are those of the last replies.
    ``alone`` are nodes without a consensus. ``coupled`` are groups of columns with a strength of coupling
    each, ``tied`` those of the first rounds, ``shrunk`` the groups with a strength of the common part.
    """

    public: FloatArray
    """Estimates (n, d, d) of the nodes' Gram matrices, from their public rows."""
    rows: IntArray
    unit: float
    """The mean number of rows, to which the largest strength is relative."""
    coupling: FloatArray
    common: FloatArray
    coupled: Sequence[IntArray]
    tied: Sequence[IntArray]
    shrunk: Sequence[IntArray]
    rounds: int
    alone: bool = False

    def __post_init__(self) -> None:
        d = len(self.coupling)
        self.consensus, self.models, self.round = np.zeros(d), np.zeros((len(self.rows), d)), 0
        self.score = np.inf
        self.ratio, self.step, self.slope = np.ones(d), 1.0, np.inf

    def question(self) -> Question:
        """Return what nodes are asked next."""
        P, R, d = self.coupling, self.common, len(self.coupling)
        if self.alone:
            return Question(self.consensus, R, P, np.zeros((d, d)), np.zeros((d, d)))
        S, ratio = self.public, self.ratio
        H = ((S @ np.linalg.inv(S + np.diag(P))) * P).sum(axis=0)
        H = ratio[:, None] * (H + H.T) / 2 * ratio
        self._guess = np.diag(H)
        scale = np.sqrt(self._guess + R + 1e-9)
        values, vectors = np.linalg.eigh((H + np.diag(R)) / scale[:, None] / scale)
        self._scale, directions = scale, vectors / scale[:, None]
        spread = (directions / np.maximum(values, 1e-9)) @ directions.T
        return Question(self.consensus, R, P, directions, spread)

    def hear(self, asked: Question, replies: Reply) -> None:
        """Take the replies of all nodes to a question: score, move the consensus, learn strengths.

        Replies that lead to numbers which are not finite change nothing but the score, which is infinite.
        """
        names = ("consensus", "coupling", "common", "ratio", "step", "slope")
        before = {name: getattr(self, name) for name in names}
        with np.errstate(all="ignore"):
            self._hear(asked, replies)
        if not all(np.isfinite(getattr(self, name)).all() for name in names[:4]):
            vars(self).update(before, score=np.inf)

    def _hear(self, asked: Question, replies: Reply) -> None:
        P, R, n, m = self.coupling.copy(), self.common.copy(), len(self.rows), self.consensus
        difference = replies.models - m
        loss = max(float(replies.loss.sum() + m**2 @ R), 1e-300)
        shrunk, total = R > 0, int(self.rows.sum())
        free = total if self.alone else max(total - int((~shrunk).sum()), 1)
        score = free * np.log(loss) - replies.log_determinant.sum() - n * np.log(P).sum()
        spread = np.zeros((len(P), len(P)))
        if not self.alone:
            along = replies.along.sum(axis=0)
            along = np.maximum(along + np.square(asked.directions).T @ R, 1e-9)
            score += np.log(along).sum() + 2 * np.log(self._scale).sum() - np.log(R[shrunk]).sum()
            spread = (asked.directions / along) @ asked.directions.T
            if self._move(difference, spread) > LOST * loss:
                score = np.inf
            curvature = np.maximum(replies.curvature.sum(axis=0), 1e-12)
            ratio = self.ratio * np.sqrt(curvature / np.maximum(self._guess, 1e-12))
            self.ratio = np.clip(ratio, 1 / FAR_OFF, FAR_OFF)
        self.models, self.score, self.round = replies.models, float(score), self.round + 1
        if self.round > self.rounds - RESTING:
            return
        noise = max(loss / free, 1e-12)
        size, unsure = np.square(difference).sum(axis=0) / noise, replies.uncertainty.sum(axis=0)
        for group in self.tied if self.round <= TIED_ROUNDS else self.coupled:
            P[group] = _learned(P[group], size[group], unsure[group], n, LEAST, MOST * self.unit)
        if not self.alone:
            size, unsure = self.consensus**2 / noise, np.diag(spread)
            for group in self.shrunk:
                R[group] = _learned(R[group], size[group], unsure[group], 1, LEAST, 1e9)
        self.coupling, self.common = P, R

    def _move(self, difference: FloatArray, spread: FloatArray) -> float:
        """Take a step of Newton's method, shorter if the last one went too far; return what it promises."""
        gradient = self.coupling * difference.sum(axis=0) - self.common * self.consensus
        slope = float(gradient @ spread @ gradient)
        self.step = self.step / 2 if slope > self.slope else min(1.0, 1.5 * self.step)
        self.slope = slope
        self.consensus = self.consensus + self.step * spread @ gradient
        return slope


def _learned(
    strength: FloatArray,
    size: FloatArray,
    unsure: FloatArray,
    n: int,
    least: float,
    most: float,
) -> float:
    """Return MacKay's estimate of a strength that some coefficients of n nodes have in common."""
    many = n * len(strength)
    free = max(many - float(strength @ unsure), FEW_FREE * many)
    return float(np.clip(free / max(float(size.sum()), 1e-12), least, most))
