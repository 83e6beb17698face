"""Pooled: all rows in one place, one model per kind. The upper bound of sharing, and of trust."""

from __future__ import annotations

from typing import Any, Self

import joblib
import numpy as np

from fedrelax.estimators import group_rows
from fedrelax.losses import usual_loss
from fedrelax.models import LocalModel, Rows, Task, adapt
from fedrelax.typing import AnyArray, FloatArray, Label


class Pooled:
    """h = argmin over all rows of all nodes; a node is answered by the model of its own kind.

    Nodes that were given equal models share one: a network of one kind trains a single model.
    """

    def __init__(self, models: dict[Label, Any], task: Task, seed: int = 0) -> None:
        self.models = models
        self.task = task
        self.seed = seed

    def fit(self, X: FloatArray, y: AnyArray) -> Self:
        """Train one model of each kind on all rows."""
        rows = Rows(X, self.task.encode(y), np.ones(len(X)), usual_loss(self.task.kind))
        self._fitted: dict[str, LocalModel] = {}
        for model in self.models.values():
            if kind_of(model) not in self._fitted:
                local = adapt(model, self.task)
                self._fitted[kind_of(model)] = local.fit([rows], seed=self.seed)
        return self

    def predict(self, X: FloatArray, nodes: Any) -> FloatArray:
        """Return predictions of shape (rows, outputs)."""
        answer = np.empty((len(X), self.task.n_outputs))
        for label, index in group_rows(nodes, len(X)).items():
            answer[index] = self._fitted[kind_of(self.models[label])].predict(X[index])
        return answer


def kind_of(model: Any) -> str:
    """Return a text that two models share if they are of one class with equal settings.

    >>> from sklearn.linear_model import Ridge
    >>> kind_of(Ridge(2.0)) == kind_of(Ridge(2.0)), kind_of(Ridge(2.0)) == kind_of(Ridge(3.0))
    (True, False)
    """
    try:
        return str(joblib.hash(model))
    except Exception:  # What cannot be hashed, such as a model with a lambda, is a kind of its own.
        return str(id(model))
