"""Does learning together help on real data? Digits by writer, and weather stations.

``python -m benchmarks.real_data [WEATHER.csv]`` prints, for several random splits, the test
error of each node alone, of one pooled model and of FedRelax, all with the same kind of model. Every
setting (penalty, alpha, rounds) is chosen on the training rows, separately for each way.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.tasks import RealTask, digits_task, weather_task
from fedrelax.estimators import FedRelaxClassifier, FedRelaxRegressor
from fedrelax.models import LinearModel, SoftmaxModel

PENALTIES = (0.01, 0.1, 1.0)
ROUNDS = {"classification": 5, "regression": 30}
ALONE = (0.0,)


def estimator_for(task: RealTask, ridge: float, rounds: int) -> Any:
    """Return the estimator with a linear model at every node."""
    if task.kind == "classification":
        return FedRelaxClassifier(SoftmaxModel(ridge), task.graph, rounds=rounds, alpha=0.1)
    return FedRelaxRegressor(LinearModel(ridge=ridge), task.graph, rounds=rounds, alpha=0.1)


def chosen(task: RealTask, nodes: Any, alphas: Sequence[float] | None, rounds: int) -> Any:
    """Return the fitted estimator with the penalty, alpha and rounds of the smallest validation loss."""
    X, y, _ = task.train
    best: tuple[float, Any] | None = None
    for ridge in PENALTIES:
        estimator = estimator_for(task, ridge, rounds)
        if len(np.unique(nodes)) == 1:
            estimator.set_params(graph=None)
        estimator.set_params(alpha="auto" if alphas is None else alphas).fit(X, y, nodes=nodes)
        loss = float(estimator.choice_.losses.min())
        if best is None or loss < best[0]:
            best = (loss, estimator)
    assert best is not None
    return best[1]


def errors(task: RealTask) -> dict[str, float]:
    """Return the test errors of training alone, pooled and together."""
    X, _, nodes = task.test
    one = np.zeros(len(task.train[1]), dtype=int)
    alone = chosen(task, task.train[2], ALONE, rounds=1)
    pooled = chosen(task, one, ALONE, rounds=1)
    together = chosen(task, task.train[2], None, ROUNDS[task.kind])
    return {
        "alone": task.error(alone.predict(X, nodes=nodes)),
        "pooled": task.error(pooled.predict(X, nodes=np.zeros(len(X), dtype=int))),
        "together": task.error(together.predict(X, nodes=nodes)),
    }


def main(weather: str | None, splits: int = 5) -> None:
    """Print one line per split and the mean."""
    makers: dict[str, Callable[[int], RealTask]] = {"digits": digits_task}
    if weather is not None:
        makers["weather"] = lambda split: weather_task(weather, split)
    for name, make in makers.items():
        found = [errors(make(split)) for split in range(splits)]
        for split, line in enumerate(found):
            print(name, split, *(f"{way} {value:.4f}" for way, value in line.items()), flush=True)
        mean = {way: np.mean([line[way] for line in found]) for way in found[0]}
        print(name, "mean", *(f"{way} {value:.4f}" for way, value in mean.items()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
