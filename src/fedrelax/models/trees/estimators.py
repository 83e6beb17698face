"""From grown trees to plain fitted estimators of scikit-learn, and the random draws of a forest.

A forest draws seeds and bootstraps from numpy's ``Generator``, the same ones whether its trees are then
grown at once or one by one: in the distribution of scikit-learn's forests, but not their very draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from fedrelax.models.trees.rules import NO_LIMIT, Rules
from fedrelax.typing import AnyArray, FloatArray, IntArray


class Problem(NamedTuple):
    """One node's part: sets of rows with targets and weights, a seed, and rows to predict.

    Targets are numbers, or class probabilities, of shape (rows, outputs).
    """

    X: Sequence[AnyArray]
    target: Sequence[FloatArray]
    weight: Sequence[FloatArray]
    seed: int
    asked: Sequence[AnyArray] = ()


class GrownTree(NamedTuple):
    """The nodes of one tree, as scikit-learn keeps them."""

    nodes: AnyArray
    value: FloatArray
    depth: int


def tree_seeds(rules: Rules, seed: int) -> list[int]:
    """Return the ``random_state`` of every tree."""
    if not rules.forest:
        return [seed]
    drawn: list[int] = np.random.default_rng(seed).integers(NO_LIMIT, size=rules.trees).tolist()
    return drawn


@lru_cache(2**16)
def first_state(seed: int) -> int:
    """Return what the random numbers of scikit-learn's tree start from, given its ``random_state``."""
    return int(np.random.RandomState(seed).randint(0, NO_LIMIT))


def bootstraps(rules: Rules, seed: int, weight: FloatArray) -> IntArray:
    """Return how often each row is drawn for each tree, by its weight: (trees, rows)."""
    seen = np.flatnonzero(weight > 0)
    ends = np.cumsum(weight[seen])
    draws = rules.draws or len(seen)
    if rules.draws_share > 0:
        draws = max(int(rules.draws_share * ends[-1]), 1)
    at = np.random.default_rng((seed, 1)).random((rules.trees, draws)) * ends[-1]
    at.sort(axis=1)  # the search is faster in order
    rows = seen[np.searchsorted(ends, at, side="right").clip(max=len(seen) - 1)]
    rows += np.arange(rules.trees)[:, None] * weight.size
    counts = np.bincount(rows.ravel(), minlength=rules.trees * weight.size)
    return counts.reshape(rules.trees, weight.size)


def grown_forest(forest: Any, rules: Rules, X: AnyArray, y: AnyArray, weight: FloatArray) -> Any:
    """Fit an unfitted forest, tree by tree; ``random_state`` must be an integer."""
    from sklearn import config_context

    classes = None
    if hasattr(forest, "predict_proba"):
        classes, y = np.unique(y, return_inverse=True)
    y = np.ascontiguousarray(y.reshape(len(X), -1), dtype=float)
    seed = int(forest.random_state)
    weights: Any = bootstraps(rules, seed, weight) if rules.bootstrap else [weight] * rules.trees
    forest._validate_estimator()
    trees = _unfitted_trees(forest, tree_seeds(rules, seed))
    with config_context(skip_parameter_validation=True, enable_metadata_routing=False):
        for tree, each in zip(trees, weights, strict=True):
            tree.fit(X, y, sample_weight=each.astype(float), check_input=False)
    return _filled(forest, trees, classes)


def built(
    estimator: Any,
    rules: Rules,
    trees: Sequence[GrownTree],
    features: int,
    classes: AnyArray | None,
) -> Any:
    """Fill an unfitted tree or forest with grown trees; ``classes`` are those that they have seen."""
    if not rules.forest:
        return _fill_tree(estimator, rules, trees[0], features, classes)
    estimator._validate_estimator()
    codes = None if classes is None else np.arange(len(classes), dtype=float)
    empty = _unfitted_trees(estimator, tree_seeds(rules, int(estimator.random_state)))
    filled = [
        _fill_tree(tree, rules, grown, features, codes)
        for tree, grown in zip(empty, trees, strict=True)
    ]
    return _filled(estimator, filled, classes)


def _unfitted_trees(forest: Any, seeds: Sequence[int]) -> list[Any]:
    first, trees = forest._make_estimator(append=False), []
    for seed in seeds:
        tree = object.__new__(type(first))
        tree.__dict__.update(first.__dict__, random_state=seed)
        trees.append(tree)
    return trees


def _filled(forest: Any, trees: list[Any], classes: AnyArray | None) -> Any:
    forest.estimators_ = trees
    forest.n_features_in_, forest.n_outputs_ = trees[0].n_features_in_, trees[0].n_outputs_
    if classes is not None:
        forest.classes_, forest.n_classes_ = classes, len(classes)
    return forest


def _fill_tree(
    estimator: Any, rules: Rules, grown: GrownTree, features: int, classes: AnyArray | None
) -> Any:
    from sklearn.tree._tree import Tree

    estimator.n_features_in_ = features
    estimator.max_features_ = rules.max_features
    if classes is None:
        widths = np.ones(grown.value.shape[1], dtype=np.intp)
    else:
        widths = np.array([len(classes)], dtype=np.intp)
        estimator.classes_, estimator.n_classes_ = classes, widths[0]
    estimator.n_outputs_ = len(widths)
    estimator.tree_ = Tree(features, widths, len(widths))
    count = len(grown.nodes)
    values = np.ascontiguousarray(grown.value.reshape(count, len(widths), widths[0]))
    state = {"max_depth": grown.depth, "node_count": count, "nodes": grown.nodes, "values": values}
    estimator.tree_.__setstate__(state)
    return estimator
