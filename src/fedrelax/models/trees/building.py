"""From grown trees to plain fitted estimators of scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedrelax.models.trees.batch import GrownTree
from fedrelax.models.trees.rules import Rules
from fedrelax.typing import AnyArray, FloatArray


def fitted_tree(
    estimator: Any, rules: Rules, tree: GrownTree, features: int, classes: AnyArray | None
) -> Any:
    """Fill an unfitted tree estimator with the grown tree.

    ``classes`` are the classes the tree has seen: the columns of a classifier's values.
    """
    outputs = 1 if classes is not None else tree.value.shape[1]
    estimator.n_features_in_ = features
    estimator.n_outputs_ = outputs
    estimator.max_features_ = rules.max_features
    if classes is None:
        widths = np.ones(outputs, dtype=np.intp)
    else:
        widths = np.array([len(classes)], dtype=np.intp)
        estimator.classes_ = classes
        estimator.n_classes_ = widths[0]
    estimator.tree_ = _tree(tree, features, widths)
    return estimator


def _tree(tree: GrownTree, features: int, widths: AnyArray) -> Any:
    from sklearn.tree import _tree as inside

    nodes = np.zeros(len(tree.link), dtype=inside.NODE_DTYPE)
    for place, name in enumerate(("left_child", "right_child", "feature", "n_node_samples")):
        nodes[name] = tree.link[:, place]
    for place, name in enumerate(("threshold", "impurity", "weighted_n_node_samples")):
        nodes[name] = tree.number[:, place]
    nodes["missing_go_to_left"] = tree.missing
    made = inside.Tree(features, widths, len(widths))
    values = tree.value.reshape(len(nodes), len(widths), widths[0])
    made.__setstate__(
        {
            "max_depth": tree.depth,
            "node_count": len(nodes),
            "nodes": nodes,
            "values": np.ascontiguousarray(values),
        }
    )
    return made


def fitted_forest(
    estimator: Any,
    rules: Rules,
    trees: Sequence[GrownTree],
    features: int,
    classes: AnyArray | None,
    weight: FloatArray,
) -> Any:
    """Fill an unfitted forest with the trees that were grown on rows of these weights."""
    draws = None
    if rules.bootstrap:
        draws = rules.draws or len(weight)
        if rules.draws_share > 0:
            draws = max(int(rules.draws_share * weight.sum()), 1)
    estimator.n_features_in_ = features
    estimator._n_samples = len(weight)
    estimator._n_samples_bootstrap = draws
    estimator._sample_weight = None if (weight == 1.0).all() else weight
    estimator._validate_estimator()
    seeds = np.random.RandomState(estimator.random_state)
    codes = None if classes is None else np.arange(len(classes), dtype=float)
    estimator.estimators_ = [
        fitted_tree(
            estimator._make_estimator(append=False, random_state=seeds),
            rules,
            tree,
            features,
            codes,
        )
        for tree in trees
    ]
    estimator.n_outputs_ = estimator.estimators_[0].n_outputs_
    if classes is not None:
        estimator.classes_ = classes
        estimator.n_classes_ = len(classes)
    return estimator
