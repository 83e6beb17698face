"""Boosted classifiers for soft labels, for labels of any type, and for classes without rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from fedrelax.models.boost.libraries import LIBRARIES, Gradient, package_of
from fedrelax.typing import AnyArray, FloatArray

SMALLEST = 1e-6
"""The smallest class share from which scores start; the score of a class without rows would start
at minus infinity."""


@dataclass(eq=False, repr=False)
class BoostedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """An ``XGBClassifier`` or ``LGBMClassifier`` trained on class probabilities instead of labels.

    Trees are boosted on the cross-entropy against soft labels, with the gradients that the library
    itself uses for hard ones. That is the same as K weighted copies of every row, with K times fewer
    rows, and a row counts once for settings such as the minimum number of rows in a leaf. Scores start
    at the logarithms of the class shares.

    template : the classifier whose settings are used.

    After ``fit``: ``booster_``, the library's own model (None if all rows are equal, with nothing to
    split); ``classes_``; ``start_``, the scores to which the trees' scores are added.
    """

    template: Any
    classes_: AnyArray = field(init=False)
    start_: FloatArray = field(init=False)
    booster_: Any = field(init=False)

    def fit(self, X: AnyArray, y: AnyArray, sample_weight: FloatArray | None = None) -> Self:
        """Fit hard labels."""
        classes, codes = np.unique(y, return_inverse=True)
        weight = np.ones(len(codes)) if sample_weight is None else np.asarray(sample_weight)
        return self.fit_soft(np.asarray(X), np.eye(len(classes))[codes], weight, classes)

    def fit_soft(
        self,
        X: AnyArray,
        target: FloatArray,
        weight: FloatArray,
        classes: AnyArray,
        before: BoostedClassifier | None = None,
    ) -> Self:
        """Fit class probabilities, one column per class; with ``before``, add trees to those it has."""
        library = LIBRARIES[package_of(self.template)]
        assert library.train is not None
        K = len(classes)
        self.classes_, self.n_features_in_ = classes, X.shape[1]
        self.start_ = _start(self.template, target, weight) if before is None else before.start_
        gradient = _gradient(target, weight, self.start_, library.curvature(K))
        self.booster_ = None if before is None else before.booster_
        if (X[0] != X).any():
            self.booster_ = library.train(self.template, X, gradient, K, self.booster_)
        return self

    def predict_proba(self, X: AnyArray) -> FloatArray:
        """Return class probabilities in the order of ``classes_``."""
        check_is_fitted(self)
        scores = LIBRARIES[package_of(self.template)].scores
        assert scores is not None
        total = np.tile(self.start_, (len(X), 1))
        if self.booster_ is not None:
            total += scores(self.template, self.booster_, np.asarray(X)).reshape(total.shape)
        return _probabilities(total)

    def predict(self, X: AnyArray) -> AnyArray:
        """Return the most likely class."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])


@dataclass(eq=False, repr=False)
class CodedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Any labels for a classifier that accepts only 0 to k - 1.

    estimator : the classifier that gets the codes; after ``fit`` it is ``estimator_``.
    """

    estimator: Any
    classes_: AnyArray = field(init=False)

    def fit(self, X: AnyArray, y: AnyArray, **given: Any) -> Self:
        """Fit the estimator to codes; ``given`` is passed to its ``fit``."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.estimator_ = self.estimator.fit(X, codes, **given)
        return self

    def predict_proba(self, X: AnyArray) -> FloatArray:
        """Return class probabilities in the order of ``classes_``."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict_proba(X))

    def predict(self, X: AnyArray) -> AnyArray:
        """Return the most likely class."""
        check_is_fitted(self)
        return np.asarray(self.classes_[np.asarray(self.estimator_.predict(X), dtype=np.int64)])


def _start(template: Any, target: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the scores before the first tree: log class shares, or what the settings ask for."""
    settings = template.get_params()
    share = weight @ target / weight.sum()
    if settings.get("base_score") is not None:
        share = np.full(len(share), 1 / len(share))
        if len(share) == 2:
            share = np.array([1 - settings["base_score"], settings["base_score"]])
    elif settings.get("boost_from_average") is False:
        share = np.full(len(share), 1 / len(share))
    start = np.log(np.clip(share, SMALLEST, None))
    return np.asarray(start[1:] - start[:1] if len(start) == 2 else start)


def _gradient(
    target: FloatArray, weight: FloatArray, start: FloatArray, curvature: float
) -> Gradient:
    """Return the derivatives of the weighted cross-entropy by the scores; two classes have one score."""
    if target.shape[1] == 2:
        target, curvature = target[:, 1:], 1.0
    scale = weight[:, None]

    def gradient(scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        p = _probabilities(scores.reshape(target.shape) + start)[:, -target.shape[1] :]
        first = scale * (p - target)
        second = scale * np.clip(curvature * p * (1 - p), 1e-16, None)
        return first.reshape(scores.shape), second.reshape(scores.shape)

    return gradient


def _probabilities(scores: FloatArray) -> FloatArray:
    """Return the softmax of scores; one column holds the score of the second of two classes."""
    if scores.shape[1] == 1:
        scores = np.hstack([np.zeros_like(scores), scores])
    return np.asarray(softmax(scores, axis=1))
