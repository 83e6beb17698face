"""Choosing alpha, and the number of rounds, on the nodes' own training rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from fedrelax.errors import FedRelaxError
from fedrelax.estimators import FedRelaxClassifier, FedRelaxRegressor, group_rows
from fedrelax.graph import Graph
from fedrelax.solvers.checks import check_count
from fedrelax.typing import AnyArray, FloatArray, Label

STRENGTHS = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""alpha times the mean degree: how much the neighbours count together against a node's own rows."""


@dataclass(frozen=True)
class Choice:
    """The chosen alpha and rounds, and the validation loss of every alpha after every round."""

    alpha: float
    rounds: int
    alphas: tuple[float, ...]
    losses: FloatArray
    """Shape (alphas, rounds + 1); column 0 is each node alone."""

    def to_frame(self) -> Any:
        """Return a DataFrame: alpha, round, validation loss."""
        import pandas as pd

        rounds = self.losses.shape[1]
        return pd.DataFrame(
            {
                "alpha": np.repeat(self.alphas, rounds),
                "round": np.tile(np.arange(rounds), len(self.alphas)),
                "validation_loss": self.losses.ravel(),
            }
        )


def usual_alphas(graph: Graph) -> tuple[float, ...]:
    """Return alphas to try, in proportion to the graph's mean degree."""
    degree = float(np.mean(graph.degrees)) or 1.0
    return tuple(strength / degree for strength in STRENGTHS)


def choose_alpha(
    estimator: FedRelaxRegressor | FedRelaxClassifier,
    X: FloatArray,
    y: AnyArray,
    nodes: Any,
    alphas: Sequence[float] | None = None,
    folds: int = 3,
    progress: Callable[[int, int], None] | None = None,
) -> Choice:
    """Return the alpha and the round with the least cross-validated loss on the nodes' own rows.

    Every node's rows are dealt into ``folds`` parts; each part is predicted by models that never saw
    it. A node with fewer rows than folds still takes part with those it has. The round is chosen
    along with alpha, as the loss is measured after every round anyway: models that are refitted to
    refitted models can get worse again.
    """
    check_count("folds", folds, least=2)
    rows = group_rows(nodes, len(X))
    if alphas is None:
        graph = estimator.graph if estimator.graph is not None else Graph.complete(list(rows))
        alphas = usual_alphas(graph.subgraph(list(rows)))
    parts = deal(rows, folds, np.random.default_rng(0))
    if not parts:
        raise FedRelaxError(
            "every node has a single row, so none can be held out to choose alpha; give alpha itself"
        )
    total = np.zeros((len(alphas), estimator.rounds + 1))
    counted = 0
    for done, (train, held) in enumerate(parts):
        held_rows = sum(map(len, held.values()))
        counted += held_rows
        for number, alpha in enumerate(alphas):
            trial = clone(estimator).set_params(alpha=alpha, patience=None)
            curve = trial.solve(X, y, train, held).history["validation_loss"]
            settled = np.full(total.shape[1] - len(curve), curve[-1])
            total[number] += held_rows * np.concatenate([curve, settled])
            if progress is not None:
                progress(done * len(alphas) + number + 1, len(parts) * len(alphas))
    losses = total / counted
    best_alpha, best_round = divmod(int(np.argmin(losses)), losses.shape[1])
    return Choice(float(alphas[best_alpha]), best_round, tuple(map(float, alphas)), losses)


def deal(
    rows: Mapping[Label, AnyArray], folds: int, rng: np.random.Generator
) -> list[tuple[dict[Label, AnyArray], dict[Label, AnyArray]]]:
    """Return, for each fold, the row numbers of every node to train on and those to hold out.

    A single row is never held out. Folds in which no node holds out a row are left out, so nodes
    with one row each give none at all.

    >>> rows = {"a": np.arange(4), "b": np.array([4])}
    >>> parts = deal(rows, 2, np.random.default_rng(0))
    >>> [(len(train["a"]), len(held["a"]), len(train["b"])) for train, held in parts]
    [(2, 2, 1), (2, 2, 1)]
    """
    dealt = {
        label: rng.permutation(np.arange(len(index)) % folds) if len(index) > 1 else np.full(1, -1)
        for label, index in rows.items()
    }
    parts = []
    for part in range(folds):
        held = {label: index[dealt[label] == part] for label, index in rows.items()}
        train = {label: index[dealt[label] != part] for label, index in rows.items()}
        if any(map(len, held.values())):
            parts.append((train, held))
    return parts
