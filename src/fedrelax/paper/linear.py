"""The curves of linear models: 500 gradient iterations on the vectorised engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from fedrelax.baselines import IFCA, Ditto, FedAvg, FedProx, NetworkLasso, Oracle
from fedrelax.baselines.objectives import SquaredObjectives
from fedrelax.datasets import SyntheticNetwork
from fedrelax.engines import LinearEngine
from fedrelax.engines.linear import GradientRounds
from fedrelax.estimators import FOLD_STREAM, FedRelaxRegressor
from fedrelax.graph import Graph
from fedrelax.linear import LinearProblem
from fedrelax.models import LinearModel
from fedrelax.paper.cells import Cell
from fedrelax.runtime import Callback, Record, run
from fedrelax.selection import fold_rows
from fedrelax.splits import group_rows
from fedrelax.theory import cluster_variation, noise_level, variation_bound
from fedrelax.typing import FloatArray

ITERATIONS = 500
RATE = 0.01
START = 1
"""Separates the random stream of the initial models from that of the data under the same seed."""
Models = Iterator[FloatArray]
AUTO = "fedrelax auto"
FURTHER = ("fedprox", "ditto", "network lasso", "fedmd")


def linear_curve(cell: Cell, seed: int) -> FloatArray:
    """Return the metric at iterations 0 to 499; iteration k is measured before update k + 1."""
    data = cell.draw(seed)
    if cell.metric == "bound":
        assert cell.alpha is not None
        return np.array([variation_bound(data.graph, cell.alpha, noise_level(data.noise))])
    measure = _measure(cell.metric, data)
    if cell.method == AUTO:
        return _automatic(data, measure)
    curves, errors = [], []
    held = SquaredObjectives(data.X_val, data.y_val) if cell.method in FURTHER else None
    for models in _ways(cell, data, seed):
        curve = np.empty(ITERATIONS)
        for k, W in enumerate(islice(models, ITERATIONS)):
            curve[k] = measure(W)
        curves.append(curve)
        errors.append(0.0 if held is None else held.mean_loss(W))
    return curves[int(np.argmin(errors))]


def _automatic(data: SyntheticNetwork, measure: Callable[[FloatArray], float]) -> FloatArray:
    """Return the curve of exact rounds, with alpha, wiring and number of rounds chosen on training rows.

    One round is one iteration; after the last round the models no longer change.
    """
    n, m, d = data.X.shape
    X, y = data.X.reshape(n * m, d), data.y.ravel()
    rows = group_rows(np.repeat(range(n), m), n * m)  # as drawn: fit would arrange the rows
    estimator = FedRelaxRegressor(
        LinearModel(fit_intercept=False), data.graph, alpha="auto", wiring="auto"
    )
    parts = fold_rows(rows, estimator.folds, np.random.default_rng([0, FOLD_STREAM]))
    network = estimator.network_of(X, y, rows, {})
    folds = [estimator.network_of(X, y, *part) for part in parts]
    search = replace(
        estimator.search(), seconds=None
    )  # a figure must not depend on the machine's speed
    choice = search.plan(network, folds, estimator.settings()).choice
    assert choice is not None
    solver = choice.settings(estimator.settings())
    engine = LinearEngine.of(network, solver)
    curve: list[float] = []

    class Watch(Callback):
        def after_round(self, record: Record) -> None:
            curve.append(measure(engine.weights))

    run(engine, solver.stopping(engine), [Watch()], solver.wiring)
    return np.concatenate([curve, np.full(ITERATIONS, curve[-1])])[:ITERATIONS]


def _measure(metric: str, data: SyntheticNetwork) -> Callable[[FloatArray], float]:
    if metric == "MSE_w":
        truth = data.true_weights[:, :, None]
        return lambda W: float(np.square(W - truth).mean())
    if metric == "MSE_val":
        held = SquaredObjectives(data.X_val, data.y_val)
        return held.mean_loss
    return lambda W: cluster_variation(W, data.clusters)


def _ways(cell: Cell, data: SyntheticNetwork, seed: int) -> Sequence[Models]:
    """Return the method's iterates; for a further baseline, one sequence for each of its settings.

    Of several, the one with the smallest final validation error counts, which favours the baseline.
    """
    rng = np.random.default_rng([seed, START])
    if cell.method == "fedrelax":
        problem = LinearProblem(data.X, data.y, data.graph.adjacency, data.public)
        assert cell.alpha is not None
        return [_gradient_rounds(problem, cell.alpha, rng, cell.first_exchange)]
    F = SquaredObjectives(data.X, data.y)
    graph = data.graph.adjacency
    if cell.method == "fedmd":
        everybody = Graph.complete(range(F.n), weight=1.0 / F.n).adjacency
        problem = LinearProblem(data.X, data.y, everybody, data.public[0])
        return [_gradient_rounds(problem, weight, rng, "models") for weight in (0.1, 1.0, 10.0)]
    ways: dict[str, Sequence[Any]] = {
        "oracle": [Oracle(dict(enumerate(data.clusters.tolist())), rate=RATE)],
        "fedavg": [FedAvg(rate=RATE)],
        "ifca2": [IFCA(rate=RATE, clusters=2)],
        "ifca5": [IFCA(rate=RATE, clusters=5)],
        "fedprox": [FedProx(rate=RATE, mu=mu) for mu in (0.01, 0.1, 1.0)],
        "ditto": [Ditto(rate=RATE, pull=pull) for pull in (0.1, 0.3, 1.0, 3.0)],
        "network lasso": [
            NetworkLasso(strength=s, adjacency=graph) for s in (0.01, 0.03, 0.1, 0.3)
        ],
    }
    return [way.iterate(F, np.random.default_rng([seed, START])) for way in ways[cell.method]]


def _gradient_rounds(
    problem: LinearProblem, alpha: float, rng: np.random.Generator, first: Any
) -> Models:
    """Yield the models before every step of RMSprop with the paper's constants."""
    size = problem.d**-0.5
    start = rng.uniform(-size, size, (problem.n, problem.d, problem.q))
    rounds = GradientRounds(problem, alpha, start, rate=RATE, first_exchange=first)
    while True:
        yield rounds.models
        rounds.step()
