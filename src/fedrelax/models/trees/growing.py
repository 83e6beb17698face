"""From rows to grown trees and to plain fitted estimators, with the random draws of a forest.

A forest draws seeds and bootstraps from numpy's ``Generator``, the same ones whether its trees are then
grown at once or one by one: in the distribution of scikit-learn's forests, but not their very draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, NamedTuple

import joblib
import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.models.base import Rows
from fedrelax.models.trees.rules import NO_LIMIT, SQUARED_ERROR, Rules
from fedrelax.typing import AnyArray, FloatArray, IntArray, Model


class Packed(NamedTuple):
    """A node's terms in the form that the compiled loop takes; rows of weight 0 are only predicted."""

    rules: Rules
    columns: AnyArray
    """(features, rows)"""
    orders: AnyArray
    """The rows sorted by each feature."""
    target: FloatArray
    weight: FloatArray
    seed: int
    asked: list[slice]
    """Where the predictions for each set of rows that was asked for will be."""

    def draws(self) -> tuple[AnyArray, AnyArray, AnyArray]:
        """Return the weights, every tree's bootstrap and every tree's first random state."""
        rules, weight = self.rules, self.weight[:, None]
        if rules.criterion != SQUARED_ERROR:
            weight = weight * self.target
        drawn = np.empty((0, *weight.shape), dtype=np.int64)
        if rules.bootstrap:
            drawn = bootstraps(rules, self.seed, weight.ravel()).reshape(-1, *weight.shape)
        states = np.array([first_state(seed) for seed in tree_seeds(rules, self.seed)])
        return weight, drawn, states


class GrownTree(NamedTuple):
    """The nodes of one tree, as scikit-learn keeps them."""

    nodes: AnyArray
    value: FloatArray
    depth: int


def pack(rules: Rules, terms: Sequence[Rows], seed: int, asked: Sequence[AnyArray] = ()) -> Packed:
    """Join and sort the rows of a node's terms, and those whose predictions are asked for."""
    sets = [term.X for term in terms]
    trained_on = {id(X) for X in sets}
    sets += {id(X): X for X in asked if id(X) not in trained_on}.values()
    ends = np.cumsum([0, *map(len, sets)]).tolist()
    places = {id(X): slice(*ends[k : k + 2]) for k, X in enumerate(sets)}
    with np.errstate(over="ignore"):
        rows = np.concatenate(sets).T.astype(np.float32, order="C")
    count, outputs = ends[len(terms)], terms[0].target.shape[1]
    target, weight = np.zeros((ends[-1], outputs)), np.zeros(ends[-1])
    target[:count] = np.concatenate([term.target for term in terms])
    weight[:count] = np.concatenate([term.weight for term in terms])
    if not np.isfinite(rows).all():
        raise FedRelaxError("a row holds NaN, infinity or a number too large for 32 bits")
    if not (np.isfinite(target).all() and np.isfinite(weight).all()):
        raise FedRelaxError("a target or a weight is NaN or infinite")
    orders = rows.argsort(axis=1, kind="stable").astype(np.uint32)
    slices = [places[id(X)] for X in asked]
    return Packed(rules, rows, orders, target, weight, seed, slices)


def answers(problems: Sequence[Packed], threads: int | None = None) -> list[FloatArray]:
    """Grow the trees of all problems and return each one's predictions for all its rows.

    The number of threads (None: one per core) does not change the result.
    """
    with ThreadPoolExecutor(threads or joblib.cpu_count()) as pool:
        return list(pool.map(lambda each: _grow(each, *each.draws())[0], problems))


def grown(packed: Packed) -> list[GrownTree]:
    """Return the trees of one problem."""
    weight, drawn, states = packed.draws()
    each = (slice(tree, tree + 1) for tree in range(packed.rules.trees))
    return [_grow(packed, weight, drawn[tree], states[tree])[1] for tree in each]


def _grow(
    packed: Packed, weight: AnyArray, drawn: AnyArray, states: AnyArray
) -> tuple[FloatArray, GrownTree]:
    """Return the mean answer of trees with these draws, and the last of the trees."""
    from sklearn.tree._tree import NODE_DTYPE

    from fedrelax.models.trees.kernel import grow_forest

    rules, x, orders, target = packed[:4]
    rows, outputs = target.shape
    found = np.zeros((rows, outputs))
    nodes, value = np.zeros(2 * rows, dtype=NODE_DTYPE), np.empty((2 * rows, outputs))
    count, depth = grow_forest(rules, x, orders, target, weight, drawn, states, found, nodes, value)
    return found, GrownTree(nodes[:count], value[:count], depth)


# Random draws


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


# Fitted estimators


def fitted_forest(
    forest: Model, rules: Rules, X: AnyArray, y: AnyArray, weight: FloatArray
) -> Model:
    """Let scikit-learn fit the trees of an unfitted forest; ``random_state`` must be an integer."""
    from sklearn import config_context

    classes = None
    if hasattr(forest, "predict_proba"):
        classes, y = np.unique(y, return_inverse=True)
    y = np.ascontiguousarray(y.reshape(len(X), -1), dtype=float)
    seed = int(forest.random_state)
    weights: Any = bootstraps(rules, seed, weight) if rules.bootstrap else [weight] * rules.trees
    trees = _unfitted_trees(forest, rules)
    with config_context(skip_parameter_validation=True, enable_metadata_routing=False):
        for tree, each in zip(trees, weights, strict=True):
            tree.fit(X, y, sample_weight=each.astype(float), check_input=False)
    return _filled(forest, trees, classes)


def built(
    estimator: Model,
    rules: Rules,
    trees: Sequence[GrownTree],
    features: int,
    classes: AnyArray | None,
) -> Model:
    """Fill an unfitted tree or forest with grown trees, which have seen these classes."""
    if not rules.forest:
        return _fill_tree(estimator, rules, trees[0], features, classes)
    codes = None if classes is None else np.arange(len(classes), dtype=float)
    pairs = zip(_unfitted_trees(estimator, rules), trees, strict=True)
    filled = [_fill_tree(tree, rules, grown, features, codes) for tree, grown in pairs]
    return _filled(estimator, filled, classes)


def _unfitted_trees(forest: Model, rules: Rules) -> list[Model]:
    forest._validate_estimator()
    first, trees = forest._make_estimator(append=False), []
    for seed in tree_seeds(rules, int(forest.random_state)):
        tree = object.__new__(type(first))
        tree.__dict__.update(first.__dict__, random_state=seed)
        trees.append(tree)
    return trees


def _filled(forest: Model, trees: list[Model], classes: AnyArray | None) -> Model:
    forest.estimators_ = trees
    forest.n_features_in_, forest.n_outputs_ = trees[0].n_features_in_, trees[0].n_outputs_
    if classes is not None:
        forest.classes_, forest.n_classes_ = classes, len(classes)
    return forest


def _fill_tree(
    estimator: Model, rules: Rules, grown: GrownTree, features: int, classes: AnyArray | None
) -> Model:
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
