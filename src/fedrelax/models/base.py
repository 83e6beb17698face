"""The local-model contract: what a node's model must offer, and nothing more."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin

from fedrelax.losses import Loss
from fedrelax.typing import AnyArray, FloatArray, IntArray, Model


@dataclass(frozen=True)
class Task:
    """What all nodes predict: numbers, or one of the classes that any node has seen."""

    kind: str
    n_outputs: int
    classes: AnyArray | None = None

    @property
    def is_classification(self) -> bool:
        """Whether the outputs are class probabilities."""
        return self.kind == "classification"

    def encode(self, y: AnyArray) -> FloatArray:
        """Return labels as targets of shape (rows, outputs): numbers, or one-hot rows."""
        if self.classes is None:
            return np.asarray(y, dtype=float).reshape(len(y), self.n_outputs)
        codes = np.searchsorted(self.classes, y)
        return np.eye(self.n_outputs)[codes]

    def plausible(self, prediction: FloatArray) -> FloatArray:
        """Return numbers as they are, and anything else as probabilities that sum to 1."""
        if self.classes is None:
            return prediction
        positive = np.clip(prediction, 1e-3, None)
        return np.asarray(positive / positive.sum(axis=-1, keepdims=True))

    def decode(self, prediction: FloatArray) -> AnyArray:
        """Return predictions in the user's terms: labels, or numbers (1-D for one output)."""
        if self.classes is not None:
            return np.asarray(self.classes[prediction.argmax(axis=1)])
        return prediction[:, 0] if self.n_outputs == 1 else prediction


@dataclass(frozen=True)
class Rows:
    """Weighted rows and the loss that applies to them: one term of a node's objective.

    The term is sum_r weight_r * loss(target_r, h(X_r)). Where classes have an ``offset``, log-odds that the
    model's own are added to, the probabilities are softmax(offset_r + scores of X_r).
    """

    X: AnyArray
    target: FloatArray
    weight: FloatArray
    loss: Loss
    offset: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.weight)

    def some(self, rows: IntArray) -> Rows:
        """Return some of the rows, by their numbers."""
        offset = None if self.offset is None else self.offset[rows]
        return Rows(some(self.X, rows), self.target[rows], self.weight[rows], self.loss, offset)


def stack(terms: Sequence[Rows]) -> Rows:
    """Return all terms as one set of rows, without the rows of zero weight.

    The terms must share one loss: ``losses.requirement`` has been asked before the first round.
    """
    kept = [
        term if (term.weight > 0).all() else term.some(np.flatnonzero(term.weight > 0))
        for term in terms
    ]
    if len(kept) == 1:
        return kept[0]
    offsets = [term.offset for term in kept if term.offset is not None]
    return Rows(
        joined([term.X for term in kept]),
        np.concatenate([term.target for term in kept]),
        np.concatenate([term.weight for term in kept]),
        terms[0].loss,
        np.concatenate(offsets) if offsets else None,
    )


def joined(parts: Sequence[Any]) -> Any:
    """Return rows one below the other: arrays, or DataFrames for models that take these."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    import pandas as pd

    return pd.concat(parts, ignore_index=True)


def some(X: Any, rows: AnyArray) -> Any:
    """Return rows by their numbers, of an array or of a DataFrame."""
    return X[rows] if isinstance(X, np.ndarray) else X.iloc[rows]


class LocalModel(ABC):
    """A node's model. ``fit`` returns a new, fitted one and leaves this one as it is.

    That makes a model safe to hand to another thread or process, to keep for later and to go back
    to. A subclass, or an instance, says what it can do through the attributes; a solver asks once,
    before the first round.
    """

    fits: frozenset[str] | None = None
    """The losses that ``fit`` minimises over weighted rows, or None where it cannot be told."""
    gradients: bool = False
    """Whether ``fit`` can minimise terms with different losses."""
    weights: str = "exact"
    """How weights reach the model: "exact" or "resampled"."""
    settles: bool = False
    """Whether rounds lead to the same model from wherever they start, as convex ones do."""
    releases_gil: bool = False
    """Whether several of these train faster in threads than in processes."""
    learns_difference: bool = False
    """Whether a sum with what neighbours say suits the model, as it does one of any scikit-learn kind."""
    recalls: bool = False
    """Whether ``memory`` and ``remembering`` are there for a model that does not forget."""

    def __init__(self, estimator: Model, task: Task) -> None:
        self._estimator, self.task = estimator, task

    @property
    def estimator(self) -> Model:
        """The plain object that the user gets in the end."""
        return self._estimator

    @property
    def name(self) -> str:
        """How messages call this model."""
        return type(self.estimator).__name__

    @property
    def drifts(self) -> bool:
        """Whether refits to refitted models lose detail, so that the first answers teach most."""
        return not self.settles

    def forgets(self, continued: bool) -> bool:
        """Whether a fit depends on its terms and seed alone, and not on the fits before it.

        Such a model need not be kept to go on with a stopped run: it is fitted again.
        """
        return False

    def memory(self) -> Any:
        """Return as plain values and arrays what predictions and later fits depend on."""
        raise NotImplementedError

    def remembering(self, memory: Any) -> LocalModel:
        """Return the model that had this memory."""
        raise NotImplementedError

    def check(self, X: AnyArray) -> None:  # noqa: B027 - most models take any rows
        """Refuse rows like ``X`` that the model cannot take; asked once, before the first round."""

    @abstractmethod
    def fit(self, terms: Sequence[Rows], *, seed: int, continued: bool = False) -> LocalModel:
        """Return a model fitted to the sum of the terms.

        ``seed`` is fixed for a node. With ``continued``, training goes on from this model's state
        where the model knows how; otherwise it starts afresh.
        """

    @abstractmethod
    def predict(self, X: AnyArray) -> FloatArray:
        """Return predictions of shape (rows, outputs): numbers, or class probabilities."""

    def __copy__(self) -> Self:
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        return new


class WrappedModel(LocalModel):
    """A local model around another, which it takes after in all that it does not do itself."""

    def __init__(self, inner: LocalModel) -> None:
        self.inner, self.task = inner, inner.task
        self.fits, self.gradients, self.weights = inner.fits, inner.gradients, inner.weights
        self.settles, self.releases_gil = inner.settles, inner.releases_gil
        self.recalls, self.learns_difference = inner.recalls, inner.learns_difference

    @property
    def estimator(self) -> Model:
        """The estimator of the model inside."""
        return self.inner.estimator

    @property
    def name(self) -> str:
        """What messages call the model inside."""
        return self.inner.name

    @property
    def drifts(self) -> bool:
        """Whether refits of the model inside lose detail."""
        return self.inner.drifts

    def forgets(self, continued: bool) -> bool:
        """Whether a fit of the model inside is independent of the fits before it."""
        return self.inner.forgets(continued)

    def memory(self) -> Any:
        """Return the memory of the model inside."""
        return self.inner.memory()


class MostLikelyClass(ClassifierMixin):  # type: ignore[misc]
    """Gives classifiers with ``predict_proba`` their ``predict``."""

    classes_: AnyArray

    def predict(self, X: AnyArray) -> AnyArray:
        """Return the most likely class."""
        chances: FloatArray = self.predict_proba(X)
        return np.asarray(self.classes_[chances.argmax(axis=1)])


class BatchedModel(LocalModel):
    """A model that can be trained at once with others of its kind, to the same result.

    In every round the engine puts the nodes whose ``batch_key`` is equal into one ``fit_many`` and
    one ``predict_many``; if either fails, these nodes are fitted one by one.
    """

    @abstractmethod
    def batch_key(self, terms: Sequence[Rows]) -> Hashable | None:
        """Return what models that train together have in common; None: this one trains alone."""

    @classmethod
    @abstractmethod
    def fit_many(
        cls,
        models: Sequence[Self],
        problems: Sequence[Sequence[Rows]],
        *,
        seeds: Sequence[int],
        continued: bool,
    ) -> list[Self]:
        """Return what ``fit`` would return for each."""

    @classmethod
    @abstractmethod
    def predict_many(
        cls, models: Sequence[Self], inputs: Sequence[Sequence[AnyArray]]
    ) -> list[list[FloatArray]]:
        """Return each model's answers on each of its sets of rows."""
