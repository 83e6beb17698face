"""The candidates of partial pooling, side by side: what nodes exchange, and which candidate is best.

Everything here but ``PoolingSearch.replies`` is common knowledge: public rows, whose they are, how many
rows each node has, and what the nodes said. So every node can compute it by itself, and all get the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import comb
from typing import Any

import numpy as np

from fedrelax.pooling.columns import BASES
from fedrelax.pooling.design import Design
from fedrelax.pooling.exchange import RESTING, Pooling, Reply, covariances, reply
from fedrelax.pooling.rows import OwnRows
from fedrelax.typing import AnyArray, FloatArray, IntArray

ROUNDS, FEWEST_ROUNDS = 9, 8
"""Rounds if none are given, and the fewest in which strengths can be learned."""
STARTS = ((0.03, 1.0), (1.0, 0.1))
"""Strengths from which learning starts, relative to a node's rows, and the share for the level."""
HALFWAY, FAR = 5, 40.0
"""From this round on, candidates fall out that are behind by more, beyond what they just gained."""
MOST_WAYS = 8
"""The most ways to pool a set of columns."""
POOLING, SLOPES = "partial pooling", "common slopes, own levels"
ALONG = "partial pooling along the graph"
ALONE, ONE = "every node alone", "one model for all"
"""Ways to pool."""
MARGIN = 4.0
"""What added columns, or pooling at all, must gain in minus twice the log evidence."""
MOST_BASES = 2
"""The most sets of columns that are added at once."""
MOST_CANDIDATES = 2 * MOST_WAYS * sum(comb(len(BASES), k) for k in range(MOST_BASES + 1))
"""The numbers of all candidates are below this."""
COMMON = 1000.0
"""The pull, relative to a node's rows, that makes an effect common to all nodes."""
CHANGING = (
    "consensus",
    "coupling",
    "common",
    "along_graph",
    "ratio",
    "step",
    "slope",
    "round",
    "score",
)
"""What a round changes in a candidate."""
RANK = 1e-7
"""The least singular value of columns on public rows, relative to the largest, that tells models apart."""
SMALL_SHARE = 0.01
"""Candidates with less evidence than this, relative to the best, are not averaged."""
FAINT_LEVEL, FAINT_LEVEL_OF_CLASSES = 1e-4, 0.1
"""The penalty of a level alone; that of classes keeps a node whose rows have one from being certain."""
FIRST_EFFECT = 0.3
"""The first penalty of effects that all nodes share."""
ONE_STRENGTH = 1e4
"""The pull, relative to a node's rows, that leaves no differences."""

State = Mapping[str, Any]
"""What the rounds have made of a candidate."""
Message = tuple[FloatArray, FloatArray]
"""What nodes say to a candidate: answers (n, c, m) on public rows, and numbers, one row per node."""


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
    def told(self) -> int:
        """How many numbers a node reports."""
        c, k, d = self.pooling.consensus.shape
        return Reply.size(c, d, k)

    @property
    def score(self) -> float:
        """Minus twice the log evidence, and a margin for every set of columns that was added."""
        score = self.pooling.score - self.pooling.rows @ np.log(self.weight)
        return float(score + MARGIN * len(self.bases)) if np.isfinite(score) else np.inf


def candidates_of(
    design: Design, rounds: int, only: Collection[int] | None = None
) -> dict[int, Candidate]:
    """Return all candidates: sets of columns with partial pooling, no pooling, and one model for all.

    A candidate has the same number whatever the rows, also where others do not suit them; ``only`` those
    with these numbers may be asked for.
    """
    columns, rows, smooth = design.columns, design.rows, design.smooth
    bases = [name for name in BASES if getattr(columns, name) is not None]
    sets = [chosen for k in range(MOST_BASES + 1) for chosen in combinations(bases, k)]
    weights = [np.ones(len(rows))]
    if rows.min() != rows.max() and not design.classes:
        weights.append(rows.mean() / np.maximum(rows, 1))
    made = {}
    for number, chosen in enumerate(sets):
        if only is not None and all(k // (2 * MOST_WAYS) != number for k in only):
            continue
        parts = [design.plain]
        for name in chosen:
            parts.append(design.independent(columns.places(name), np.concatenate(parts)))
        places = np.concatenate([*parts, [design.answers.shape[1] - 1]]).astype(np.int64)
        U, sizes, V = np.linalg.svd(design.telling[:, places], full_matrices=False)
        told = sizes > RANK * sizes[0]
        if chosen and (told.sum() < len(places) or not all(map(len, parts[1:]))):
            continue  # answers on the public rows do not tell what a model is
        inverse = (V[told].T / sizes[told]) @ U[:, told].T
        for equal, weight in enumerate(weights):
            gram = design.estimate[:, places[:, None], places] * weight[:, None, None]
            unit = float((rows * weight).mean()) * design.curvature
            ways = [(POOLING, *start) for start in STARTS] if len(rows) > 1 else []
            ways += [(ALONG, *start) for start in STARTS] if smooth is not None else []
            if not chosen or len(rows) == 1:
                ways += [(ALONE, 1.0, 1.0)]
            if not chosen:
                ways += [(ONE, 1.0, 1.0), (SLOPES, 1.0, 0.1)]
            for k, (way, strength, level) in enumerate(ways, (2 * number + equal) * MOST_WAYS):
                if only is not None and k not in only:
                    continue
                strengths = _strengths(way, strength, level, parts, chosen, unit, design)
                pooling = Pooling(
                    gram,
                    rows,
                    unit,
                    *strengths,
                    rounds,
                    scores=design.scores,
                    noise=1.0 if design.classes else None,
                    alone=way == ALONE,
                    smooth=smooth.for_columns(len(places)) if smooth and way == ALONG else None,
                )
                made[k] = Candidate(way, chosen, places, weight, inverse, pooling)
    return made


def _strengths(
    way: str,
    strength: float,
    level: float,
    parts: Sequence[IntArray],
    bases: Sequence[str],
    unit: float,
    design: Design,
) -> tuple[FloatArray, FloatArray, list[IntArray], list[IntArray], list[IntArray]]:
    """Return the strengths that a candidate starts from, and the groups in which they are learned."""
    ends = np.cumsum([0, *map(len, parts)]).tolist()
    plain, *more = (np.arange(*pair) for pair in pairwise(ends))
    last = np.array(ends[-1:])
    P, R = np.full(ends[-1] + 1, strength * unit), np.ones(ends[-1] + 1)
    P[last], R[last] = strength * level * unit, 0.0
    each, tied = [*plain[:, None], last], [plain, last]
    if way == ALONE:
        faint = FAINT_LEVEL_OF_CLASSES if design.classes else FAINT_LEVEL
        P[plain], P[last], each, tied = 1.0, faint, [plain, last], [plain, last]
    elif way == ONE:
        P[:], each, tied = ONE_STRENGTH * unit, [], []
    elif way == SLOPES:
        P[plain], each, tied = COMMON * unit, [last], [last]
    shrunk = [plain]
    for name, group, places in zip(bases, more, parts[1:], strict=True):
        source = getattr(design.columns, name).columns[places - design.columns.places(name)[0]]
        shrunk += [group[source == k] for k in np.unique(source)]
        if way == ALONE:
            P[group], each, tied = 1.0, [*each, group], [*tied, group]
        elif name == "curves":
            each, tied = [*each, group], [*tied, group]
        else:
            P[group], R[group] = COMMON * unit, FIRST_EFFECT / len(design.rows)
    return P, R, each, tied, shrunk


class PoolingSearch:
    """All candidates, side by side, as every node knows them."""

    def __init__(
        self,
        design: Design,
        rounds: int = ROUNDS,
        learned: Mapping[int, State] | None = None,
        anew: bool = False,
    ) -> None:
        """Begin, or go on from what was ``learned`` from other rows if these allow the same candidates.

        With ``anew`` the same candidates learn everything again.

        Where all nodes have as many rows, candidates for which every node counts the same are the others.
        """
        self.design, self.rounds = design, rounds
        self.learned: dict[int, dict[str, Any]] = {}
        """The state of all candidates when their strengths had been learned."""
        if learned is not None:
            alike = design.rows.min() == design.rows.max()
            learned = {k - MOST_WAYS * (alike and k // MOST_WAYS % 2): learned[k] for k in learned}
        self.candidates = candidates_of(design, rounds, learned)
        if learned is not None and all(self._suits(k, state) for k, state in learned.items()):
            if anew:
                self._ask()
            else:
                self.learned = {k: dict(state) for k, state in learned.items()}
                self.restore(learned)
            return
        if learned is not None:
            self.candidates = candidates_of(design, rounds)
        self._ask()

    def _suits(self, k: int, state: State) -> bool:
        one = self.candidates.get(k)
        return one is not None and one.pooling.consensus.shape == state["consensus"].shape

    @property
    def round(self) -> int:
        """How many rounds there have been."""
        return next(iter(self.candidates.values())).pooling.round

    @property
    def ways(self) -> tuple[int, ...]:
        """The candidates that did best: those that are averaged, and the best of the simple ones."""
        return tuple({**self.shares, **self.way(ALONE), **self.way(ONE)})

    def _ask(self) -> None:
        self.asked = {k: one.pooling.question() for k, one in self.candidates.items()}

    def own(self, rows: OwnRows, nodes: IntArray) -> dict[int, OwnRows]:
        """Return the rows of these nodes as every candidate sees them."""
        return {k: rows.of(one.columns, one.weight[nodes]) for k, one in self.candidates.items()}

    def replies(self, own: Mapping[int, OwnRows]) -> dict[int, Reply]:
        """Return what nodes say to every candidate: the only part that needs their rows."""
        return {k: reply(own[k], asked) for k, asked in self.asked.items()}

    @property
    def numbers(self) -> int:
        """How many numbers a node says to each other node in the next round."""
        design = self.design
        return len(self.candidates) * (design.scores * len(design.telling) + design.told)

    def messages(self, replies: Mapping[int, Reply]) -> dict[int, Message]:
        """Return replies as they travel: answers on public rows instead of models."""
        answers = self.design.telling
        return {
            k: (said.models @ answers[:, self.candidates[k].columns].T, said.numbers)
            for k, said in replies.items()
        }

    def understood(self, messages: Mapping[int, Message]) -> dict[int, Reply]:
        """Return the replies that messages show."""
        return {
            k: Reply.of(
                answers @ self.candidates[k].inverse.T, numbers[:, : self.candidates[k].told]
            )
            for k, (answers, numbers) in messages.items()
        }

    def hear(self, replies: Mapping[int, Reply], present: AnyArray | None = None) -> None:
        """Take what all nodes said, in their order; candidates that fell behind are left out.

        Nodes that are not ``present`` said nothing, and count as nodes without rows.
        """
        rows = self.design.rows if present is None else self.design.rows * present
        before = {k: one.score for k, one in self.candidates.items()}
        for k, said in replies.items():
            pooling = self.candidates[k].pooling
            pooling.rows = rows
            pooling.hear(self.asked[k], said)
        scores = {k: one.score for k, one in self.candidates.items()}
        best, k = min(scores.values()), min(scores)
        if self.candidates[k].pooling.round >= HALFWAY:
            for k, score in scores.items():
                promise = max(before[k] - score, 0.0) if np.isfinite(before[k]) else 0.0
                if score > best + FAR + promise and self.candidates[k].words not in (ALONE, ONE):
                    del self.candidates[k]
        if self.round == self.rounds - RESTING:
            again = {"step": 1.0, "slope": np.inf}
            self.learned = {k: {**state, **again} for k, state in self.state.items()}
        self._ask()

    @property
    def state(self) -> dict[int, dict[str, Any]]:
        """What the rounds have changed, as plain values."""
        return {
            k: {name: getattr(one.pooling, name) for name in CHANGING}
            for k, one in self.candidates.items()
        }

    def restore(self, state: Mapping[int, State]) -> None:
        """Go on from a state."""
        self.candidates = {k: self.candidates[k] for k in state}
        for k, values in state.items():
            for name, value in values.items():
                setattr(self.candidates[k].pooling, name, value)
        self._ask()

    @property
    def best(self) -> Candidate:
        """The candidate with the largest share."""
        shares = self.shares
        return self.candidates[max(shares, key=lambda k: shares[k])]

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
    def penalty(self) -> float:
        """The ridge penalty of a node's columns, in units of sums over rows."""
        best, p = self.best.pooling, len(self.design.plain)
        common = best.coupling if best.alone else best.common / len(best.rows)
        return float(common[:p].mean()) if p else 1.0

    @property
    def words(self) -> str:
        """What has the largest share, in words."""
        best = self.best
        more = " and ".join(BASES[name] for name in best.bases)
        return f"{best.words}{' of columns and ' + more if more else ''}"

    @property
    def shares(self) -> dict[int, float]:
        """The candidates that are averaged, with their shares: their evidence relative to the best.

        Nodes alone, or one model for all, are not averaged with others, and are taken if these are not
        better by a margin.
        """
        scores = {k: one.score for k, one in self.candidates.items()}
        best = min(scores.values())
        simple = [k for k, one in self.candidates.items() if one.words in (ALONE, ONE)]
        first = min(simple, key=lambda k: scores[k])
        if scores[first] <= best + MARGIN:
            return {first: 1.0}
        shares = {k: float(np.exp((best - score) / 2)) for k, score in scores.items()}
        total = sum(share for share in shares.values() if share > SMALL_SHARE)
        return {k: share / total for k, share in shares.items() if share > SMALL_SHARE}

    def way(self, words: str) -> dict[int, float]:
        """Return the best candidate of a way to pool, with the share 1."""
        scores = {k: one.score for k, one in self.candidates.items() if one.words == words}
        return {min(scores, key=lambda k: scores[k]): 1.0}

    def average(self, replies: Mapping[int, Reply], shares: Mapping[int, float]) -> FloatArray:
        """Return averaged models (n, c, d) of all columns, given what nodes say to each candidate."""
        shape = next(iter(replies.values())).models.shape[:2]
        mean = np.zeros((*shape, self.design.answers.shape[1]))
        for k, share in shares.items():
            one = self.candidates[k]
            models = one.pooling.consensus[:, 0] if one.words == ONE else replies[k].models
            mean[..., one.columns] += share * models
        return self.design.columns.unscaled(mean)

    def left_out(self, own: Mapping[int, OwnRows], shares: Mapping[int, float]) -> FloatArray:
        """Return averaged scores (N, c) of every row under models that have not seen it."""
        columns, left = self.design.columns, []
        for k, share in shares.items():
            left.append(share * own[k].left_out(*covariances(own[k], self.asked[k])))
        return np.asarray(columns.level + columns.size * np.sum(left, axis=0))
