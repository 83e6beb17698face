"""Nodes with different columns: together, alone, and with the common columns only.

``python -m benchmarks.different_columns [SPLITS]`` prints the test error, averaged over the splits, for

- digits of 14 writers, 20 labelled images each: every writer sees a different random half of the image;
  the public images, 10 per writer, are whole and unlabelled. No pixel is seen by all writers;
- four tables of the league and a synthetic one: every third node lacks the column that a pooled linear
  model needs most.

Tables, models and settings were fixed before the first run.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import Ridge

from benchmarks.league.tables import TABLES, split
from fedrelax import FedRelaxClassifier, FedRelaxRegressor, SoftmaxModel
from fedrelax.datasets import digits_by_writer, labelled_split
from fedrelax.evaluation import evaluate

SPLITS = 5
NAMES = ("Gasoline", "RiceFarms", "SumHes", "Guns")
THIRD = 3
ALPHAS = np.array([0.0, 0.1, 0.3, 1.0, 3.0])
"""The alphas to choose from for a named model, times the number of nodes."""


def drawn(seed: int) -> tuple[pd.DataFrame, Any, Any, Any]:
    """Return rows of 30 nodes with correlated columns, targets, nodes and the mask of training rows."""
    rng = np.random.default_rng(seed)
    nodes = np.repeat([f"node {k:02d}" for k in range(30)], 40)
    base = rng.normal(size=(len(nodes), 1))
    X = 0.7 * base + 0.7 * rng.normal(size=(len(nodes), 4))
    slopes = np.repeat([2.0, 1.0, -1.0, 0.5] + 0.3 * rng.normal(size=(30, 4)), 40, axis=0)
    y = (X * slopes).sum(axis=1) + np.repeat(rng.normal(size=30), 40) + rng.normal(size=len(nodes))
    frame = pd.DataFrame(X, columns=list("abcd"))
    return frame, y, nodes, split(nodes, 8, seed)


def of_league(name: str, seed: int) -> tuple[pd.DataFrame, Any, Any, Any]:
    """Return the same for a table of the league and one of its splits."""
    table = next(table for table in TABLES if table.name == name)
    data = table.load()
    frame = pd.DataFrame(data.X, columns=[f"column {k}" for k in range(data.X.shape[1])])
    return frame, data.y, data.groups, split(data.groups, table.rows, seed)


def most_useful(frame: pd.DataFrame, y: Any) -> str:
    """Return the column without which one linear model of all rows gets worst."""
    Z = (frame - frame.mean()) / frame.std().replace(0, 1)
    losses = {}
    for column in Z.columns:
        rest = Z.drop(columns=column).to_numpy()
        model = Ridge(1e-3).fit(rest, y)
        losses[column] = float(np.mean((model.predict(rest) - y) ** 2))
    return str(max(losses, key=lambda column: losses[column]))


def errors(est: Any, frame: pd.DataFrame, y: Any, nodes: Any, train: Any) -> dict[str, float]:
    """Return the test errors of training alone and together."""
    rows = [(frame[mask], y[mask], nodes[mask]) for mask in (train, ~train)]
    est.fit(*rows[0])
    found = evaluate(est, rows[0], rows[1]).errors
    return {way: found[way] for way in ("alone", "together")}


def table(frame: pd.DataFrame, y: Any, nodes: Any, train: Any) -> dict[str, float]:
    """Return the errors when every third node lacks the most useful column."""
    useful = most_useful(frame[train], y[train])
    lacking = np.isin(nodes, np.unique(nodes)[::THIRD])
    less, n = frame.copy(), len(np.unique(nodes))
    less.loc[lacking, useful] = np.nan
    whole = errors(FedRelaxRegressor(), frame, y, nodes, train)
    some = errors(FedRelaxRegressor(), less, y, nodes, train)
    own = FedRelaxRegressor(
        Ridge(1.0), alpha=tuple(ALPHAS / n), wiring="fixed", level=1.0, rounds=10
    )
    ridge = errors(own, less, y, nodes, train)
    few = errors(FedRelaxRegressor(), frame.drop(columns=useful), y, nodes, train)
    return {
        "alone": some["alone"],
        "common columns only": few["together"],
        "together": some["together"],
        "together, Ridge": ridge["together"],
        "all columns everywhere": whole["together"],
    }


def digits(seed: int) -> dict[str, float]:
    """Return the error rates when every writer sees a different half of the image."""
    data = digits_by_writer()
    frame = pd.DataFrame(data.X, columns=[f"pixel {k}" for k in range(64)])
    public = labelled_split(data.writers, per_node=10, random_state=1)
    shown, own = frame[public], frame[~public].reset_index(drop=True)
    y, nodes = data.y[~public], data.writers[~public]
    train = labelled_split(nodes, per_node=20, random_state=seed)
    rng = np.random.default_rng(seed)
    half = own.copy()
    for writer in np.unique(nodes):
        half.loc[nodes == writer, rng.permutation(own.columns)[:32]] = np.nan
    model = SoftmaxModel(ridge=1.0)
    settings: dict[str, Any] = {"alpha": 0.3 / 14, "public": shown, "rounds": 5}
    some = errors(FedRelaxClassifier(model, **settings), half, y, nodes, train)
    whole = errors(FedRelaxClassifier(model, **settings), own, y, nodes, train)
    return {
        "alone": some["alone"],
        "common columns only": np.nan,
        "together": some["together"],
        "together, Ridge": np.nan,
        "all columns everywhere": whole["together"],
    }


def main(splits: int) -> None:
    """Print a line per table."""
    warnings.simplefilter("ignore")
    lines: dict[str, list[dict[str, float]]] = {"drawn": [table(*drawn(s)) for s in range(splits)]}
    for name in NAMES:
        lines[name] = [table(*of_league(name, seed)) for seed in range(splits)]
        print(f"{name}: done", file=sys.stderr)
    lines["digits, halves"] = [digits(seed) for seed in range(splits)]
    means = {name: pd.DataFrame(found).mean() for name, found in lines.items()}
    print(pd.DataFrame(means).T.round(4).to_string())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else SPLITS)
