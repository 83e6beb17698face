"""Models that keep learning, row by row and round by round: those of river (extra ``incremental``)."""

from fedrelax.models.incremental.node import (
    IncrementalModel,
    IncrementalNode,
    hoeffding,
    is_incremental,
)
from fedrelax.models.incremental.saved import SavedTree

__all__ = ["IncrementalModel", "IncrementalNode", "SavedTree", "hoeffding", "is_incremental"]
