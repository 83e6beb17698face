"""Smaller forests for the trials of a large network: settings that suit them suit the full forests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.base import clone

from fedrelax.models.trees import is_forest, is_tree
from fedrelax.network import Network

ENOUGH_TREES = 25
"""This many trees are enough to tell candidates apart (``benchmarks/halving.py``)."""
FEW_TREES = 10
"""This many with ``quick``."""
MANY_TREES = 1000
"""Networks with fewer trees in total are tried as they are, unless ``quick``."""


def lighter(folds: Sequence[Network], quick: bool = False) -> tuple[list[Network], str, float]:
    """Return the folds for trials, a note on what is lighter there, "" for nothing, and how much."""
    models, trees = folds[0].distinct_models, FEW_TREES if quick else ENOUGH_TREES
    large = [model for model in models.values() if _trees(model) > trees]
    few = sum(_trees(model) for model in folds[0].models) < MANY_TREES
    if not large or (few and not quick):
        return list(folds), "", 1.0
    small = {id(model): clone(model).set_params(n_estimators=trees) for model in large}
    found = [
        fold.with_models(
            {
                label: small.get(id(model), model)
                for label, model in zip(fold.labels, fold.models, strict=True)
            }
        )
        for fold in folds
    ]
    most = max(map(_trees, large))
    return found, f"tried with forests of {trees} trees", most / trees


def _trees(model: Any) -> int:
    if not (is_tree(model) and is_forest(model)):
        return 0
    count = model.n_estimators
    return count if isinstance(count, int) else 0
