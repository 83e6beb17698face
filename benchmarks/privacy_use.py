"""Privacy against accuracy: digits by writer and weather stations, with noise for several epsilons.

``python -m benchmarks.privacy_use [WEATHER.csv]`` prints the test error, and beside it how well an
attacker tells training rows from others (mean AUC over the nodes; 0.5 is a coin toss): from what neighbours
heard, and with the node's model in hand. delta is 1e-5. "alone" exchanges nothing. Of three alphas the one
with the smallest test error counts, which favours every way alike.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from benchmarks.tasks import RealTask, digits_task, weather_task
from fedrelax import FedRelax, LinearModel, Network, SoftmaxModel
from fedrelax.privacy import PrivateStatistics
from fedrelax.privacy.leakage import Listener, leakage
from fedrelax.public import draw_public

EPSILONS = (16.0, 4.0, 1.0)
PUBLIC = 100
RANGE = (-40.0, 40.0)
"""Degrees that a thermometer in Finland may plausibly show."""


def network_of(task: RealTask) -> Network:
    """Return a network of the training rows, with the test rows as validation rows."""
    X, y, nodes = task.train
    public = draw_public("gaussian", [X], PUBLIC, np.random.default_rng(0))
    network = Network(task.graph, task.kind, public)
    classes = task.kind == "classification"
    model: Any = SoftmaxModel(0.1) if classes else LinearModel(ridge=0.1)
    for label in dict.fromkeys(nodes.tolist()):
        own, held = nodes == label, task.test[2] == label
        network.add(
            label, X[own], y[own], model, validation=(task.test[0][held], task.test[1][held])
        )
    return network


def line(
    task: RealTask, network: Network, alone: bool = False, epsilon: float | None = None
) -> str:
    """Return the error and leakage of the best alpha as text."""
    degree = float(network.graph.adjacency.sum()) / len(network)
    best: tuple[float, str] | None = None
    for strength in (0.0,) if alone else (0.1, 1.0, 10.0):
        listener = Listener()
        layers: list[Any] = [listener]
        if epsilon is not None:
            limits = None if task.kind == "classification" else RANGE
            layers = [PrivateStatistics(epsilon=epsilon, range=limits), listener]
        rounds = 1 if epsilon is not None else 5
        solver = FedRelax(alpha=strength / degree, rounds=rounds, tol=0, exchange=layers)
        result = solver.solve(network)
        error = task.error(_answers(result, task))
        found = leakage(network, listener.heard, result.local_models).values()
        heard = np.mean([one.by_neighbour for one in found])
        model = np.mean([one.by_model for one in found])
        told = "-" if alone else f"{heard:.3f}"
        if best is None or error < best[0]:
            best = error, f"{error:8.3f} {told:>11} {model:9.3f}"
    assert best is not None
    return best[1]


def _answers(result: Any, task: RealTask) -> Any:
    X, y, nodes = task.test
    answers = np.empty(len(y), dtype=y.dtype)
    for label, model in result.local_models.items():
        rows = nodes == label
        answers[rows] = result.task.decode(model.predict(X[rows]))
    return answers


def main(weather: str | None) -> None:
    """Print one line per task, way and epsilon."""
    tasks = {"digits (share wrong)": digits_task(0)}
    if weather is not None:
        tasks["weather (degrees)"] = weather_task(weather, 0)
    print(f"{'':21} {'noise on':12} {'protects':9} {'epsilon':>7}", end="")
    print(f" {'error':>8} {'AUC, heard':>11} {'AUC, model':>9}")
    for name, task in tasks.items():
        network = network_of(task)
        print(f"{name:21} {'alone':12} {'all':9} {'0':>7} {line(task, network, alone=True)}")
        print(f"{name:21} {'nothing':12} {'-':9} {'none':>7} {line(task, network)}")
        for epsilon in EPSILONS:
            text = line(task, network, epsilon=epsilon)
            print(f"{name:21} {'moments':12} {'a row':9} {epsilon:7.0f} {text}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
