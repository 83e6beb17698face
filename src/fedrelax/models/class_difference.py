"""A classifier as a sum: what its neighbours say, and the node's own difference from that.

For softmax and logistic regression, also as the last step of a pipeline, the sum is one of log-odds: the
difference is fitted to own rows, and to the consensus itself on public rows, with the consensus as its
offset. Any other kind is mixed with the model trained alone, by a share that is chosen by folds of the
node's own rows. The consensus is a model of the node's kind, fitted to soft labels; kinds that take labels
only (neighbours, support vectors) get a forest.

Compared by hand for trees and nearest neighbours on digits (10 nodes of 40 rows with unlike classes), cut
of diamonds by clarity (8 of 60) and credit by job (4 of 100), with 600 public rows and one split, after 3
rounds. Log loss and error relative to training alone, geometric means:

    what is added to the consensus                    log loss  error
    nothing                                               0.73   1.10
    own model by a share from folds, probabilities        0.59   0.92
    own model by a share from folds, log-odds             0.60   0.91
    regressor of the residual of probabilities, half      0.60   0.83
    the same in full                                      0.61   0.87
    regressor of Newton's residual of log-odds, half      0.58   0.86
    (all rows pooled, one model)                          0.59   0.77

There a regressor carried the consensus of neighbours. The consensus is the plain mean of probabilities.
Sharpened (squared and renormalised, or the mean of log-odds times 1.5), it helps on digits alone; elsewhere
nodes become surer from round to round, and the log loss of the mixture is 0.69 and 0.67 instead of 0.59.
The mixture is taken because it needs only the node's own classifier; residuals err less often, at about the
same log loss, and need a regressor of the same kind.

LightGBM on cut of diamonds (8 nodes of 60), credit by job (4 of 100), tips of taxis by company (7 of 150),
arrests by year (6 of 200) and churn by contract (3 of 200), and on digits as above; 1,000 public rows, one
split, 3 rounds. Log loss relative to one pooled model with the node as a column, for the mixture and for
trees that are added to the consensus's log-odds:

                                        five tables  digits
    training alone                             1.37    1.27
    mixture                                    1.02    1.28
    log-odds, all of the difference            1.02    1.72
    log-odds, by a share from folds            1.00    1.72

Digits are nodes of unlike classes, whose mean is flat; there training alone is the candidate that wins. The
mixture is never much worse than that, so it is taken for boosting, too.
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
from fedrelax.typing import AnyArray, FloatArray

STRAIGHT = 1e-6
"""Ridge term of the softmax regression that carries answers of linear models."""

SHARES = np.linspace(0.0, 1.0, 11)
FOLDS = 4


class ClassDifferenceModel(DifferenceModel):
    """Any classifier as a local model that learns its difference from what its neighbours say."""

    how = MIXTURE

    @property
    def estimator(self) -> Any:
        """The model trained alone, a sum of two models, or their sum as one linear model."""
        if len(self.parts) < 2:
            return super().estimator
        consensus, difference = (part.estimator for part in self.parts)
        if isinstance(consensus, SoftmaxModel) and isinstance(difference, SoftmaxModel):
            return super().estimator
        assert self.task.classes is not None
        classes, kind = self.task.classes, self.inner.estimator
        made = SumClassifier.of(consensus, difference, self.share, kind)
        made.how, made.classes_ = self.how, classes
        return made

    def forgets(self, continued: bool) -> bool:
        """Both parts start afresh in every round."""
        return isinstance(self.inner.estimator, SoftmaxModel) or super().forgets(continued)

    def consensus_of(self, answers: Sequence[Rows], rows: int) -> LocalModel:
        """Return what carries the neighbours' answers over to any row, for a node with so many rows."""
        given, straight = self.inner.estimator, _straight(self.inner)
        if straight is not None and last_step(given) is given:
            alike = adapt(clone(straight).set_params(ridge=STRAIGHT), self.task)
        else:
            alike = _carrier(self.inner, parts_of(given, rows)[0])
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

    def predict(self, X: AnyArray) -> FloatArray:
        """Return the probabilities of the sum."""
        if len(self.parts) < 2:
            return super().predict(X)
        consensus, difference = self.parts
        return combined(consensus.predict(X), difference.predict(X), self.share, self.how)


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


def _carrier(model: LocalModel, settings: dict[str, Any]) -> LocalModel:
    """Return an unfitted model for the neighbours' answers: a forest, if the kind takes labels only."""
    if getattr(model, "takes_soft_labels", True):
        return changed(model, settings)
    return changed(model, SmoothedForestClassifier(100, random_state=0))


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
