"""The adapter for anything with scikit-learn's ``fit`` and ``predict``."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence

import numpy as np
from sklearn import config_context
from sklearn.base import clone
from sklearn.dummy import DummyClassifier

from fedrelax.errors import FedRelaxError
from fedrelax.models.base import LocalModel, Rows, Task, some, stack
from fedrelax.models.criteria import criterion_of, last_step, resample, weight_argument
from fedrelax.typing import AnyArray, FloatArray, Model

# For estimators with these attributes, warm_start means "start the optimiser at the last solution";
# for ensembles it means "keep the members fitted to the last data and add more", which no round wants.
OPTIMISER_STATE = ("coef_", "coefs_")
MARGIN_LEARNERS = (
    "SVC",
    "NuSVC",
    "LinearSVC",
    "Perceptron",
    "PassiveAggressiveClassifier",
    "SupportVectorClassifier",
)
UNROUTED = {"enable_metadata_routing": False}
"""Lets ``fit`` take weights as they are passed, even if an outer search has turned metadata routing on."""
RELEASING_MODULES = ("sklearn.tree", "sklearn.ensemble")


class ScikitModel(LocalModel):
    """A scikit-learn estimator, or anything that looks like one, as a local model.

    Regression fits the stacked rows. Classification against soft labels fits K copies of a row,
    copy c labelled c with the row's weight times the probability of c: exactly the cross-entropy.
    """

    learns_difference = True

    def __init__(self, estimator: Model, task: Task) -> None:
        super().__init__(estimator, task)
        self._template = estimator  # the estimator before the first fit
        self._weight_argument = weight_argument(estimator)
        home = type(last_step(estimator)).__module__
        self.fits = criterion_of(estimator)
        self.weights = "resampled" if self._weight_argument is None else "exact"
        self.settles = home.startswith("sklearn.linear_model")
        self.releases_gil = home.startswith(RELEASING_MODULES)

    @property
    def takes_soft_labels(self) -> bool:
        """Whether the model can learn from weighted copies of a row under several labels.

        A model that learns probabilities can. One that learns a margin, or takes no weights (as a vote
        among neighbours), is only confused by them: it gets the most likely label, with the row's weight.
        """
        if self._weight_argument is None:
            return False
        kind = type(last_step(self._template)).__name__
        return kind not in MARGIN_LEARNERS and getattr(self._template, "loss", "") != "hinge"

    @property
    def name(self) -> str:
        """The class of the template; a pipeline is named after its last step."""
        return type(last_step(self._template)).__name__

    def forgets(self, continued: bool) -> bool:
        """Whether every fit starts from a new copy: always, unless training is ``continued``."""
        return not continued

    def fit(self, terms: Sequence[Rows], *, seed: int, continued: bool = False) -> ScikitModel:
        """Return a model whose estimator is fitted to the stacked rows."""
        rows, fitted = stack(terms), copy.copy(self)
        if self.task.classes is None:
            y = rows.target[:, 0] if self.task.n_outputs == 1 else rows.target
            X, weight = rows.X, rows.weight
            if rows is terms[0]:  # the caller's own arrays, into which a model may write
                X, y = X.copy(), y.copy()
        else:
            target = rows.target
            if not self.takes_soft_labels:  # the most likely class
                target = np.eye(target.shape[1])[target.argmax(axis=1)]
            share = target * rows.weight[:, None]
            row, label = np.nonzero(share)
            X, y, weight = some(rows.X, row), self.task.classes[label], share[row, label]
        incremental = continued and learns_on(self._template)
        if self.task.classes is not None and not incremental and len(np.unique(y)) == 1:
            fitted._estimator = DummyClassifier(strategy="prior").fit(X[:1], y[:1])
        else:
            fitted._estimator = fitted._fit_estimator(X, y, weight, seed, continued)
        return fitted

    def _fit_estimator(
        self, X: AnyArray, y: AnyArray, weight: FloatArray, seed: int, continued: bool
    ) -> Model:
        with config_context(**UNROUTED):
            if continued and learns_on(self._template):
                return self._learn_on(X, y, weight, seed)
            estimator = self._restart(y) if continued else None
            if estimator is None:
                estimator = fresh(self._template, seed)
            if (weight == 1.0).all():
                return estimator.fit(X, y)
            return self._fit_weighted(estimator, X, y, weight, seed)

    def _fit_weighted(
        self, estimator: Model, X: AnyArray, y: AnyArray, weight: FloatArray, seed: int
    ) -> Model:
        if self._weight_argument is not None:
            return estimator.fit(X, y, **{self._weight_argument: weight})
        rows = resample(weight, len(weight), np.random.default_rng(seed))
        return estimator.fit(some(X, rows), y[rows])

    def _restart(self, y: AnyArray) -> Model | None:
        """Return a copy of the fitted estimator that goes on from its solution, or None if it cannot."""
        fitted = self._estimator
        if fitted is self._template or not any(hasattr(fitted, state) for state in OPTIMISER_STATE):
            return None
        if "warm_start" not in fitted.get_params(deep=False):
            return None
        if self.task.is_classification and not np.array_equal(fitted.classes_, np.unique(y)):
            return None
        return copy.deepcopy(fitted).set_params(warm_start=True)

    def _learn_on(self, X: AnyArray, y: AnyArray, weight: FloatArray, seed: int) -> Model:
        """Return a copy of the fitted estimator after one ``partial_fit``."""
        first = self._estimator is self._template
        estimator = fresh(self._template, seed) if first else copy.deepcopy(self._estimator)
        accepted = inspect.signature(estimator.partial_fit).parameters
        arguments = {"classes": self.task.classes, "sample_weight": weight}
        if "sample_weight" not in accepted and not (weight == 1.0).all():
            rows = resample(weight, len(weight), np.random.default_rng(seed))
            X, y = some(X, rows), y[rows]
        return estimator.partial_fit(X, y, **{k: v for k, v in arguments.items() if k in accepted})

    def predict(self, X: AnyArray) -> FloatArray:
        """Return predictions; a classifier without ``predict_proba`` gives probabilities 0 and 1.

        The estimator gets a copy of the rows, into which it may write.
        """
        fitted, task, X = self.estimator, self.task, X.copy()
        if task.classes is None:
            return shaped(np.asarray(fitted.predict(X), dtype=float), len(X), task.n_outputs)
        answer = class_probabilities(fitted, X, task.classes)
        return shaped(answer, len(X), task.n_outputs)


class GaussianProcessModel(ScikitModel):
    """A ``GaussianProcessRegressor`` whose noise ``alpha`` is divided by the row weights.

    Rows at the same point are merged into their weighted mean first (the same posterior), since
    a kernel matrix with equal rows is singular.
    """

    def __init__(self, estimator: Model, task: Task) -> None:
        super().__init__(estimator, task)
        # The likelihood of a row with noise alpha / w is that of w such rows.
        self.weights = "exact"

    def _fit_weighted(
        self, estimator: Model, X: AnyArray, y: AnyArray, weight: FloatArray, seed: int
    ) -> Model:
        points, group = np.unique(X, axis=0, return_inverse=True)
        total = np.bincount(group, weights=weight)
        outputs = y.reshape(len(y), -1)
        mean = np.stack(
            [np.bincount(group, weights=weight * column) / total for column in outputs.T], axis=1
        )
        noise = np.broadcast_to(estimator.alpha, len(points)) / total
        estimator.set_params(alpha=noise)
        return estimator.fit(points, mean[:, 0] if y.ndim == 1 else mean)


def learns_on(estimator: Model) -> bool:
    """Whether to continue by ``partial_fit``; an estimator with ``warm_start`` continues by that."""
    if not (hasattr(estimator, "partial_fit") and hasattr(estimator, "get_params")):
        return False
    return "warm_start" not in estimator.get_params(deep=False)


def shaped(prediction: FloatArray, rows: int, outputs: int) -> FloatArray:
    """Return the prediction as (rows, outputs); raise an error if its size or a value is wrong."""
    if prediction.size != rows * outputs:
        raise FedRelaxError(
            f"predicted an array of shape {prediction.shape} for {rows} rows and {outputs} outputs"
        )
    if not np.isfinite(prediction).all():
        raise FedRelaxError("predicted NaN or infinity; the training probably diverged")
    return prediction.reshape(rows, outputs)


def class_probabilities(fitted: Model, X: AnyArray, classes: AnyArray) -> FloatArray:
    """Return a fitted classifier's probabilities (rows, classes); without ``predict_proba``, 0 and 1."""
    if not hasattr(fitted, "predict_proba"):
        return np.asarray(np.asarray(fitted.predict(X))[:, None] == classes, dtype=float)
    answer, own = np.asarray(fitted.predict_proba(X), dtype=float), fitted.classes_
    probability = np.zeros((len(answer), len(classes)))
    probability[:, np.searchsorted(classes, own)] = shaped(answer, len(answer), len(own))
    return probability


def fresh(template: Model, seed: int) -> Model:
    """Return an unfitted copy; every ``random_state`` left at None gets the node's seed."""
    # safe=True would refuse a model without get_params; with safe=False it is deep-copied.
    estimator = clone(template, safe=False)
    if hasattr(estimator, "get_params"):
        unset = {
            name: seed
            for name, value in estimator.get_params(deep=True).items()
            if value is None and (name == "random_state" or name.endswith("__random_state"))
        }
        if unset:
            estimator.set_params(**unset)
    return estimator
