"""The rules by which trees are grown."""

from __future__ import annotations

from typing import NamedTuple

SQUARED_ERROR, GINI, ENTROPY = 0, 1, 2


class Rules(NamedTuple):
    """How trees are grown, the same for all nodes of a batch."""

    criterion: int
    random_splits: bool
    max_features: int
    max_depth: int
    min_samples_split: int
    min_split_share: float
    """Replaces ``min_samples_split`` where positive; ``min_leaf_share`` does so for the leaf."""
    min_samples_leaf: int
    min_leaf_share: float
    min_weight_share: float
    min_impurity_decrease: float
    max_leaves: int
    trees: int
    bootstrap: bool
    draws: int
    """Rows of a bootstrap; 0 for as many as there are, or ``draws_share`` of them where positive."""
    draws_share: float
