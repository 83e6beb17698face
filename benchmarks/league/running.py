"""Run ways on splits of tables and keep every result in a CSV file, so that none is run twice."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.league.tables import Data, Table, split, split_unequal
from benchmarks.league.usual import Way

FIELDS = ["split", "table", "seed", "way", "error", "second", "seconds", "said"]
"""``error``: RMSE or log loss; ``second``: mean over groups of RMSE, or share of wrong classes;
``seconds``: processor time; ``said``: what the way itself says would be better."""


def parts(data: Data, known: Any) -> tuple[Any, Any, Any, Any, Any, Any]:
    """Return X, y and groups of training rows, then of test rows; columns standardised by the former."""
    centre, spread = data.X[known].mean(axis=0), data.X[known].std(axis=0)
    X = (data.X - centre) / np.where(spread > 0, spread, 1.0)
    groups = np.unique(data.groups, return_inverse=True)[1]
    test = ~known
    return X[known], data.y[known], groups[known], X[test], data.y[test], groups[test]


def measure(kind: str, y: Any, g: Any, prediction: Any) -> tuple[float, float]:
    """Return the two errors of a table's kind; see ``FIELDS``."""
    if kind == "regression":
        squares = np.square(prediction - y)
        means = np.bincount(g, squares) / np.maximum(np.bincount(g), 1)
        return float(np.sqrt(squares.mean())), float(np.sqrt(means[np.bincount(g) > 0]).mean())
    own = np.clip(prediction[np.arange(len(y)), y], 1e-6, 1.0)
    return float(-np.log(own).mean()), float((prediction.argmax(axis=1) != y).mean())


def known_rows(table: Table, data: Data, seed: int, unequal: bool) -> Any:
    """Return the mask of training rows of one split."""
    if unequal:
        return split_unequal(data.groups, seed)
    return split(data.groups, table.rows, seed)


def run(
    tables: Iterable[Table],
    ways: Mapping[str, Mapping[str, Way]],
    seeds: Iterable[int],
    path: Path,
    unequal: bool = False,
) -> None:
    """Run what the file at ``path`` does not have yet; ``ways`` are keyed by kind of table."""
    name = "unequal" if unequal else "equal"
    done = {(r["split"], r["table"], int(r["seed"]), r["way"]) for r in read(path)}
    for table in tables:
        data = None
        for seed in seeds:
            for way, predict in ways[table.kind].items():
                if (name, table.name, seed, way) in done:
                    continue
                data = table.load() if data is None else data
                X, y, g, T, t, h = parts(data, known_rows(table, data, seed, unequal))
                start = time.process_time()
                answer = predict(X, y, g, T, h)
                seconds = time.process_time() - start
                prediction, said = answer if isinstance(answer, tuple) else (answer, "")
                errors = measure(table.kind, t, h, prediction)
                row = [
                    name,
                    table.name,
                    seed,
                    way,
                    *(f"{e:.6g}" for e in errors),
                    f"{seconds:.3f}",
                    said,
                ]
                _append(path, row)


def read(path: Path) -> list[dict[str, str]]:
    """Return all results of a file, none if there is no such file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _append(path: Path, row: list[Any]) -> None:
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.writer(file)
        if new:
            writer.writerow(FIELDS)
        writer.writerow(row)
