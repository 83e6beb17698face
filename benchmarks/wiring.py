"""Does the graph wire itself? ``alpha="auto", wiring="auto"`` on networks with a known truth.

``python -m benchmarks.wiring [SEEDS] [JOBS]`` prints, for the paper's benchmark and variations
of it, the error of the weights: of plain FedRelax (the best of the usual alphas, by hindsight) and of
automatic wiring, which is told nothing; then of networks on which rewiring cannot help.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from threadpoolctl import threadpool_limits

from fedrelax.datasets import SyntheticNetwork, clustered, mixture
from fedrelax.estimators import FedRelaxRegressor
from fedrelax.models import LinearModel
from fedrelax.selection import alphas_for

BENCHMARK = (30,) * 5


@dataclass(frozen=True)
class Case:
    """A network to draw, and whether its graph is given to the estimator."""

    draw: Callable[[int], SyntheticNetwork]
    graph: bool = True


def _case(sizes: tuple[int, ...] = BENCHMARK, graph: bool = True, **changes: Any) -> Case:
    settings = {"m": 10, "d": 50, **changes}
    return Case(lambda seed: clustered(sizes, random_state=seed, **settings), graph)


CLUSTERED = {
    "benchmark": _case(),
    "benchmark, sigma=1": _case(sigma=1.0),
    "p_out=0.4": _case(p_out=0.4),
    "clusters of 10 to 50": _case((10, 20, 30, 40, 50)),
    "2 clusters": _case((75, 75)),
    "10 clusters": _case((15,) * 10),
    "d=20": _case(d=20),
    "d=100": _case(d=100),
    "no graph": _case(graph=False),
    "no graph, m=20": _case(graph=False, m=20),
}
"""Measured by the error of the weights: the true ones are those of the cluster."""
UNHELPED = {
    "one cluster": Case(lambda seed: clustered((150,), d=10, sigma=1.0, random_state=seed)),
    "one cluster, d=50": Case(lambda seed: clustered((150,), d=50, sigma=1.0, random_state=seed)),
    "mixture": Case(lambda seed: mixture(d=10, random_state=seed)),
    "mixture, sigma=5": Case(lambda seed: mixture(d=10, sigma=5.0, random_state=seed)),
    "independent": Case(lambda seed: clustered((1,) * 100, d=5, sigma=0.5, random_state=seed)),
    "independent, d=50": Case(lambda seed: clustered((1,) * 100, d=50, random_state=seed)),
}
"""Measured by the error on validation rows, which no method sees."""


def fitted(data: SyntheticNetwork, graph: bool = True, **settings: Any) -> FedRelaxRegressor:
    """Return the estimator after training on the network's rows."""
    n, m, d = data.X.shape
    estimator = FedRelaxRegressor(
        LinearModel(fit_intercept=False), data.graph if graph else None, **settings
    )
    return estimator.fit(data.X.reshape(n * m, d), data.y.ravel(), nodes=np.repeat(range(n), m))


def weights_error(fit: FedRelaxRegressor, data: SyntheticNetwork) -> float:
    """Return the mean squared error of the weights."""
    W = np.stack([fit.models_[i].coef_ for i in range(len(data.X))])
    return float(np.square(W - data.true_weights).mean())


def validation_error(fit: FedRelaxRegressor, data: SyntheticNetwork) -> float:
    """Return the mean squared error on the validation rows."""
    W = np.stack([fit.models_[i].coef_ for i in range(len(data.X))])
    return float(np.square(np.einsum("nmd,nd->nm", data.X_val, W) - data.y_val).mean())


def within(fit: FedRelaxRegressor, data: SyntheticNetwork) -> float:
    """Return the share of the edge weight in use that joins nodes of one cluster."""
    edges = (fit.result_.kept or fit.result_.graph).adjacency
    same = data.clusters[:, None] == data.clusters
    return float(edges.multiply(same).sum() / edges.sum())


def measure(name: str, seed: int) -> dict[str, Any]:
    """Return the errors of one drawn network: alone, best fixed alpha, automatic."""
    helped = name in CLUSTERED
    case = CLUSTERED[name] if helped else UNHELPED[name]
    error = weights_error if helped else validation_error
    with threadpool_limits(1):
        data = case.draw(seed)
        auto = fitted(data, case.graph, alpha="auto", wiring="auto")
        plain = [
            error(fitted(data, case.graph, alpha=alpha), data) for alpha in alphas_for(auto.graph_)
        ]
    return {
        "case": name,
        "alone": plain[0],
        "fixed": min(plain),
        "auto": error(auto, data),
        "within": within(auto, data),
        "wiring": auto.wiring_ if isinstance(auto.wiring_, str) else auto.wiring_.name,
        "alpha": auto.alpha_,
        "rounds": auto.n_rounds_,
    }


def main(seeds: int = 5, jobs: int = 1) -> None:
    """Print one line per case: means over the seeds."""
    names = [*CLUSTERED, *UNHELPED]
    tasks = [(name, seed) for name in names for seed in range(seeds)]
    found = joblib.Parallel(n_jobs=jobs)(joblib.delayed(measure)(*task) for task in tasks)
    print(
        f"{'case':22} {'alone':>8} {'best fixed':>10} {'auto':>8} {'worst':>8} {'within':>6}  wiring"
    )
    for name in names:
        lines = [line for line in found if line["case"] == name]
        mean = {key: np.mean([line[key] for line in lines]) for key in ("alone", "fixed", "auto")}
        worst = max(line["auto"] for line in lines)
        share = np.mean([line["within"] for line in lines])
        chosen = "/".join(sorted({line["wiring"] for line in lines}))
        print(
            f"{name:22} {mean['alone']:8.4f} {mean['fixed']:10.4f} {mean['auto']:8.4f} "
            f"{worst:8.4f} {share:6.3f}  {chosen}",
            flush=True,
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
