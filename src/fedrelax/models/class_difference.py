"""A classifier as a sum: what its neighbours say, and the node's own difference from that.

For softmax and logistic regression, also as the last step of a pipeline, and for LightGBM and XGBoost the
sum is one of log-odds: the difference is fitted to own rows, and to the consensus itself on public rows,
with the consensus as its offset. Any other kind is mixed with the model trained alone. The share of the
latter, and of trees that are added to log-odds, is chosen by folds of the node's own rows. The consensus is
a model of the node's kind, fitted to soft labels; kinds that take labels only (neighbours, support vectors)
get a forest.

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
split, 3 rounds. Log loss relative to one pooled model with the node as a column:

                                        five tables  digits
    training alone                             1.37    1.27
    mixture                                    1.02    1.28
    log-odds, all of the difference            1.02    1.72
    log-odds, by a share from folds            1.00    1.72

Digits are nodes of unlike classes, whose mean is flat; there training alone is the candidate that wins.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from fedrelax.linear.arrays import softmax
from fedrelax.models.additive import SMALLEST
from fedrelax.models.base import LocalModel, Rows, some
from fedrelax.models.criteria import last_step
from fedrelax.models.difference import DifferenceModel, changed, drawn, parts_of, replaced
from fedrelax.models.few_rows import SmoothedForestClassifier
from fedrelax.models.linear import SoftmaxModel
from fedrelax.typing import AnyArray, FloatArray

ODDS, MIXTURE = "log-odds", "mixture"
STRAIGHT = 1e-6
"""Ridge term of the softmax regression that carries answers of linear models."""

SHARES = np.linspace(0.0, 1.0, 11)
FOLDS = 4


class SumClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The sum of two classifiers: ``consensus``, and ``share`` times ``difference``.

    how : "log-odds" multiplies the probabilities p of the consensus by q^share, q those of the difference;
        "mixture" takes (1 - share) p + share q.

    ``fit`` fits both to the rows. A network fits them by itself, the second to what the first leaves open,
    and hands out the fitted parts as ``consensus_`` and ``difference_``.
    """

    def __init__(
        self, consensus: Any, difference: Any, share: float = 0.5, how: str = MIXTURE
    ) -> None:
        self.consensus = consensus
        self.difference = difference
        self.share = share
        self.how = how

    @classmethod
    def of(
        cls,
        consensus: Any,
        difference: Any,
        share: float,
        how: str,
        classes: AnyArray,
        kind: Any = None,
    ) -> Self:
        """Return the sum of two fitted classifiers; ``kind`` is the unfitted model that both come from."""
        made = cls(consensus, difference, share, how)
        made.kind_ = kind
        made.consensus_, made.difference_, made.classes_ = consensus, difference, classes
        if hasattr(consensus, "n_features_in_"):
            made.n_features_in_ = consensus.n_features_in_
        return made

    def fit(self, X: AnyArray, y: AnyArray) -> Self:
        """Fit both classifiers to all rows."""
        finite = "allow-nan" if get_tags(self).input_tags.allow_nan else True
        X, y = validate_data(self, X, y, ensure_all_finite=finite)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        self.consensus_ = clone(self.consensus).fit(X, y)
        self.difference_ = clone(self.difference).fit(X, y)
        return self

    def predict_proba(self, X: AnyArray) -> FloatArray:
        """Return class probabilities in the order of ``classes_``."""
        check_is_fitted(self)
        p, q = (self._of(part, X) for part in (self.consensus_, self.difference_))
        return combined(p, q, self.share, self.how)

    def _of(self, part: Any, X: AnyArray) -> FloatArray:
        if not hasattr(part, "predict_proba"):
            return np.asarray(part.predict(X)[:, None] == self.classes_, dtype=float)
        found = np.asarray(part.predict_proba(X), dtype=float)
        answer = np.zeros((len(found), len(self.classes_)))
        answer[:, np.searchsorted(self.classes_, part.classes_)] = found
        return answer

    def predict(self, X: AnyArray) -> AnyArray:
        """Return the most likely class."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        parts = [get_tags(self.consensus), get_tags(self.difference)]
        tags.input_tags.allow_nan = all(part.input_tags.allow_nan for part in parts)
        return tags


def combined(p: FloatArray, q: FloatArray, share: float, how: str) -> FloatArray:
    """Return the probabilities of a sum of log-odds, or of a mixture.

    >>> combined(np.array([[0.5, 0.5]]), np.array([[0.8, 0.2]]), 1.0, "log-odds").round(3).tolist()
    [[0.8, 0.2]]
    """
    if how == MIXTURE:
        return np.asarray((1.0 - share) * p + share * q)
    return softmax(log_odds(p) + share * log_odds(q))


def log_odds(p: FloatArray) -> FloatArray:
    """Return logarithms of probabilities, of which none is 0."""
    return np.asarray(np.log(np.clip(p, SMALLEST, None)))


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
        classes, kind = self.task.classes, self._model.estimator
        return SumClassifier.of(consensus, difference, self.share, self.how, classes, kind)

    def forgets(self, continued: bool) -> bool:
        """Both parts start afresh in every round."""
        return isinstance(self._model.estimator, SoftmaxModel) or super().forgets(continued)

    def fit(self, terms: Sequence[Rows], *, seed: int, continued: bool = False) -> DifferenceModel:
        """Return the sum fitted to own rows (the first term) and the neighbours' answers (the others)."""
        own, answers = terms[0], [term for term in terms[1:] if term.weight.any()]
        if not answers:
            return super().fit(terms, seed=seed)
        from fedrelax.models.registry import adapt

        fitted, straight = copy.copy(self), _straight(self._model)
        parts = parts_of(self._model.estimator, len(own.target))
        given = self._model.estimator
        if straight is None or last_step(given) is not given:
            alike = _carrier(self._model, parts.consensus)
        else:
            alike = adapt(clone(straight).set_params(ridge=STRAIGHT), self.task)
        consensus = self._distilled(alike, answers)
        known = [replace(term, target=consensus.predict(term.X)) for term in answers]
        offset = [replace(term, offset=log_odds(term.target)) for term in known]
        if not self.settles:
            offset = drawn(offset, seed)
        here = replace(own, offset=log_odds(consensus.predict(own.X)))
        if straight is not None:
            difference = self._after_steps(straight, [here, *offset], seed)
            fitted.parts, fitted.share, fitted.how = (consensus, difference), 1.0, ODDS
            return fitted
        if self._model.takes_offsets:
            coarser = changed(self._model, parts.difference)
            fitted.how = ODDS

            def learn(rows: Rows) -> LocalModel:
                return coarser.fit([rows, *offset], seed=seed)
        else:

            def learn(rows: Rows) -> LocalModel:
                return self._model.fit([replace(rows, offset=None)], seed=seed)

        fitted.parts = consensus, learn(here)
        fitted.share = best_share(fitted.parts, fitted.how, here, known, learn, seed)
        return fitted

    def _after_steps(self, straight: SoftmaxModel, terms: list[Rows], seed: int) -> LocalModel:
        """Return a softmax regression fitted to terms after the steps of the node's pipeline, if any."""
        from fedrelax.models.registry import adapt

        given, linear = self._model.estimator, adapt(clone(straight), self.task)
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
    parts: Sequence[LocalModel],
    how: str,
    own: Rows,
    known: Sequence[Rows],
    learn: Callable[[Rows], LocalModel],
    seed: int,
) -> float:
    """Return the share of the difference that explains held-out rows best."""
    consensus, difference = parts
    fold = np.random.default_rng(seed).permutation(len(own)) % min(FOLDS, len(own))
    held = np.zeros_like(own.target)
    for k in np.unique(fold) if len(own) > 1 else ():
        rest, out = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        held[out] = learn(own.some(rest)).predict(some(own.X, out))
    pairs = [(own, consensus.predict(own.X), held)]
    pairs += [(term, term.target, difference.predict(term.X)) for term in known]
    losses = [
        sum(
            float(term.weight @ term.loss.per_row(term.target, combined(p, q, s, how)))
            for term, p, q in pairs
        )
        for s in SHARES
    ]
    return float(SHARES[int(np.argmin(losses))])


def _carrier(model: LocalModel, settings: dict[str, Any]) -> LocalModel:
    """Return an unfitted model for the neighbours' answers: a forest, if the kind takes labels only."""
    if getattr(model, "takes_soft_labels", True):
        return changed(model, settings)
    return replaced(model, SmoothedForestClassifier(100, random_state=0))


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
