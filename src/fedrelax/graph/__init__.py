"""The graph over which nodes learn from each other: one sparse, symmetric matrix and its labels."""

from __future__ import annotations

from fedrelax.graph.base import Graph

__all__ = ["Graph"]
