"""The curves of a figure: the data, the method and what is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from fedrelax.baselines import IFCA, FedAvg, FedProx, Oracle
from fedrelax.baselines.objectives import LocalObjectives
from fedrelax.datasets import SyntheticNetwork, clustered, mixture
from fedrelax.engines import LinearEngine
from fedrelax.engines.linear import GradientRounds
from fedrelax.estimators import FedRelaxRegressor
from fedrelax.linear import LinearProblem
from fedrelax.models import LinearModel
from fedrelax.network import Network
from fedrelax.runtime import Callback, Distillation, Loop, Record
from fedrelax.solvers import FedRelax
from fedrelax.splits import group_rows
from fedrelax.theory import cluster_variation, noise_level, variation_bound
from fedrelax.typing import FloatArray

ROWS = 10
"""Training rows per node in all of the paper's experiments."""
VALIDATION_ROWS = 100


@dataclass(frozen=True)
class Cell:
    """What defines one curve; a cell that two figures share is computed once.

    data : "clustered" (3 x 50 nodes), "benchmark" (5 x 30), "mixture" (150) or "single" (50).
    model : "linear" or "tree".
    metric : "MSE_w", "MSE_val", "variation" or "bound" (of the variation).
    alpha : None for methods without one.
    """

    data: str
    model: str
    method: str
    metric: str
    d: int
    sigma: float = 0.0
    p_in: float = 0.8
    alpha: float | None = None
    first_exchange: str = "models"

    @property
    def key(self) -> str:
        """A file name that contains all settings."""
        parts = [self.data, self.model, self.method, self.metric, f"d{self.d}"]
        parts += [f"sigma{self.sigma:g}", f"pin{self.p_in:g}"]
        if self.alpha is not None:
            parts.append(f"alpha{self.alpha:g}")
        return "-".join([*parts, self.first_exchange]).replace(" ", "_")

    @property
    def references(self) -> dict[str, Cell]:
        """The curves by which this one is divided ("local", "oracle") or bounded ("bound").

        Validation errors are divided by those of training alone, and those of trees on clusters also by
        the oracle's. The oracle and the bound do not depend on the first exchange.
        """
        cells = {}
        if self.metric == "MSE_val":
            cells["local"] = replace(self, alpha=0.0)
        if (self.data, self.metric) == ("clustered", "MSE_val"):
            cells["oracle"] = replace(self, method="oracle", alpha=None, first_exchange="models")
        if self.metric == "variation" and self.alpha:
            cells["bound"] = replace(self, metric="bound", first_exchange="models")
        return cells

    def draw(self, seed: int) -> SyntheticNetwork:
        """Return the local datasets; cells that differ in method or alpha get the same."""
        held = VALIDATION_ROWS if self.metric == "MSE_val" or self.method == FEDPROX else 0
        common: dict[str, Any] = {"d": self.d, "sigma": self.sigma, "random_state": seed}
        common |= {"m": ROWS, "m_val": held}
        if self.data == "mixture":
            return mixture(**common)
        if self.data == "single":
            return clustered((50,), p_in=self.p_in, **common)
        sizes = (50,) * 3 if self.data == "clustered" else (30,) * 5
        return clustered(sizes, p_in=self.p_in, **common)


ITERATIONS = 500
RATE = 0.01
START = 1
"""Separates the random stream of the initial models from that of the data under the same seed."""
AUTO, FEDPROX = "fedrelax auto", "fedprox"


def linear_curve(cell: Cell, seed: int) -> FloatArray:
    """Return the metric at iterations 0 to 499; iteration k is measured before update k + 1."""
    data = cell.draw(seed)
    if cell.metric == "bound":
        assert cell.alpha is not None
        return np.array([variation_bound(data.graph, cell.alpha, noise_level(data.noise))])
    measure = _measure(cell.metric, data)
    if cell.method == AUTO:
        return _automatic(data, measure)
    if cell.method == FEDPROX:
        return _fedprox(data, measure, seed)
    return np.array([measure(W) for W in islice(_models(cell, data, seed), ITERATIONS)])


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
    network = estimator.network_of(X, y, rows, {})
    folds = estimator.folds_of(network, X, y, rows, seed=0)
    # a figure must not depend on the machine's speed
    search = replace(estimator.search(), seconds=None)
    choice = search.plan(network, folds, estimator.settings()).choice
    assert choice is not None
    solver = choice.settings(estimator.settings())
    engine = LinearEngine.of(network, solver)
    curve: list[float] = []

    class Watch(Callback):
        def after_round(self, record: Record) -> None:
            curve.append(measure(engine.weights_of(engine.models)))

    Loop(engine, solver.stopping(engine), [Watch()], solver.wiring).run()
    return np.concatenate([curve, np.full(ITERATIONS, curve[-1])])[:ITERATIONS]


def _fedprox(
    data: SyntheticNetwork, measure: Callable[[FloatArray], float], seed: int
) -> FloatArray:
    """Return the curve of the mu whose last validation error is the smallest, which favours FedProx."""
    F, held = LocalObjectives(data.X, data.y), LocalObjectives(data.X_val, data.y_val)
    found = []
    for mu in (0.01, 0.1, 1.0):
        models = FedProx(rate=RATE, mu=mu).iterate(F, np.random.default_rng([seed, START]))
        curve = [measure(W := now) for now in islice(models, ITERATIONS)]
        found.append((held.mean_loss(W), curve))
    return np.array(min(found)[1])


def _measure(metric: str, data: SyntheticNetwork) -> Callable[[FloatArray], float]:
    if metric == "MSE_w":
        truth = data.true_weights[:, :, None]
        return lambda W: float(np.square(W - truth).mean())
    if metric == "MSE_val":
        return LocalObjectives(data.X_val, data.y_val).mean_loss
    return lambda W: cluster_variation(W, data.clusters)


def _models(cell: Cell, data: SyntheticNetwork, seed: int) -> Iterator[FloatArray]:
    """Yield the method's models before every step."""
    rng = np.random.default_rng([seed, START])
    if cell.method == "fedrelax":
        problem = LinearProblem(data.X, data.y, data.graph.adjacency, data.public)
        size = problem.d**-0.5
        start = rng.uniform(-size, size, (problem.n, problem.d, problem.q))
        assert cell.alpha is not None
        first: Any = cell.first_exchange
        rounds = GradientRounds(problem, cell.alpha, start, rate=RATE, first_exchange=first)
        while True:
            yield rounds.models
            rounds.step()
    ways: dict[str, FedAvg | IFCA | Oracle] = {
        "oracle": Oracle(dict(enumerate(data.clusters.tolist())), rate=RATE),
        "fedavg": FedAvg(rate=RATE),
        "ifca2": IFCA(rate=RATE, clusters=2),
        "ifca5": IFCA(rate=RATE, clusters=5),
    }
    yield from ways[cell.method].iterate(LocalObjectives(data.X, data.y), rng)


DEPTH = 5
ROUNDS = 4
DISTILLATION = Distillation(100, draw="standard")


def decision_tree() -> Any:
    """Return the paper's local model."""
    from sklearn.tree import DecisionTreeRegressor

    return DecisionTreeRegressor(max_depth=DEPTH)


def tree_network(data: SyntheticNetwork, tree: Callable[[], Any] = decision_tree) -> Network:
    """Return a synthetic network with a tree at every node."""
    network = Network(data.graph)
    for i, label in enumerate(data.graph.labels):
        held = (data.X_val[i], data.y_val[i])
        network.add(label, data.X[i], data.y[i], tree(), public=data.public[i], validation=held)
    return network


def tree_curve(cell: Cell, seed: int) -> FloatArray:
    """Return the validation error after 0 to 4 rounds, with the paper's weighting and distillation.

    The oracle has a single value: that of one tree per cluster, trained on all of the cluster's rows.
    """
    data = cell.draw(seed)
    network = tree_network(data)
    if cell.method == "oracle":
        models = Oracle(dict(enumerate(data.clusters.tolist()))).run(network, seed=seed).models
        errors = [
            np.square(models[i].predict(data.X_val[i])[:, 0] - data.y_val[i]).mean()
            for i in range(len(data.X))
        ]
        return np.array([np.mean(errors)])
    assert cell.alpha is not None
    solver = FedRelax(
        alpha=cell.alpha,
        rounds=ROUNDS,
        tol=0.0,
        weighting="rows",
        distillation=DISTILLATION,
        first_exchange=cell.first_exchange,
    )
    return np.asarray(solver.solve(network).history["validation_loss"])
