"""Rounds of models that are fitted node by node: against their bare fits, and by the number of nodes."""

from __future__ import annotations

import os
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.speed.problems import exponent
from fedrelax.estimators import FedRelaxRegressor
from fedrelax.graph import Graph
from fedrelax.threads import one_thread
from fedrelax.typing import AnyArray, FloatArray

OWN_ROWS, PUBLIC_ROWS, FEATURES, ALPHA, NEIGHBOURS = 20, 200, 10, 0.1, 10
NODES = 8

Progress = Callable[[str], None]


class Setting(NamedTuple):
    """A ring of nodes with their rows: one linear trend with much noise."""

    X: FloatArray
    y: FloatArray
    nodes: AnyArray
    public: FloatArray
    graph: Graph

    @classmethod
    def of(cls, nodes: int) -> Setting:
        """Draw the rows."""
        rng = np.random.default_rng(0)
        X = rng.standard_normal((nodes * OWN_ROWS, FEATURES))
        y = X @ rng.standard_normal(FEATURES) + rng.standard_normal(len(X))
        steps = range(1, min(NEIGHBOURS // 2, (nodes - 1) // 2) + 1)
        edges = [(i, (i + step) % nodes) for i in range(nodes) for step in steps or (1,)]
        return cls(
            X,
            y,
            np.repeat(np.arange(nodes), OWN_ROWS),
            rng.standard_normal((PUBLIC_ROWS, FEATURES)),
            Graph.from_edges(edges, labels=list(range(nodes))),
        )

    def fit(self, estimator: Any, rounds: int) -> FedRelaxRegressor:
        """Run rounds through the public interface."""
        made = FedRelaxRegressor(
            estimator, graph=self.graph, alpha=ALPHA, public=self.public, rounds=rounds
        )
        return made.fit(self.X, self.y, self.nodes)

    def fits(self, alone: FedRelaxRegressor, most: int) -> Iterator[tuple[FloatArray, ...]]:
        """Yield what the first ``most`` nodes fit in the first round: rows, targets and weights."""
        told: dict[Any, FloatArray] = {}
        for i in range(most):
            own = slice(i * OWN_ROWS, (i + 1) * OWN_ROWS)
            heard = self.graph.neighbours(i)
            for j in heard:
                if j not in told:
                    told[j] = alone.result_.alone[j].predict(self.public)[:, 0]
            mean = np.mean([told[j] for j in heard], axis=0)
            weight = ALPHA * len(heard) * OWN_ROWS / PUBLIC_ROWS
            yield (
                np.concatenate([self.X[own], self.public]),
                np.concatenate([self.y[own], mean]),
                np.concatenate([np.ones(OWN_ROWS), np.full(PUBLIC_ROWS, weight)]),
            )


def _seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


@contextmanager
def cores(count: int) -> Iterator[None]:
    """Let this process use only ``count`` cores, where the system can do that."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    all_cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(sorted(all_cores)[:count]))
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_cores)


def scaling(sizes: Sequence[int], progress: Progress = lambda step: None) -> dict[str, Any]:
    """Return the seconds and memory of ``fit`` for networks of growing size, on one core."""
    from sklearn.tree import DecisionTreeRegressor

    lines, tree = [], DecisionTreeRegressor(max_depth=5)
    for nodes in sizes:
        progress(f"{nodes} nodes")
        setting = Setting.of(nodes)
        with cores(1):
            short, long = (
                min(_seconds(partial(setting.fit, tree, rounds)) for _ in range(2))
                for rounds in (1, 3)
            )
            tracemalloc.start()
            setting.fit(tree, 1)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        lines.append(
            {
                "nodes": nodes,
                "fit_of_one_round_seconds": short,
                "round_seconds": (long - short) / 2,
                "per_node_us": (long - short) / 2 / nodes * 1e6,
                "peak_megabytes": peak / 1e6,
            }
        )
    return {"exponent": exponent(lines, "round_seconds"), "lines": lines}


def overhead(progress: Progress = lambda step: None, repeats: int = 5) -> dict[str, Any]:
    """Return a round's time as a multiple of bare ``fit`` and ``predict``, for several models."""
    from importlib.util import find_spec

    from sklearn.base import clone
    from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
    from sklearn.linear_model import Lasso
    from sklearn.tree import DecisionTreeRegressor

    models: dict[str, Any] = {
        "DecisionTree": DecisionTreeRegressor(),
        "RandomForest": RandomForestRegressor(30),
        "Lasso": Lasso(0.1),
        "HistGradientBoosting": HistGradientBoostingRegressor(max_iter=20),
    }
    if find_spec("xgboost") is not None:
        from xgboost import XGBRegressor

        models["XGBoost"] = XGBRegressor(n_estimators=20, n_jobs=1)
    if find_spec("lightgbm") is not None:
        from lightgbm import LGBMRegressor

        models["LightGBM"] = LGBMRegressor(n_estimators=20, n_jobs=1, verbose=-1)
    setting, found = Setting.of(NODES), {}
    for name, model in models.items():
        progress(name)
        alone = setting.fit(model, 1)
        given = list(setting.fits(alone, NODES))

        rounds = 10 if name in ("DecisionTree", "Lasso") else 2
        ready = [clone(model) for _ in given]
        bare, short, long = (
            partial(_fit_and_predict, ready, given),
            partial(setting.fit, model, 1),
            partial(setting.fit, model, 1 + rounds),
        )
        ratios = []
        with one_thread():
            for _ in range(repeats):
                once, less, more = (
                    min(_seconds(work) for _ in range(2)) for work in (bare, short, long)
                )
                ratios.append((more - less) / rounds / once)
        found[name] = float(np.median(ratios))
    return found


def _fit_and_predict(models: Sequence[Any], given: Sequence[tuple[FloatArray, ...]]) -> None:
    for model, (X, y, weight) in zip(models, given, strict=True):
        model.fit(X, y, sample_weight=weight).predict(X)
