"""One node at run time: what it knows, what it shares, and the problem it solves in a round.

A site sees its own rows, its own model, and messages. It never sees another site.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedrelax.combining import Mean, usable
from fedrelax.linear.arrays import Step, accelerated
from fedrelax.losses import Loss, Squared
from fedrelax.models import LocalModel, Rows, Task
from fedrelax.network import Node
from fedrelax.public import PublicRows, Smoother, draw_like
from fedrelax.runtime.exchange import Message
from fedrelax.runtime.history import SiteMeasure
from fedrelax.runtime.settings import Coupling, Distillation
from fedrelax.typing import AnyArray, FloatArray, IntArray, Label

AnswerKey = str | tuple[str, Label]
Inputs = dict[AnswerKey, AnyArray]
Answers = dict[AnswerKey, FloatArray]
"""Rows on which a node needs its model's answers, and these."""
Smoothers = dict[Label | None, Smoother]
"""What carries answers over to other rows, by the owner of the public rows; None for the common ones."""


@dataclass
class Site:
    """The state of one node and the only code that touches its rows."""

    node: Node
    task: Task
    model: LocalModel
    public: PublicRows
    neighbours: Mapping[Label, float]
    """Whom the node hears; a weight of 0 is heard and not heeded."""
    coupling: Coupling
    seed: int
    answers: Answers = field(default_factory=dict)
    received: dict[tuple[Label, Label], FloatArray] = field(default_factory=dict)
    shared: dict[Label, FloatArray] = field(default_factory=dict)
    change: float = np.inf
    nodes: int = 0
    """How many nodes the network has; with all others as neighbours, every node hears the same."""
    consensus: FloatArray | None = None
    """What the model took for its neighbours' mean in the last round, where rounds are accelerated."""
    steps: list[Step] = field(default_factory=list)
    """Such means of the last rounds, with the mean of the answers that they led to."""
    terms: Sequence[Rows] = ()
    """What the model was fitted to."""

    def __post_init__(self) -> None:
        self.label = self.node.label
        self._echo: tuple[int, AnyArray] | None = None
        self._weights: dict[Label, FloatArray] = {}
        self.target, held = self.task.encode(self.node.y), self.node.validation
        self.validation_target = None if held is None else self.task.encode(held[1])

    # What the model is asked

    def inputs(self, coming: int = 0) -> Inputs:
        """Return all rows on which the node needs its own model's answers before round ``coming``."""
        asked: Inputs = {"own": self.node.X}
        if self.node.validation is not None:
            asked["validation"] = self.node.validation[0]
        owners: Iterable[Label] = (self.label, *self.neighbours)
        if self.public.common is not None:
            owners = (self.label,)
        for owner in owners:
            asked["public", owner] = self.public.of(owner)
        if self.coupling.distillation is not None:
            asked["echo", coming] = self._echo_rows(self.coupling.distillation, coming)
        return asked

    def adopt(
        self,
        model: LocalModel,
        answers: Answers,
        terms: Sequence[Rows] = (),
    ) -> None:
        """Take a newly fitted model, its answers on ``inputs()``, and what it was fitted to."""
        self.model, self.answers, self.terms = model, answers, terms

    def answer(self, owner: Label) -> FloatArray:
        """Return the present model's predictions on someone's public rows."""
        key = self.label if self.public.common is not None else owner
        return self.answers["public", key]

    # Share

    def share(self, round: int, zeros: bool = False) -> list[Message]:
        """Return this round's messages: predictions on public rows, damped if asked for."""
        owners: list[Label] = [self.label]
        if self.coupling.symmetric and self.public.common is None:
            owners += self.neighbours
        messages = []
        for owner in owners:
            new, old = self.answer(owner), self.shared.get(owner)
            if zeros:
                new = np.zeros_like(new)
            if old is not None and self.coupling.damping:
                new = (1 - self.coupling.damping) * new + self.coupling.damping * old
            if owner == self.label:
                self.change = np.inf if old is None else _mean_square(new - old)
            self.shared[owner] = new
            messages.append(Message(self.label, owner, round, new))
        return messages

    def receive(self, messages: Iterable[Message]) -> None:
        """Remember the latest predictions of each neighbour; a lost message leaves the last one.

        So does one that is not finite or has another shape: nothing of that kind is taken in.
        """
        for message in messages:
            if message.predictions is self.received.get((message.sender, message.owner)):
                continue
            shape = (len(self.public.of(message.owner)), self.task.n_outputs)
            answer = usable(message.predictions, shape, self.task.is_classification)
            if answer is not None:
                self.received[message.sender, message.owner] = answer

    # Update

    def local_problem(self) -> list[Rows]:
        """Return the problem without neighbours: own rows, weight 1 each."""
        return [Rows(self.node.X, self.target, np.ones(len(self.target)), self.coupling.loss)]

    def problem(self, round: int) -> list[Rows]:
        """Return the terms of this round's objective, scaled so that own rows have weight 1.

        own rows:   (x, y), weight 1;
        neighbours: (x, h_j(x)) for x in P(j), weight alpha A_ij m_i / m_pub(j)  ("mean")
                    or alpha A_ij ("rows", as in the paper's tree experiment).
        """
        terms = self.local_problem()
        if self.coupling.distillation is not None:
            z = self._echo_rows(self.coupling.distillation, round)
            answer = self.answers.get(("echo", round))
            if answer is None:  # the model is that of another round
                answer = self.model.predict(z)
            terms.append(Rows(z, answer, np.ones(len(z)), self.coupling.loss))
        if self.coupling.alpha > 0:
            terms += self._neighbour_terms()
        return terms

    def _neighbour_terms(self) -> list[Rows]:
        heard = [(j, a) for j, a in self.neighbours.items() if a > 0 and (j, j) in self.received]
        answers = [self.received[j, j] for j, _ in heard]
        weights = [a for _, a in heard]
        if self.public.common is not None:
            factor = 2.0 if self.coupling.symmetric else 1.0
            if self.coupling.update == "difference" and heard:
                heard.append((self.label, float(np.mean(weights))))
                heard.sort(
                    key=lambda one: repr(one[0])
                )  # so that all who hear the same sum it alike
                answers = [self.received.get((j, j), self.answer(j)) for j, _ in heard]
                weights = [a * sum(weights) / sum(b for _, b in heard) for _, a in heard]
            return self._terms_on(self.label, answers, [factor * a for a in weights])
        terms: list[Rows] = []
        for (j, a), answer in zip(heard, answers, strict=True):
            terms += self._terms_on(j, [answer], [a])
        if self.coupling.symmetric:
            on_mine = [(j, a) for j, a in heard if (j, self.label) in self.received]
            answers = [self.received[j, self.label] for j, _ in on_mine]
            terms += self._terms_on(self.label, answers, [a for _, a in on_mine])
        return terms

    def _terms_on(
        self, owner: Label, answers: list[FloatArray], weights: list[float]
    ) -> list[Rows]:
        """Return pseudo-rows for several answers on one set of public rows, collapsed if possible."""
        if not answers:
            return []
        X, loss = self.public.of(owner), self.coupling.discrepancy.plain
        strength = self.coupling.alpha
        if self.coupling.weighting == "mean":
            strength *= len(self.target) / len(X)
        scale = strength * self._relevance(owner)
        if not isinstance(self.coupling.combine, Mean):
            target, weight = self._combined(owner, answers, weights)
            return [Rows(X, target, scale * weight, loss)]
        if self.coupling.collapse and loss.collapses and len(answers) > 1:
            answers, weights = [self._next(_mean(answers, weights))], [float(np.sum(weights))]
        return [
            Rows(X, self._levelled(answer, owner), scale * a, loss)
            for answer, a in zip(answers, weights, strict=True)
        ]

    def _next(self, mean: FloatArray) -> FloatArray:
        """Return the consensus for this round: the neighbours' mean, or one that is nearer to rest.

        Where all nodes hear the same and models are convex, each computes the same step by itself.
        """
        if not self._accelerates:
            self.consensus, self.steps = None, []
            return mean
        following = mean
        if self.consensus is not None:
            following, self.steps = accelerated([*self.steps, (self.consensus, mean)])
        self.consensus = following
        return following

    @property
    def _accelerates(self) -> bool:
        coupling = self.coupling
        weights = [a for j, a in self.neighbours.items() if a > 0 and (j, j) in self.received]
        return (
            coupling.update == "difference"
            and coupling.order == "simultaneous"
            and not (coupling.damping or coupling.layers)
            and self.model.settles
            and not self.task.is_classification
            and len(weights) == self.nodes - 1
            and len(set(weights)) == 1
        )

    def _combined(
        self, owner: Label, answers: list[FloatArray], weights: list[float]
    ) -> tuple[FloatArray, FloatArray]:
        """Return one target per public row, and its weight, as the coupling combines answers."""
        levelled = np.array([self._levelled(answer, owner) for answer in answers])
        span = self.target.min(axis=0), self.target.max(axis=0)
        target, weight = self.coupling.combine(
            levelled, np.array(weights), self.answer(owner), span
        )
        if not self.task.is_classification:
            return target, weight
        total = target.sum(axis=1)  # 0 where no class has a majority: then the row says nothing
        said = total > 0
        return target / np.where(said, total, 1.0)[:, None], weight * said

    def _levelled(self, answer: FloatArray, owner: Label) -> FloatArray:
        """Return answers on someone's public rows with a share of this node's own level."""
        own = self.answer(owner)
        return levelled(answer, own, self.coupling.level, self.task.is_classification)

    def _relevance(self, owner: Label) -> FloatArray:
        """Return the weight w(x) of each of someone's public rows; 1 unless the discrepancy has others."""
        key = self.label if self.public.common is not None else owner
        if key not in self._weights:
            X = self.public.of(key)
            found = self.coupling.discrepancy.weights(X)
            self._weights[key] = np.ones(len(X)) if found is None else found
        return self._weights[key]

    def _echo_rows(self, echo: Distillation, round: int) -> AnyArray:
        """Return the rows that a round draws: known beforehand, so the model is asked once for all."""
        if self._echo is None or self._echo[0] != round:
            rng = np.random.default_rng([self.seed, round])
            public = self.public
            drawn = draw_like(echo.draw, public.of(self.label), echo.rows, rng, public.pieces)
            self._echo = round, drawn
        return self._echo[1]

    # Measure

    def measure(self) -> SiteMeasure:
        """Return losses and discrepancies of the present model against the latest messages."""
        discrepancies = self.discrepancies(self.neighbours)
        m = len(self.target)
        gtv = sum(self.neighbours[j] * d for j, d in discrepancies.items())
        pull = gtv
        if self.coupling.weighting == "rows":
            sizes = {j: len(self.public.of(j)) for j in discrepancies}
            pull = sum(self.neighbours[j] * d * sizes[j] / m for j, d in discrepancies.items())
        held, loss, validation = self.validation_target, self.coupling.loss, np.nan
        if held is not None:
            validation = loss.mean(held, self.answers["validation"])
        return SiteMeasure(
            local_loss=loss.mean(self.target, self.answers["own"]),
            gtv=gtv,
            pull=pull,
            validation_loss=validation,
            validation_rows=0 if held is None else len(held),
            change=self.change,
            size=_mean_square(self.shared[self.label]),
            discrepancies=discrepancies,
        )

    def own_losses(self, others: Iterable[Label], smoothers: Smoothers) -> dict[Label, float]:
        """Return the loss on own rows if the node predicted them with each neighbour's answers.

        A smoother carries answers over from public rows; ``smoothers`` holds those made so far.
        """
        public, W, found = self.public, None, dict[Label, float]()
        X = public.as_numbers(self.node.X)
        for j in others:
            answer = self.received.get((j, j))
            if answer is None:
                found[j] = np.inf
                continue
            owner = None if public.common is not None else j
            if owner not in smoothers:
                smoothers[owner] = Smoother(public.as_numbers(public.of(j)))
            if W is None or owner is not None:
                W = smoothers[owner].carrying(X)
            found[j] = self.coupling.loss.mean(self.target, self.task.plausible(W @ answer))
        return found

    def discrepancies(self, others: Iterable[Label]) -> dict[Label, float]:
        """Return d(i, j) for each j that the node has heard: on j's public rows, against j's answers."""
        heard = [j for j in others if (j, j) in self.received]
        if self.public.common is None or not heard:
            return {j: float(self._distances(j, [self.received[j, j]])[0]) for j in heard}
        values = self._distances(self.label, [self.received[j, j] for j in heard])
        return dict(zip(heard, values.tolist(), strict=True))

    def _distances(self, owner: Label, answers: list[FloatArray]) -> FloatArray:
        """Return the discrepancies to several answers on someone's public rows."""
        coupling, own = self.coupling, self.answer(owner)[None]
        classes, weights = self.task.is_classification, self._relevance(owner)
        return distances(
            own, np.array(answers), coupling.discrepancy.plain, coupling.level, classes, weights
        )


def seeds_of(random_state: int | None, nodes: int) -> IntArray:
    """Return a seed for every node's model."""
    return np.asarray(np.random.SeedSequence(random_state).generate_state(nodes) >> 1)


# ``np.mean`` and ``np.average`` check more than these sums cost.


def _mean_square(values: FloatArray) -> float:
    return float(np.vdot(values, values) / values.size)


def _mean(answers: list[FloatArray], weights: list[float]) -> FloatArray:
    """Return the weighted mean of the answers."""
    share = np.array(weights)[:, None, None]
    return np.asarray((np.array(answers) * share).sum(axis=0) / share.sum(axis=0))


SMALLEST = 1e-12
"""Priors are clipped from below at this value."""


def levelled(answer: FloatArray, own: FloatArray, level: float, classes: bool) -> FloatArray:
    """Return an answer (..., rows, outputs) with ``1 - level`` of its level replaced by the node's own.

    The difference of two nodes on the public rows has a mean s and a variance v. With a level share l,
    node i is pulled by ``d_l(i, j) = l s^2 + v`` instead of ``s^2 + v``: it learns the shape from its
    neighbours and keeps ``1 - l`` of its own level. For any model this amounts to shifting the targets to

        h_j(x) + (1 - l) (mean h_i - mean h_j),

    with the node's last answers: ``(s - (1 - l) s_last)^2 = l s^2 + (1 - l)(s - s_last)^2 + const``, so a
    round is a proximal step on d_l and the fixed point is the same. For classes, the level is the prior:
    the target probabilities are proportional to ``p_j(c|x) (pi_i(c) / pi_j(c))^(1 - l)``, where pi are
    the mean probabilities on the public rows.

    >>> levelled(np.array([[1.0], [3.0]]), np.array([[10.0], [10.0]]), 0.0, False).tolist()
    [[9.0], [11.0]]
    """
    if level == 1.0:
        return answer
    theirs, mine = answer.mean(axis=-2, keepdims=True), own.mean(axis=-2, keepdims=True)
    if not classes:
        return np.asarray(answer + (1.0 - level) * (mine - theirs))
    odds = np.maximum(mine, SMALLEST) / np.maximum(theirs, SMALLEST)
    moved = answer * odds ** (1.0 - level)
    return np.asarray(moved / moved.sum(axis=-1, keepdims=True))


def distances(
    own: FloatArray,
    answers: FloatArray,
    loss: Loss,
    level: float,
    classes: bool,
    weights: float | FloatArray = 1.0,
) -> FloatArray:
    """Return d_l of answers (edges, rows, outputs) to a node's own: the mean of w(x) L over public rows.

    With a level share l below 1, numbers under the squared loss have ``l s^2 + v`` in closed form; for
    others it is the loss once the answers are levelled.
    """
    closed = level < 1.0 and isinstance(loss, Squared) and not classes
    losses = loss.per_row(answers if closed else levelled(answers, own, level, classes), own)
    values = (losses * weights).sum(axis=1) / losses.shape[1]
    if closed:
        gap = own.mean(axis=-2) - answers.mean(axis=-2)
        values = np.maximum(values - (1.0 - level) * np.square(gap).sum(axis=-1), 0.0)
    return np.asarray(values)
