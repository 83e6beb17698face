"""Measuring models on rows that nobody trained on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedrelax.baselines import Pooled
from fedrelax.errors import FedRelaxError
from fedrelax.estimators import FedRelaxClassifier, FedRelaxRegressor
from fedrelax.evaluation.evaluation import ALONE, POOLED, TOGETHER, Evaluation
from fedrelax.evaluation.measures import Measure, get_measure
from fedrelax.models import LocalModel, Task, adapt
from fedrelax.splits import group_rows
from fedrelax.typing import AnyArray, FloatArray, Label


def errors_of(
    measure: Measure,
    task: Task,
    models: Mapping[Label, LocalModel],
    X: FloatArray,
    y: AnyArray,
    rows: Mapping[Label, AnyArray],
) -> tuple[float, dict[Label, float]]:
    """Return the error of the nodes' models over all their ``rows`` of X and y, and each node's."""
    scores = {
        label: measure.per_row(task, y[index], models[label].predict(X[index]))
        if len(index)
        else np.empty(0)
        for label, index in rows.items()
    }
    by_node = {label: measure.of_rows(score) for label, score in scores.items()}
    return measure.of_rows(np.concatenate(list(scores.values()))), by_node


def evaluate(
    fitted: FedRelaxRegressor | FedRelaxClassifier,
    train: tuple[FloatArray, AnyArray, Any],
    test: tuple[FloatArray, AnyArray, Any],
    measure: str | Measure | None = None,
) -> Evaluation:
    """Measure a fitted estimator on ``test``, each node alone, pooled and together.

    ``train`` and ``test`` are (X, y, nodes). ``alone`` is the node's model trained on its own rows,
    ``pooled`` the same kind trained on everybody's, ``together`` that of the estimator. ``measure``
    is one of ``fedrelax.evaluation.MEASURES`` or a ``Measure``; without it, the RMSE of numbers and
    the error rate of classes.
    """
    import pandas as pd

    X, y, nodes = train
    X_test, y_test, nodes_test = test
    y, y_test = (
        np.asarray(y),
        np.asarray(y_test),
    )  # rows go by position, not by the index of a Series
    result = fitted.result_
    task, rows = result.task, group_rows(nodes, len(X))
    found = get_measure(measure, task.kind)
    held = group_rows(nodes_test, len(X_test))
    X, X_test = fitted.common_rows(X, nodes), fitted.common_rows(X_test, nodes_test)
    strange = [label for label in held if label not in rows]
    if strange:
        raise FedRelaxError(
            f"node {strange[0]!r} has test rows and no training rows; leave its rows out"
        )
    ways: dict[str, Mapping[Label, LocalModel]] = {
        **_apart_and_pooled(fitted, X, y, rows),
        TOGETHER: result.local_models,
    }
    measured = {
        way: errors_of(found, task, models, X_test, y_test, held) for way, models in ways.items()
    }
    lines = {
        "node": list(rows),
        "model": [result.local_models[label].name for label in rows],
        "rows": [len(index) for index in rows.values()],
        "test_rows": [len(held.get(label, ())) for label in rows],
    }
    for way, (_, by_node) in measured.items():
        lines[way] = [by_node.get(label, np.nan) for label in rows]
    errors = {way: total for way, (total, _) in measured.items()}
    return Evaluation.of(found, pd.DataFrame(lines), errors, _way(fitted))


def _way(fitted: FedRelaxRegressor | FedRelaxClassifier) -> str:
    """Return what the estimator's models are: each node's alone, one for all, or coupled ones."""
    result, whole = fitted.result_, fitted.whole_
    if fitted.alpha_ == 0 or set(result.stayed) == set(result.local_models):
        return ALONE
    coupled = whole is None or not whole.found.is_one_model or fitted.alpha_ != whole.found.alpha
    return TOGETHER if coupled else POOLED


def _apart_and_pooled(
    fitted: FedRelaxRegressor | FedRelaxClassifier,
    X: FloatArray,
    y: AnyArray,
    rows: Mapping[Label, AnyArray],
) -> dict[str, Mapping[Label, LocalModel]]:
    """Return each node alone and pooled: the same kinds of models, each with the penalty that suits it."""
    result = fitted.result_
    whole = fitted.whole_
    if whole is None or whole.forests:
        network = fitted.network_of(X, y, rows, {})
        made = network if whole is None else whole.network(network)
        return {ALONE: result.alone, POOLED: Pooled().run(made).models}
    found = whole.found
    alone = (adapt(model, result.task) for model in found.alone)
    return {
        ALONE: dict(zip(result.local_models, alone, strict=True)),
        POOLED: dict.fromkeys(rows, adapt(found.pooled, result.task)),
    }
