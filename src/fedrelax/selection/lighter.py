"""Smaller forests for the trials of a large network: settings that suit them suit the full forests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.base import clone

from fedrelax.models.trees.node import is_tree
from fedrelax.models.trees.settings import is_forest
from fedrelax.network import Network

ENOUGH_TREES = 25
"""This many trees are enough to tell candidates apart (``benchmarks/halving.py``)."""
MANY_TREES = 1000
"""Networks with fewer trees in total are tried as they are."""


def lighter(folds: Sequence[Network]) -> tuple[list[Network], str]:
    """Return the folds for trials, and a note on what is lighter there, "" for nothing."""
    models = folds[0].distinct_models
    large = [model for model in models.values() if _trees(model) > ENOUGH_TREES]
    if not large or sum(_trees(model) for model in folds[0].models) < MANY_TREES:
        return list(folds), ""
    small = {id(model): _smaller(model) for model in large}
    found = [
        fold.with_models(
            {
                label: small.get(id(model), model)
                for label, model in zip(fold.labels, fold.models, strict=True)
            }
        )
        for fold in folds
    ]
    return found, f"tried with forests of {ENOUGH_TREES} trees"


def _trees(model: Any) -> int:
    if not (is_tree(model) and is_forest(model)):
        return 0
    count = model.n_estimators
    return count if isinstance(count, int) else 0


def _smaller(model: Any) -> Any:
    return clone(model).set_params(n_estimators=ENOUGH_TREES)
