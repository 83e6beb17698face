"""Conversion to and from networkx."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from fedrelax.errors import FedRelaxError, did_you_mean
from fedrelax.graph.edges import Read, read_edges
from fedrelax.typing import Label

if TYPE_CHECKING:
    import networkx as nx


def read_networkx(g: nx.Graph, weight: str) -> Read:
    """Return the adjacency and labels of an undirected networkx graph."""
    import networkx as nx

    if not isinstance(g, nx.Graph):
        raise FedRelaxError(f"expected a networkx graph, found {type(g).__name__}")
    if g.is_directed():
        raise FedRelaxError(
            "the networkx graph is directed, but learning over an edge goes both ways; "
            "make it undirected first, for instance with g.to_undirected()"
        )
    attributes = {name for _, _, data in g.edges(data=True) for name in data}
    if weight != "weight" and g.number_of_edges() and weight not in attributes:
        hint = did_you_mean(weight, attributes)
        raise FedRelaxError(f"no edge of the networkx graph has the attribute {weight!r}{hint}")
    return read_edges(g.edges(data=weight, default=1.0), list(g.nodes))


def write_networkx(
    labels: Sequence[Label], edges: Iterable[tuple[Label, Label, float]]
) -> nx.Graph:
    """Return a networkx graph of these nodes and weighted edges."""
    import networkx as nx

    g = nx.Graph()
    g.add_nodes_from(labels)
    g.add_weighted_edges_from(edges)
    return g
