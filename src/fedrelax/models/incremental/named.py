"""The incremental tree of the command line."""

from __future__ import annotations

from fedrelax.extras import need
from fedrelax.models.incremental.node import IncrementalModel


def hoeffding(classify: bool) -> IncrementalModel:
    """Return a Hoeffding tree that splits early: river's defaults wait for 200 rows.

    Leaves predict a mean or class shares, so that the tree can be saved without pickle.
    """
    need("river", "incremental")
    from river.tree import HoeffdingTreeClassifier, HoeffdingTreeRegressor

    if classify:
        tree = HoeffdingTreeClassifier(
            grace_period=20, delta=0.05, tau=1.0, max_depth=8, leaf_prediction="mc"
        )
        return IncrementalModel(tree, passes=3)
    return IncrementalModel(
        HoeffdingTreeRegressor(
            grace_period=10, delta=0.05, tau=0.1, max_depth=8, leaf_prediction="mean"
        )
    )
