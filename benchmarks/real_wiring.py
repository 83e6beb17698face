"""Automatic alpha and wiring on real data, against every fixed alpha judged by hindsight.

``python -m benchmarks.real_wiring [WEATHER.csv] [SPLITS]`` prints, for random splits of
digits by writer and of weather stations, the test error of training alone, of the best fixed alpha on
the given graph (chosen with the test rows in view, which nobody can do), and of
``alpha="auto", wiring="auto"`` on the given graph and without any graph.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

from benchmarks.tasks import RealTask, digits_task, weather_task
from fedrelax.estimators import FedRelaxClassifier, FedRelaxRegressor
from fedrelax.models import LinearModel, SoftmaxModel
from fedrelax.selection import alphas_for

FIRST_SPLIT = 100
"""The first of the splits that were not used to choose any setting of this library."""
RIDGE = 0.1
ROUNDS = 13
"""Rounds of softmax models, enough for all stages of a wiring; linear models run to convergence."""


def error(task: RealTask, graph: bool = True, **settings: Any) -> tuple[float, Any]:
    """Return the test error and the fitted estimator."""
    given = task.graph if graph else None
    estimator: Any = FedRelaxRegressor(LinearModel(ridge=RIDGE), given, **settings)
    if task.kind == "classification":
        estimator = FedRelaxClassifier(SoftmaxModel(RIDGE), given, rounds=ROUNDS, **settings)
    X, y, nodes = task.train
    estimator.fit(X, y, nodes=nodes)
    X, _, nodes = task.test
    return task.error(estimator.predict(X, nodes=nodes)), estimator


def measure(task: RealTask) -> dict[str, float]:
    """Return the test errors of one split."""
    auto, fitted = error(task, alpha="auto", wiring="auto")
    alphas = alphas_for(fitted.graph_)
    fixed = [error(task, alpha=alpha)[0] for alpha in alphas]
    without, _ = error(task, graph=False, alpha="auto", wiring="auto")
    return {"alone": fixed[0], "best fixed": min(fixed), "auto": auto, "no graph": without}


def main(weather: str | None = None, splits: str = "5") -> None:
    """Print one line per split, the means, and the mean paired difference to the best fixed alpha."""
    warnings.simplefilter("ignore")
    numbers = range(FIRST_SPLIT, FIRST_SPLIT + int(splits))
    tasks: dict[str, Any] = {"digits": digits_task}
    if weather is not None:
        tasks["weather"] = lambda split: weather_task(weather, split)
    for name, make in tasks.items():
        found = []
        for split in numbers:
            found.append(measure(make(split)))
            print(name, split, *(f"{k} {v:.4f}" for k, v in found[-1].items()), flush=True)
        mean = {key: np.mean([line[key] for line in found]) for key in found[0]}
        print(name, "mean", *(f"{k} {v:.4f}" for k, v in mean.items()), flush=True)
        for way in ("auto", "no graph"):
            gap = np.array([line[way] - line["best fixed"] for line in found])
            sem = gap.std(ddof=1) / np.sqrt(len(gap))
            print(f"{name}: {way} minus best fixed: {gap.mean():+.4f} (standard error {sem:.4f})")


if __name__ == "__main__":
    main(*sys.argv[1:3])
