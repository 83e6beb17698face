"""The graph over which nodes learn from each other: a sparse, symmetric matrix and its labels."""

from __future__ import annotations

from fedrelax.graph.base import Graph

__all__ = ["Graph"]
