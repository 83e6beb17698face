"""Does dropping candidates early change the choice? Ten networks of trees, with and without halving.

    python -m benchmarks.halving

For every network: what the full search and the one with halving choose, how many runs each takes, and
by how much the validation loss of the second is larger (both over all folds), in standard errors of the
difference over nodes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from fedrelax import FedRelax, FedRelaxClassifier, FedRelaxRegressor, Graph
from fedrelax.selection import LEVELS, fold_rows
from fedrelax.selection.candidates import candidates_for
from fedrelax.selection.losses import Losses
from fedrelax.selection.search import PATIENCE, choose
from fedrelax.splits import group_rows

TREE, CLASSES = DecisionTreeRegressor(max_depth=5), DecisionTreeClassifier(max_depth=5)
NODES, FEATURES = 60, 5


def networks() -> Iterator[tuple[str, Any, Graph | None, Any, Any, Any]]:
    """Yield name, model, graph, rows, targets and nodes."""
    for place, (kind, rows) in enumerate(
        (kind, rows)
        for kind in ("clusters", "map", "unrelated", "equal", "classes")
        for rows in (8, 25)
    ):
        rng = np.random.default_rng([2024, place])
        nodes = np.repeat(np.arange(NODES), rows)
        X = rng.normal(size=(len(nodes), FEATURES))
        places = rng.uniform(size=(NODES, 2))
        graph = Graph.from_coordinates(places, k=5) if kind != "clusters" else None
        own = rng.normal(size=(NODES, FEATURES))
        if kind == "clusters":
            own = rng.normal(size=(3, FEATURES))[np.arange(NODES) % 3]
        elif kind in ("map", "classes"):
            own = 2 * np.sin(places @ rng.normal(size=(2, FEATURES)) * 3)
        elif kind == "equal":
            own = np.tile(own[0], (NODES, 1))
        y = (X * own[nodes]).sum(axis=1) + np.maximum(X[:, 0], 0) * 2
        y = y + rng.normal(size=len(y))
        if kind == "classes":
            yield f"{kind}, {rows} rows", CLASSES, graph, X, y > np.median(y), nodes
        else:
            yield f"{kind}, {rows} rows", TREE, graph, X, y, nodes


def main() -> None:
    """Print a line for every network."""
    for name, model, graph, X, y, nodes in networks():
        kind = FedRelaxClassifier if model is CLASSES else FedRelaxRegressor
        estimator = kind(model, graph=graph)
        rows = group_rows(nodes, len(X))
        parts = fold_rows(rows, 5, np.random.default_rng(3))
        folds = [estimator.network_of(X, y, *part) for part in parts]
        settings = FedRelax()
        tried = candidates_for(folds[0], settings, "auto", "auto")
        found = []
        for halving in (False, True):
            count: list[int] = []
            start = time.process_time()
            choice = choose(
                folds,
                settings,
                tried,
                levels=LEVELS,
                halving=halving,
                tell=lambda done, total: count.append(done),  # noqa: B023
            )
            found.append((choice, len(count), time.process_time() - start))
        (full, runs, seconds), (short, fewer, less) = found
        same = (full.chosen, full.rounds) == (short.chosen, short.rounds)
        line = f"{name:20s} {runs:3d} runs {seconds:5.1f} s | {fewer:3d} runs {less:5.1f} s | "
        if same:
            print(line + f"the same: alpha {full.alpha:.3g}, {full.rounds} rounds", flush=True)
            continue
        losses = Losses.of(folds, settings.rounds_for(folds[0]))
        for choice in (full, short):
            trial = choice.chosen.settings(settings, settings.rounds_for(folds[0]), PATIENCE)
            losses.append(trial.solve(fold) for fold in folds)
        one, other = (0, full.rounds), (1, short.rounds)
        more = losses.means[other] - losses.means[one]
        error = losses.standard_error(other, one)
        print(
            line + f"alpha {full.alpha:.3g} after {full.rounds}, or {short.alpha:.3g} after "
            f"{short.rounds}: {more / error if error else 0.0:+.2f} standard errors",
            flush=True,
        )


if __name__ == "__main__":
    main()
