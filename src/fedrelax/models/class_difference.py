"""A classifier as a sum: what its neighbours say, and the node's own difference from that.

For softmax and logistic regression, also as the last step of a pipeline, the sum is one of log-odds: the
difference is fitted to own rows, and to the consensus itself on public rows, with the consensus as its
offset. Any other kind is mixed with the model trained alone, by a share that is chosen by folds of the
node's own rows. The consensus is a model of the node's kind, fitted to soft labels; kinds that take labels
only (neighbours, support vectors) get a forest.
What was compared is in docs/theory.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

from fedrelax.models.additive import MIXTURE, ODDS, SumClassifier, combined, log_odds
from fedrelax.models.base import LocalModel, Rows, some
from fedrelax.models.criteria import last_step
from fedrelax.models.difference import DifferenceModel, changed, drawn, parts_of
from fedrelax.models.few_rows import SmoothedForestClassifier
from fedrelax.models.linear import SoftmaxModel
from fedrelax.models.registry import adapt
from fedrelax.typing import FloatArray

STRAIGHT = 1e-6
"""Ridge term of the softmax regression that carries answers of linear models."""

SHARES = np.linspace(0.0, 1.0, 11)
FOLDS = 4


class ClassDifferenceModel(DifferenceModel):
    """Any classifier as a local model that learns its difference from what its neighbours say."""

    how = MIXTURE

    def sum_of(self, consensus: Any, difference: Any) -> SumClassifier:
        """Return the sum of two fitted classifiers."""
        made = SumClassifier.of(consensus, difference, self.share, self.kind)
        made.how, made.classes_ = self.how, np.asarray(self.task.classes)
        return made

    def consensus_of(self, answers: Sequence[Rows], rows: int) -> LocalModel:
        """Return what carries the neighbours' answers over to any row, for a node with so many rows."""
        straight = _straight(self.inner)
        if straight is not None and last_step(self.kind) is self.kind:
            alike = adapt(clone(straight).set_params(ridge=STRAIGHT), self.task)
        elif getattr(self.inner, "takes_soft_labels", True):
            alike = changed(self.inner, parts_of(self.kind, rows)[0])
        else:
            alike = changed(self.inner, SmoothedForestClassifier(100, random_state=0))
        return self._distilled(alike, answers)

    def learn_difference(
        self, own: Rows, answers: Sequence[Rows], consensus: LocalModel, seed: int
    ) -> None:
        """Fit the difference from the consensus, and choose its share."""
        known = [replace(term, target=consensus.predict(term.X)) for term in answers]
        straight = _straight(self.inner)
        if straight is None:
            self.parts = consensus, self.inner.fit([own], seed=seed)
            self.share = best_share(self.parts, self.inner, own, known, seed)
            return
        offset = [replace(term, offset=log_odds(term.target)) for term in known]
        if not self.settles:
            offset = drawn(offset, seed)
        here = replace(own, offset=log_odds(consensus.predict(own.X)))
        difference = self._after_steps(straight, [here, *offset], seed)
        self.parts, self.share, self.how = (consensus, difference), 1.0, ODDS

    def _after_steps(self, straight: SoftmaxModel, terms: list[Rows], seed: int) -> LocalModel:
        """Return a softmax regression fitted to terms after the steps of the node's pipeline, if any."""
        given, linear = self.inner.estimator, adapt(clone(straight), self.task)
        if last_step(given) is given:
            return linear.fit(terms, seed=seed)
        steps = clone(given[:-1]).fit(terms[0].X, self.task.decode(terms[0].target))
        moved = [
            replace(term, X=np.asarray(steps.transform(term.X), dtype=float)) for term in terms
        ]
        last = linear.fit(moved, seed=seed).estimator
        return adapt(Pipeline([*steps.steps, (given.steps[-1][0], last)]), self.task)

    def answer(self, consensus: FloatArray, difference: FloatArray) -> FloatArray:
        """Return the probabilities of the sum."""
        return combined(consensus, difference, self.share, self.how)


def best_share(
    parts: Sequence[LocalModel], model: LocalModel, own: Rows, known: Sequence[Rows], seed: int
) -> float:
    """Return the share of the model trained alone that explains held-out rows best in the mixture."""
    consensus, alone = parts
    fold = np.random.default_rng(seed).permutation(len(own)) % min(FOLDS, len(own))
    held = np.zeros_like(own.target)
    for k in np.unique(fold) if len(own) > 1 else ():
        rest, out = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        held[out] = model.fit([own.some(rest)], seed=seed).predict(some(own.X, out))
    pairs = [(own, consensus.predict(own.X), held)]
    pairs += [(term, term.target, alone.predict(term.X)) for term in known]
    losses = [
        sum(
            float(term.weight @ term.loss.per_row(term.target, combined(p, q, s, MIXTURE)))
            for term, p, q in pairs
        )
        for s in SHARES
    ]
    return float(SHARES[int(np.argmin(losses))])


def _straight(model: LocalModel) -> SoftmaxModel | None:
    """Return a linear model as a softmax regression, which takes offsets; None for other kinds."""
    given = last_step(model.estimator)
    if isinstance(given, SoftmaxModel):
        return given
    if type(given) is not LogisticRegression or given.class_weight is not None or given.l1_ratio:
        return None
    if given.penalty not in ("l2", "deprecated"):
        return None
    ridge = (1.0 if model.task.n_outputs == 2 else 0.5) / given.C
    return SoftmaxModel(ridge=ridge, fit_intercept=given.fit_intercept)
