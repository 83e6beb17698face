"""Partial pooling by exchange: a mixed model whose parts never leave the nodes.

Node i has the model ``w_i = m + c_i``: the consensus and its own difference. All models together minimise

    sum_i L_i(w_i) + c_i'P c_i + m'R m,

with L_i the sum of squares on the node's rows, or minus twice the log likelihood of its classes, and with
diagonal strengths P, of the coupling, and R, of the common part. Given m, a node finds its difference
from its own rows, and says what its model answers on public rows. From these answers everybody knows the
gradient ``sum_i P c_i - R m`` of the consensus. Its curvature, ``sum_i S_i M_i P + R`` with
``M_i = (S_i + P)^-1`` and S_i that of L_i, needs the nodes' rows; an estimate has the public rows of each
node in their place, and is corrected along its own eigenvectors by the curvature that nodes report there.
So a round is nearly a step of Newton's method. The strengths are learned on the way, by MacKay's rule for
the evidence (the restricted likelihood of the mixed model; Laplace's approximation of it for classes), from
sums of numbers that every node reports. With several classes there are several scores, which share P
and R; their curvature is taken one by one.

On a graph the consensus may differ from node to node: ``m_i = sum_k B_ik m_k`` with smooth functions B of
the nodes, the first of them constant, and with a penalty of each m_k that grows with how rough B_k is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from fedrelax.pooling.rows import OwnRows
from fedrelax.typing import AnyArray, FloatArray, IntArray, SparseMatrix

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
MOST_FUNCTIONS = 20
"""Functions of the nodes along which the consensus may vary."""
MOST_PARTS = 800
"""Columns times functions of the nodes, at most: a round takes a time with the cube of these."""
LEAST_ROUGHNESS = 1e-3
"""The least roughness of a function that is not constant."""
RESTING = 2
"""Rounds at the end in which no strength is learned, so that the consensus comes to rest."""


@dataclass(frozen=True)
class Question:
    """What all nodes are asked in a round, known to everybody.

    For each of c scores: the ``consensus`` (c, k, d), of which a node's own part is given by its
    ``place`` (n, k), ``directions`` (c, kd, kd) along which nodes report curvature, as columns, and
    ``spread`` (c, kd, kd), the estimated covariance of the consensus.
    """

    place: FloatArray
    consensus: FloatArray
    coupling: FloatArray
    directions: FloatArray
    spread: FloatArray
    common: AnyArray
    """Which columns (d,) are common to all nodes."""

    def at(self, nodes: IntArray) -> Question:
        """Return what these nodes are asked."""
        return replace(self, place=self.place[nodes])

    @property
    def local(self) -> FloatArray:
        """The consensus at every node (n, c, d)."""
        return np.asarray(np.einsum("nk,ckd->ncd", self.place, self.consensus))

    @property
    def local_spread(self) -> FloatArray:
        """The covariance of that (n, c, d, d)."""
        c, k, d = self.consensus.shape
        if k == 1:
            return np.asarray(np.square(self.place)[..., None, None] * self.spread)
        blocks = self.spread.reshape(c, k, d, k, d)
        at = self.place
        return np.asarray(np.einsum("nk,ckalb,nl->ncab", at, blocks, at, optimize=True))


@dataclass(frozen=True)
class Reply:
    """What nodes say in a round: models (n, c, d), which answers on public rows show, and numbers.

    ``loss`` (n,) is the minimised sum without the common part, ``log_determinant`` (n,) that of M_i;
    ``uncertainty`` (n, d) are the variances of the difference, ``pull`` (n, c, d) is the gradient along
    columns that are common to all nodes, whose differences are too small for answers to show,
    ``curvature`` (n, c, d) is the diagonal of the node's curvature, and ``along`` (n, c, kd) are its values
    along the directions asked for.
    """

    models: FloatArray
    loss: FloatArray
    log_determinant: FloatArray
    uncertainty: FloatArray
    pull: FloatArray
    curvature: FloatArray
    along: FloatArray

    @property
    def numbers(self) -> FloatArray:
        """All numbers besides the models, one row per node."""
        parts = (getattr(self, f.name) for f in fields(self)[1:])
        return np.column_stack([part.reshape(len(self.models), -1) for part in parts])

    @classmethod
    def of(cls, models: FloatArray, numbers: FloatArray) -> Reply:
        """Return the reply with these models and numbers."""
        n, c, d = models.shape
        ends = np.cumsum([1, 1, d, c * d, c * d])
        loss, log_determinant, unsure, *rest = np.split(numbers, ends, axis=1)
        pull, curvature, along = (part.reshape(n, c, -1) for part in rest)
        return cls(models, loss[:, 0], log_determinant[:, 0], unsure, pull, curvature, along)

    @classmethod
    def joined(cls, replies: Sequence[Reply]) -> Reply:
        """Return the replies of several nodes as one."""
        return cls(
            *(np.concatenate([getattr(one, f.name) for one in replies]) for f in fields(cls))
        )

    @staticmethod
    def size(scores: int, columns: int, places: int = 1) -> int:
        """Return how many numbers a node reports."""
        return 2 + (1 + (2 + places) * scores) * columns


def reply(own: OwnRows, asked: Question) -> Reply:
    """Return what nodes say: the only computation that needs their rows."""
    P, local = asked.coupling, asked.local
    fitted = own.fit(local, P)
    M, SM = fitted.inverse, fitted.gram @ fitted.inverse
    moved = SM.swapaxes(-1, -2)  # M_i S_i, by which the consensus moves the difference
    spread = asked.local_spread
    unsure = np.einsum("nckk->nk", M) + np.einsum("nckl,nckl->nk", moved @ spread, moved)
    curvature = SM * P
    directions = asked.directions.reshape(*asked.consensus.shape, -1)
    here = np.tensordot(asked.place, directions, axes=(1, 1))
    squares = curvature @ here
    squares *= here
    return Reply(
        models=fitted.models,
        loss=fitted.loss + np.square(fitted.models - local).sum(axis=1) @ P,
        log_determinant=np.linalg.slogdet(M)[1].sum(axis=1),
        uncertainty=unsure,
        pull=(fitted.models - local) * P * asked.common,
        curvature=np.einsum("nckk->nck", curvature),
        along=squares.sum(axis=2),
    )


def covariances(own: OwnRows, asked: Question) -> tuple[FloatArray, FloatArray]:
    """Return models (n, c, d), and their covariances (n, c, d, d) up to the variance of the noise."""
    fitted = own.fit(asked.local, asked.coupling)
    kept = fitted.inverse * asked.coupling  # M_i P, by which the consensus moves the model
    return fitted.models, fitted.inverse + kept @ asked.local_spread @ kept.swapaxes(-1, -2)


@dataclass(frozen=True)
class Smooth:
    """Functions of the nodes on a graph: a constant, then the smoothest ones, as columns of ``values``.

    ``roughness`` is what the graph's Laplacian makes of all but the first.
    """

    values: FloatArray
    roughness: FloatArray

    @classmethod
    def of(cls, laplacian: SparseMatrix) -> Smooth:
        """Return the functions for a graph, scaled to a mean square of one."""
        n = laplacian.shape[0]
        L = laplacian.toarray() / max(float(laplacian.diagonal().mean()), 1e-300)
        values, vectors = np.linalg.eigh(L)
        few = slice(1, 1 + min(MOST_FUNCTIONS, n - 1))
        roughness = np.maximum(values[few], LEAST_ROUGHNESS)
        functions = np.sqrt(n) * vectors[:, few]
        return cls(np.column_stack([np.ones(n), functions]), roughness)

    def for_columns(self, count: int) -> Smooth:
        """Return as many of the functions as suit models of so many columns."""
        few = max(2, MOST_PARTS // count)
        return Smooth(self.values[:, :few], self.roughness[: few - 1])


@dataclass
class Pooling:
    """One candidate's common knowledge: the same at all nodes, as all hear the same replies.

    ``score`` is minus twice the log evidence, up to a constant. ``alone`` are nodes without a consensus.
    ``coupled`` are groups of columns with a strength of coupling each, ``tied`` those of the first rounds,
    ``shrunk`` the groups with a strength of the common part.
    """

    public: FloatArray
    """Estimates (n, d, d) of the nodes' curvature, from their public rows."""
    rows: IntArray
    unit: float
    """The mean curvature of a node's rows, to which the largest strength is relative."""
    coupling: FloatArray
    common: FloatArray
    coupled: Sequence[IntArray]
    tied: Sequence[IntArray]
    shrunk: Sequence[IntArray]
    rounds: int
    scores: int = 1
    noise: float | None = None
    """The variance of the noise; None if it is to be learned."""
    alone: bool = False
    smooth: Smooth | None = None
    """Functions of the nodes, along which the consensus varies; without them it is the same for all."""

    def __post_init__(self) -> None:
        c, d, n = self.scores, len(self.coupling), len(self.rows)
        self.place = np.ones((n, 1)) if self.smooth is None else self.smooth.values
        self.along_graph = np.full(d, n * self.unit)
        self.consensus, self.round, self.score = np.zeros((c, self.place.shape[1], d)), 0, np.inf
        self.ratio, self.step, self.slope = np.ones((c, d)), 1.0, np.inf
        self.faint = float(self.coupling[-1])
        self._is_common = np.ones(d, dtype=bool)
        for group in self.coupled:
            self._is_common[group] = False

    @property
    def penalty(self) -> FloatArray:
        """The strengths (k, d) of all parts of the consensus."""
        if self.smooth is None:
            return self.common[None]
        return np.vstack([self.common, self.smooth.roughness[:, None] * self.along_graph])

    def question(self) -> Question:
        """Return what nodes are asked next."""
        P, ratio, (c, k, d) = self.coupling, self.ratio, self.consensus.shape
        if self.alone:
            nothing = np.zeros((c, d, d))
            return Question(self.place, self.consensus, P, nothing, nothing, self._is_common)
        S, R = self.public, self.penalty.ravel()
        each = (S @ np.linalg.inv(S + np.diag(P))) * P
        self._guess = np.square(ratio) * np.einsum("nkk->k", each)
        H = np.einsum("nk,nab,nl->kalb", self.place, each, self.place, optimize=True)
        H, ratio = H.reshape(k * d, k * d), np.tile(ratio, k)
        H = ratio[..., None] * (H + H.T) / 2 * ratio[:, None]
        scale = np.sqrt(np.einsum("ckk->ck", H) + R + 1e-9)
        values, vectors = np.linalg.eigh((H + np.diag(R)) / scale[..., None] / scale[:, None])
        self._scale, directions = scale, vectors / scale[..., None]
        spread = (directions / np.maximum(values, 1e-9)[:, None]) @ directions.swapaxes(-1, -2)
        return Question(self.place, self.consensus, P, directions, spread, self._is_common)

    def hear(self, asked: Question, replies: Reply) -> None:
        """Take the replies of all nodes to a question: score, move the consensus, learn strengths.

        Replies that lead to numbers which are not finite change nothing but the score, which is infinite.
        """
        names = ("consensus", "coupling", "common", "along_graph", "ratio", "step", "slope")
        before = {name: getattr(self, name) for name in names}
        with np.errstate(all="ignore"):
            self._hear(asked, replies)
        if not all(np.isfinite(getattr(self, name)).all() for name in names[:5]):
            vars(self).update(before, score=np.inf)

    def _hear(self, asked: Question, replies: Reply) -> None:
        P, R, n, c = self.coupling, self.penalty, len(self.rows), self.scores
        difference = replies.models - asked.local
        loss = float(replies.loss.sum() + (np.square(self.consensus).sum(axis=0) * R).sum())
        loss, shrunk, total = max(loss, 1e-300), R > 0, int(self.rows.sum())
        free = total if self.alone else max(total - int((~shrunk).sum()), 1)
        score = loss if self.noise is not None else free * np.log(loss)
        score -= replies.log_determinant.sum() + n * c * np.log(P).sum()
        spread = asked.spread
        if not self.alone:
            directions = asked.directions
            along = np.einsum("cak,a->ck", np.square(directions), R.ravel())
            along = np.maximum(replies.along.sum(axis=0) + along, 1e-9)
            score += np.log(along).sum() + 2 * np.log(self._scale).sum()
            score -= c * np.log(R[shrunk]).sum()
            spread = (directions / along[:, None]) @ directions.swapaxes(-1, -2)
            pull = np.where(asked.common, replies.pull, difference * P)
            if self._move(pull, spread) > LOST * loss:
                score = np.inf
            curvature = np.maximum(replies.curvature.sum(axis=0), 1e-12)
            ratio = self.ratio * np.sqrt(curvature / np.maximum(self._guess, 1e-12))
            self.ratio = np.clip(ratio, 1 / FAR_OFF, FAR_OFF)
        self.score, self.round = float(score), self.round + 1
        if self.round <= self.rounds - RESTING:
            noise = max(loss / free, 1e-12) if self.noise is None else self.noise
            self._learn(difference, replies.uncertainty.sum(axis=0), spread, noise)

    def _learn(
        self, difference: FloatArray, unsure: FloatArray, spread: FloatArray, noise: float
    ) -> None:
        """Learn all strengths from the differences and the consensus, and from how unsure these are."""
        n, c = len(self.rows), self.scores
        size, P = np.square(difference).sum(axis=(0, 1)) / noise, self.coupling.copy()
        for group in self.tied if self.round <= TIED_ROUNDS else self.coupled:
            most = MOST * self.unit
            P[group] = _learned(P[group], size[group], unsure[group], n * c, LEAST, most)
        if self.alone:
            P[-1] = min(P[-1], self.faint)  # nodes alone have levels of their own
        self.coupling = P
        if self.alone:
            return
        sizes = np.square(self.consensus).sum(axis=0) / noise
        unsures, R = np.einsum("ckk->k", spread).reshape(sizes.shape), self.common.copy()
        for group in self.shrunk:
            R[group] = _learned(R[group], sizes[0, group], unsures[0, group], c, LEAST, 1e9)
        self.common = R
        if self.smooth is not None:
            roughness, strength = self.smooth.roughness, self.along_graph.copy()
            size, unsure = roughness @ sizes[1:], roughness @ unsures[1:]
            groups = self.tied if self.round <= TIED_ROUNDS else self.coupled
            shared = [group for group in self.shrunk if self._is_common[group].all()]
            for group in [*groups, *shared]:
                many = c * len(roughness)
                strength[group] = _learned(
                    strength[group], size[group], unsure[group], many, LEAST, 1e9
                )
            self.along_graph = strength

    def _move(self, pull: FloatArray, spread: FloatArray) -> float:
        """Take a step of Newton's method, shorter if the last one went too far; return what it promises."""
        every = np.einsum("nk,ncd->ckd", self.place, pull)
        gradient = (every - self.penalty * self.consensus).reshape(len(spread), -1)
        step = np.einsum("cab,cb->ca", spread, gradient)
        slope = float((gradient * step).sum())
        self.step = self.step / 2 if slope > self.slope else min(1.0, 1.5 * self.step)
        self.slope = slope
        self.consensus = self.consensus + self.step * step.reshape(self.consensus.shape)
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
