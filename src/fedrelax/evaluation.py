"""Did it help? Each node's error alone, pooled and together, on rows that nobody trained on."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrelax.baselines import Pooled
from fedrelax.estimators import FedRelaxClassifier, FedRelaxRegressor
from fedrelax.models import Task, adapt
from fedrelax.splits import group_rows
from fedrelax.typing import AnyArray, FloatArray

MEASURES = {"regression": "RMSE", "classification": "error rate"}
WAYS = ("local", "pooled", "fedrelax")


def error(task: Task, y: AnyArray, prediction: FloatArray) -> float:
    """Return the root mean square error, or the share of wrong labels; NaN without rows."""
    if len(y) == 0:
        return float("nan")
    if task.is_classification:
        return float(np.mean(task.decode(prediction) != y))
    return float(np.sqrt(np.mean((task.encode(y) - prediction) ** 2)))


def show(measure: str, error: float) -> str:
    """Return an error for reading: a share of wrong labels in percent, else three digits.

    >>> show("error rate", 0.125), show("RMSE", 3.0712), show("RMSE", float("nan"))
    ('12.5 %', '3.07', '-')
    """
    if not np.isfinite(error):
        return "-"
    if measure == "error rate":
        return f"{100 * error:.1f} %"
    return f"{error:.0f}" if abs(error) >= 1000 else f"{error:.3g}"


def compare(
    fitted: FedRelaxRegressor | FedRelaxClassifier,
    train: tuple[FloatArray, AnyArray, Any],
    test: tuple[FloatArray, AnyArray, Any],
) -> tuple[Any, dict[str, float]]:
    """Return a DataFrame with one line per node, and the errors over all test rows.

    ``local`` is the node's model trained alone, ``pooled`` the same kind trained on everybody's
    rows, ``fedrelax`` the model of the fitted estimator. Nodes without test rows have NaN.
    """
    import pandas as pd

    X, y, nodes = train
    X_test, y_test, nodes_test = test
    result = fitted.result_
    task, rows = result.task, group_rows(nodes, len(X))
    templates = fitted.models_for(list(rows))
    pooled = Pooled().run(fitted.network_of(X, y, rows, {})).models
    answers = {way: np.empty((len(X_test), task.n_outputs)) for way in WAYS}
    held = group_rows(nodes_test, len(X_test))
    for label, index in held.items():
        answers["local"][index] = result.alone[label].predict(X_test[index])
        answers["fedrelax"][index] = result.local_models[label].predict(X_test[index])
        answers["pooled"][index] = pooled[label].predict(X_test[index])
    lines = []
    for label, index in rows.items():
        out = held.get(label, np.arange(0))
        lines.append(
            {
                "node": label,
                "model": adapt(templates[label], task).name,
                "rows": len(index),
                "test_rows": len(out),
                **{way: error(task, y_test[out], answers[way][out]) for way in WAYS},
            }
        )
    return pd.DataFrame(lines), {way: error(task, y_test, answers[way]) for way in WAYS}
