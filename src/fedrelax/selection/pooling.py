"""The candidates of partial pooling, side by side: what nodes exchange, and which candidate is best.

Everything here but ``PoolingSearch.replies`` is common knowledge: public rows, whose they are, how many
rows each node has, and what the nodes said. So every node can compute it by itself, and all get the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np

from fedrelax.engines.whole.closed import NodeSums
from fedrelax.engines.whole.ridge import COMMON, MARGIN, MOST_KNOTS, MOST_LINES, MOST_WORK
from fedrelax.engines.whole.ridge_rows import ALONE, ONE, Scale
from fedrelax.linear.arrays import centre_and_spread
from fedrelax.linear.pooling import Moments, Pooling, Reply, reply
from fedrelax.models.curves import Curves
from fedrelax.typing import AnyArray, FloatArray, IntArray

ROUNDS, FEWEST_ROUNDS = 12, 8
"""Rounds if none are given, and the fewest in which strengths can be learned."""
STARTS = ((0.03, 1.0), (1.0, 0.1))
"""Strengths from which learning starts, relative to a node's rows, and the share for the level."""
HALFWAY, FAR = 6, 40.0
"""From this round on, candidates whose score is worse than the best by more are left out."""
POOLING, SLOPES = "partial pooling", "common slopes, own levels"
"""Ways to pool, beside ``ALONE`` and ``ONE``."""
WORDS = {"curves": "curves of them", "lines": "smooth lines"}
"""What columns are added, in words."""
CHANGING = ("consensus", "coupling", "common", "ratio", "step", "slope", "round", "score")
"""What a round changes in a candidate."""
RANK = 1e-7
"""The least singular value of columns on public rows, relative to the largest, that tells models apart."""
SMALL_SHARE = 0.01
"""Candidates with less evidence than this, relative to the best, are not averaged."""
INDEPENDENT = 1e-4
"""The least part of a column's standard deviation that columns before it do not explain."""
FAINT_LEVEL, FIRST_EFFECT = 1e-4, 0.3
"""The penalty of a level alone, and the first one of smooth lines, shared by all nodes."""
ONE_STRENGTH = 1e4
"""The pull, relative to a node's rows, that leaves no differences."""

Message = tuple[FloatArray, FloatArray]
"""What nodes say to a candidate: answers on public rows, and numbers; one row per node each."""


@dataclass(frozen=True)
class Design:
    """The columns of all candidates: standardised ones, curves and smooth lines, and a constant.

    They are made from public rows (m, p), each of which some node (m,) has drawn from its own.
    """

    public: FloatArray
    owner: IntArray
    rows: IntArray
    """How many rows each node has."""
    scale: Scale

    @classmethod
    def of(
        cls, public: FloatArray, owner: IntArray, rows: IntArray, level: float, size: float
    ) -> Design:
        """Make the columns; ``level`` and ``size`` are those of the target."""
        centre, spread = centre_and_spread(public)
        scale, Z, p = (
            Scale(centre, spread, level, size),
            (public - centre) / spread,
            public.shape[1],
        )
        knots = max(min(MOST_KNOTS, MOST_LINES // max(p, 1)), 1)
        bases = [Curves.of(Z), Curves.of(Z, knots, power=1)]
        curves, lines = (
            basis if len(basis) and len(rows) * (p + len(basis)) ** 3 <= MOST_WORK else None
            for basis in bases
        )
        return cls(public, owner, rows, replace(scale, curves=curves, lines=lines))

    @cached_property
    def answers(self) -> FloatArray:
        """The columns of the public rows."""
        return self.scale.columns(self.public)

    @cached_property
    def plain(self) -> IntArray:
        """The columns of the table that say more than a constant and the columns before them.

        Answers on the public rows would not tell the coefficients of others from those of these.
        """
        p, m = len(self.scale.centre), len(self.public)
        triangle = np.linalg.qr(self.answers[:, [-1, *range(p)]], mode="r")
        return np.flatnonzero(np.abs(np.diag(triangle))[1:] > INDEPENDENT * np.sqrt(m))

    def moments(self, X: FloatArray, y: FloatArray, node: IntArray, n: int) -> Moments:
        """Return the sums over the rows of n nodes, given the node of each row."""
        z = (y - self.scale.level) / self.scale.size
        sums = NodeSums.of(self.scale.columns(X), z, node, n)
        return Moments(sums.gram, sums.moment, sums.power)

    @cached_property
    def estimate(self) -> FloatArray:
        """Estimates of the nodes' Gram matrices, from the public rows of each."""
        d = self.answers.shape[1]
        grams = np.zeros((len(self.rows), d, d))
        for i, rows in enumerate(self.rows):
            A = self.answers[self.owner == i]
            grams[i] = rows * (A.T @ A) / max(len(A), 1)
        return grams


@dataclass(frozen=True)
class Candidate:
    """Some of the columns, how they are pooled, and whether every node counts the same."""

    words: str
    bases: tuple[str, ...]
    columns: IntArray
    weight: FloatArray
    inverse: FloatArray
    """From answers on public rows to models."""
    pooling: Pooling

    @property
    def score(self) -> float:
        """Minus twice the log evidence, and a margin for every set of columns that was added."""
        score = self.pooling.score - self.pooling.rows @ np.log(self.weight)
        return float(score + MARGIN * len(self.bases)) if np.isfinite(score) else np.inf


def candidates_of(design: Design, rounds: int) -> list[Candidate]:
    """Return all candidates: sets of columns with partial pooling, no pooling, and one model for all."""
    scale, rows = design.scale, design.rows
    bases = [name for name in ("curves", "lines") if getattr(scale, name) is not None]
    sets = [chosen for k in range(len(bases) + 1) for chosen in combinations(bases, k)]
    weights = [np.ones(len(rows))]
    if rows.min() != rows.max():
        weights.append(rows.mean() / np.maximum(rows, 1))
    made = []
    for weight, chosen in product(weights, sets):
        parts = [design.plain, *(scale.places(name) for name in chosen)]
        columns = np.concatenate([*parts, [design.answers.shape[1] - 1]]).astype(np.int64)
        answers = design.answers[:, columns]
        if chosen and np.linalg.matrix_rank(answers, rtol=RANK) < len(columns):
            continue  # answers on the public rows do not tell what a model is
        inverse = np.asarray(np.linalg.pinv(answers, rtol=RANK), dtype=np.float64)
        gram = design.estimate[:, columns[:, None], columns] * weight[:, None, None]
        ways = [(POOLING, *start) for start in STARTS]
        if not chosen:
            ways += [(ALONE, 1.0, 1.0), (ONE, 1.0, 1.0), (SLOPES, 1.0, 0.1)]
        for way, strength, level in ways:
            strengths = _strengths(way, strength, level, parts, chosen, rows)
            unit = float((rows * weight).mean())
            pooling = Pooling(gram, rows, unit, *strengths, rounds, alone=way == ALONE)
            made.append(Candidate(way, chosen, columns, weight, inverse, pooling))
    return made


def _strengths(
    way: str,
    strength: float,
    level: float,
    parts: Sequence[IntArray],
    bases: Sequence[str],
    rows: IntArray,
) -> tuple[FloatArray, FloatArray, list[IntArray], list[IntArray], list[IntArray]]:
    """Return the strengths that a candidate starts from, and the groups in which they are learned."""
    unit, ends = float(rows.mean()), np.cumsum([0, *map(len, parts)]).tolist()
    plain, *more = (np.arange(*pair) for pair in pairwise(ends))
    last = np.array(ends[-1:])
    P, R = np.full(ends[-1] + 1, strength * unit), np.ones(ends[-1] + 1)
    P[last], R[last] = strength * level * unit, 0.0
    each, tied = [*plain[:, None], last], [plain, last]
    if way == ALONE:
        P[plain], P[last], each, tied = 1.0, FAINT_LEVEL, [plain], [plain]
    elif way == ONE:
        P[:], each, tied = ONE_STRENGTH * unit, [], []
    elif way == SLOPES:
        P[plain], each, tied = COMMON * unit, [last], [last]
    for name, group in zip(bases, more, strict=True):
        if name == "curves":
            each, tied = [*each, group], [*tied, group]
        else:
            P[group], R[group] = COMMON * unit, FIRST_EFFECT / len(rows)
    return P, R, each, tied, [plain, *more]


def pooled_models(
    X: FloatArray,
    y: FloatArray,
    node: IntArray,
    public: FloatArray,
    owner: IntArray,
    rows: IntArray,
) -> tuple[Scale, FloatArray]:
    """Return the models (n, d) of all nodes, and of which columns they are: all rounds in one process.

    ``node`` and ``owner`` say whose each row and each public row is, ``rows`` how many each node has.
    """
    design = Design.of(public, owner, rows, float(y.mean()), float(y.std()) or 1.0)
    every = design.moments(X, y, node, len(rows))
    search, nodes = PoolingSearch(design), np.arange(len(rows))
    for _ in range(ROUNDS):
        search.hear(search.messages(search.replies(every, nodes)))
    replies = search.replies(every, nodes)
    return design.scale, search.average({k: said.models for k, said in replies.items()})


class PoolingSearch:
    """All candidates, side by side, as every node knows them."""

    def __init__(self, design: Design, rounds: int = ROUNDS) -> None:
        self.design = design
        self.candidates = dict(enumerate(candidates_of(design, rounds)))
        self._ask()

    def _ask(self) -> None:
        self.asked = {k: one.pooling.question() for k, one in self.candidates.items()}

    def replies(self, own: Moments, nodes: IntArray) -> dict[int, Reply]:
        """Return what these nodes say to every candidate: the only part that needs their rows."""
        return {
            k: reply(own.of(one.columns, one.weight[nodes]), self.asked[k])
            for k, one in self.candidates.items()
        }

    def messages(self, replies: Mapping[int, Reply]) -> dict[int, Message]:
        """Return replies as they travel: answers on public rows instead of models."""
        answers = self.design.answers
        return {
            k: (said.models @ answers[:, self.candidates[k].columns].T, said.numbers)
            for k, said in replies.items()
        }

    def hear(self, messages: Mapping[int, Message], present: AnyArray | None = None) -> None:
        """Take what all nodes said, in their order; candidates that fell behind are left out.

        Nodes that are not ``present`` said nothing, and count as nodes without rows.
        """
        rows = self.design.rows if present is None else self.design.rows * present
        for k, (answers, numbers) in messages.items():
            one = self.candidates[k]
            one.pooling.rows = rows
            one.pooling.hear(self.asked[k], Reply.of(answers @ one.inverse.T, numbers))
        scores = {k: one.score for k, one in self.candidates.items()}
        best, k = min(scores.values()), min(scores)
        if self.candidates[k].pooling.round >= HALFWAY:
            for k, score in scores.items():
                if score > best + FAR and not self.candidates[k].pooling.alone:
                    del self.candidates[k]
        self._ask()

    @property
    def state(self) -> dict[int, dict[str, Any]]:
        """What the rounds have changed, as plain values."""
        return {
            k: {name: getattr(one.pooling, name) for name in CHANGING}
            for k, one in self.candidates.items()
        }

    def restore(self, state: Mapping[int, Mapping[str, Any]]) -> None:
        """Go on from a state."""
        self.candidates = {k: self.candidates[k] for k in state}
        for k, values in state.items():
            for name, value in values.items():
                setattr(self.candidates[k].pooling, name, value)
        self._ask()

    @property
    def alpha(self) -> float:
        """The mean coupling of the columns along an edge of weight one, relative to a node's rows."""
        p, total = len(self.design.plain), 0.0
        for k, share in self.shares.items():
            pooling = self.candidates[k].pooling
            if not pooling.alone:
                strength = float(pooling.coupling[:p].mean()) if p else float(pooling.coupling[-1])
                total += share * strength / (pooling.unit * len(pooling.rows))
        return total

    @property
    def words(self) -> str:
        """What has the largest share, in words."""
        shares = self.shares
        best = self.candidates[max(shares, key=lambda k: shares[k])]
        more = " and ".join(WORDS[name] for name in best.bases)
        return f"{best.words}{' of columns and ' + more if more else ''}"

    @property
    def shares(self) -> dict[int, float]:
        """The candidates that are averaged, with their shares: their evidence relative to the best."""
        scores = {k: one.score for k, one in self.candidates.items()}
        best = min(scores.values())
        shares = {k: float(np.exp((best - score) / 2)) for k, score in scores.items()}
        total = sum(share for share in shares.values() if share > SMALL_SHARE)
        return {k: share / total for k, share in shares.items() if share > SMALL_SHARE}

    def average(self, models: Mapping[int, FloatArray]) -> FloatArray:
        """Return the averaged models (n, d), of all columns, given those of each candidate."""
        one = next(iter(models.values()))
        mean = np.zeros((len(one), self.design.answers.shape[1]))
        for k, share in self.shares.items():
            mean[:, self.candidates[k].columns] += share * models[k]
        return self.design.scale.models(mean)
