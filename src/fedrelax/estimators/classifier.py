"""One classifier per node."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from fedrelax.estimators.arguments import warn
from fedrelax.estimators.base import FedRelaxEstimator
from fedrelax.typing import AnyArray, FloatArray


class FedRelaxClassifier(ClassifierMixin, FedRelaxEstimator):  # type: ignore[misc]
    """One classifier per node, trained together over a graph.

    Parameters and attributes are those of ``FedRelaxRegressor``, and ``classes_``. A node may lack classes
    that others have: ``classes_`` is the union over all nodes. Where the regressor falls back on
    ``Ridge()``, the model is ``LogisticRegression(max_iter=1000)``.
    """

    _kind = "classification"

    def _default_model(self) -> Any:
        return LogisticRegression(max_iter=1000)

    def _check_target(self, y: AnyArray) -> AnyArray:
        check_classification_targets(y)
        return np.asarray(column_or_1d(y, warn=True))

    @property
    def classes_(self) -> AnyArray:
        """All classes, sorted."""
        check_is_fitted(self, "result_")
        classes = self.result_.task.classes
        assert classes is not None
        return classes

    def predict_proba(self, X: Any, nodes: Any = None) -> FloatArray:
        """Return class probabilities in the order of ``classes_``; 0 or 1 if a model only gives labels."""
        return self.answers(X, nodes, note=warn)

    def predict(self, X: Any, nodes: Any = None) -> AnyArray:
        """Return the most likely class of each row by the model of its node; ``nodes`` as in ``fit``."""
        answers = self.answers(X, nodes, note=warn)
        return self._result.task.decode(answers)

    def score(self, X: Any, y: Any, nodes: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy over all rows."""
        from sklearn.metrics import accuracy_score

        return float(accuracy_score(y, self.predict(X, nodes=nodes), sample_weight=sample_weight))
