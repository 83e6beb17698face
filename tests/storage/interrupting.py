"""Small networks of every kind, and runs of them that are stopped on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from fedrelax import Callback, FedRelax, Graph, LinearModel, Network, SoftmaxModel
from fedrelax.runtime.history import Record
from fedrelax.solvers import Result
from fedrelax.storage import Checkpoint

NODES, ROWS, COLUMNS = 8, 14, 3


class Stop(Exception):  # noqa: N818 - not a fault
    """Somebody has pulled the plug."""


class Plug(Callback):
    """Ends the process, as far as a run can tell, while a round is measured."""

    def __init__(self, round: int | None) -> None:
        self.round = round
        self.heard: list[int] = []
        self.graphs: list[int] = []

    def after_round(self, record: Record) -> None:
        self.heard.append(record.round)
        if record.round == self.round:
            raise Stop

    def wired(self, labels: Any, edges: Any) -> None:
        self.graphs.append(edges.nnz)


def model_of(kind: str, k: int) -> Any:
    """Return the model of node k in a network of a kind."""
    if kind == "mixed":
        models = (
            Ridge(),
            DecisionTreeRegressor(max_depth=3),
            RandomForestRegressor(n_estimators=3, random_state=0),
            SVR(),
        )
        return models[k % 4]
    if kind == "mixed classes":
        models = (SoftmaxModel(), DecisionTreeClassifier(max_depth=2), LogisticRegression())
        return models[k % 3]
    kinds = {
        "linear": LinearModel(ridge=0.1),
        "trees": DecisionTreeRegressor(max_depth=3),
        "softmax": SoftmaxModel(),
    }
    return kinds[kind]


def network_of(kind: str, common: bool = True) -> Network:
    """Return a network of two groups of nodes with unlike rules, and rows held out.

    With "all linear" every node hears all others, else some.
    """
    everyone = kind == "all linear"
    rng = np.random.default_rng(7)
    classes = kind in ("softmax", "mixed classes")
    graph = Graph.from_edges(
        [
            (f"n{i}", f"n{j}")
            for i in range(NODES)
            for j in range(i)
            if everyone or (i * j + i) % 3 != 1
        ],
        labels=[f"n{i}" for i in range(NODES)],
    )
    public = rng.normal(size=(12, COLUMNS))
    network = Network(
        graph, "classification" if classes else "regression", public if common else None
    )
    for k in range(NODES):
        X = rng.normal(size=(ROWS + k, COLUMNS))
        y: Any = X @ [1.0, -1.0 if k % 2 else 1.0, 0.5] + 0.3 * rng.normal(size=len(X))
        if classes:
            y = np.where(y > 0.4, "high", np.where(y < -0.4, "low", "mid"))
        held, own = slice(0, 5), slice(5, None)
        more = {} if common else {"public": rng.normal(size=(6 + k, COLUMNS))}
        network.add(
            f"n{k}",
            X[own],
            y[own],
            model_of(kind.removeprefix("all "), k),
            validation=(X[held], y[held]),
            **more,
        )
    return network


def stopped_and_resumed(
    settings: Any, network: Network, home: Path, stops: list[int], every: int = 1
) -> tuple[Result, Plug]:
    """Return the result of a run that was stopped in these rounds and went on every time."""
    for stop in stops:
        try:
            settings().solve(network, [Checkpoint(home, every), Plug(stop)])
        except Stop:
            continue
        raise AssertionError(f"the run has ended before round {stop}")
    plug = Plug(None)
    return settings().solve(network, [Checkpoint(home, every), plug]), plug


def numbers_of(result: Result, rows: Any) -> list[Any]:
    """Return everything that two runs must have in common, to the last bit."""
    history = result.history
    names = ("round", "local_loss", "gtv", "objective", "validation_loss", "change")
    columns = [history[name] for name in (*names, "node_local_loss", "node_gtv")]
    answers = [model.predict(rows) for model in result.local_models.values()]
    alone = [model.predict(rows) for model in result.alone.values()]
    edges = np.array(list(result.discrepancies.values()))
    kept = np.array([]) if result.kept is None else result.kept.adjacency.toarray()
    return [*columns, *answers, *alone, edges, kept, result.n_rounds, result.reason]


def assert_same(one: Result, other: Result, rows: Any) -> None:
    """Compare two results bit by bit."""
    for mine, theirs in zip(numbers_of(one, rows), numbers_of(other, rows), strict=True):
        np.testing.assert_array_equal(mine, theirs)


__all__ = ["FedRelax", "Plug", "Stop", "assert_same", "network_of", "stopped_and_resumed"]
