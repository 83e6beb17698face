"""The incremental tree of the command line."""

from __future__ import annotations

from fedrelax.extras import need
from fedrelax.models.incremental.node import IncrementalModel


def hoeffding(classify: bool) -> IncrementalModel:
    """Return a Hoeffding tree that splits early: the usual settings wait for 200 rows.

    Leaves answer with a mean or with class shares, so that the tree can be saved without pickle.
    """
    need("river", "incremental")
    from river import tree

    settings = {"grace_period": 10, "delta": 0.05, "tau": 0.1, "max_depth": 8}
    if classify:
        return IncrementalModel(tree.HoeffdingTreeClassifier(leaf_prediction="mc", **settings))
    return IncrementalModel(tree.HoeffdingTreeRegressor(leaf_prediction="mean", **settings))
