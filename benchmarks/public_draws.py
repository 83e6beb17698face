"""Which way of drawing public rows is the best default?

``python -m benchmarks.public_draws [WEATHER.csv]`` prints the test error of each way for
several model kinds on digits by writer and, if the file is given, on weather stations. For every way
and kind, alpha and the number of rounds are chosen on the training rows.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

from benchmarks.tasks import RealTask, digits_task, weather_task
from fedrelax.estimators import FedRelaxClassifier, FedRelaxRegressor
from fedrelax.evaluation import evaluate
from fedrelax.models import LinearModel, SoftmaxModel
from fedrelax.public import DRAWS

ROUNDS = 3
STRENGTHS = (0.3, 3.0, 30.0)


def kinds(task: str) -> dict[str, Any]:
    """Return one linear, one tree-like and one smooth non-linear model for the task."""
    from sklearn import ensemble, neighbors

    if task == "classification":
        return {
            "linear": SoftmaxModel(ridge=0.1),
            "forest": ensemble.RandomForestClassifier(10),
            "neighbours": neighbors.KNeighborsClassifier(3),
        }
    return {
        "linear": LinearModel(ridge=0.1),
        "forest": ensemble.RandomForestRegressor(10),
        "neighbours": neighbors.KNeighborsRegressor(3),
    }


def errors(task: RealTask, model: Any, how: str, rows: int) -> dict[str, float]:
    """Return the test errors of training alone, pooled and together, for one way of drawing."""
    kind = FedRelaxClassifier if task.kind == "classification" else FedRelaxRegressor
    estimator = kind(model, task.graph, public=how, public_rows=rows, rounds=ROUNDS)
    degree = float(np.mean(task.graph.degrees))
    alphas = [strength / degree for strength in STRENGTHS]
    estimator.set_params(alpha=alphas, folds=2)
    X, y, nodes = task.train
    return dict(evaluate(estimator.fit(X, y, nodes=nodes), task.train, task.test).errors)


def main(weather: str | None, splits: int = 2, rows: tuple[int, ...] = (200,)) -> None:
    """Print a table: task, model, rows, way, mean errors over the splits."""
    warnings.simplefilter("ignore")
    tasks = {"digits": [digits_task(split) for split in range(splits)]}
    if weather is not None:
        tasks["weather"] = [weather_task(weather, split) for split in range(splits)]
    print(
        f"{'task':8} {'model':11} {'rows':>4} {'way':10} {'alone':>7} {'pooled':>7} {'together':>8}"
    )
    for name, cases in tasks.items():
        for model_name, model in kinds(cases[0].kind).items():
            for count in rows:
                for how in DRAWS:
                    found = [errors(case, model, how, count) for case in cases]
                    mean = {way: np.mean([e[way] for e in found]) for way in found[0]}
                    print(
                        f"{name:8} {model_name:11} {count:4} {how:10} {mean['alone']:7.4f} "
                        f"{mean['pooled']:7.4f} {mean['together']:8.4f}",
                        flush=True,
                    )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
