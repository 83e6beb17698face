"""A network: a graph, and at each node its own rows, its own model and its public rows."""

from fedrelax.network.base import Network, Node
from fedrelax.network.rows import StackedRows

__all__ = ["Network", "Node", "StackedRows"]
