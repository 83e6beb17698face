"""Graphs learned before training: from the rows of pairs of nodes, or from trained models."""

from fedrelax.learned.pooling import pooling_graph
from fedrelax.learned.signals import graph_from_models, smooth_graph

__all__ = ["graph_from_models", "pooling_graph", "smooth_graph"]
