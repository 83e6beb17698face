"""The graph: who learns from whom, and how strongly."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Never, Self

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee

from fedrelax.errors import FedRelaxError, counted, named
from fedrelax.graph import edges as edge_lists
from fedrelax.graph import families, matrices
from fedrelax.graph.tables import clean_labels, unknown_node
from fedrelax.typing import FloatArray, IntArray, Label
from fedrelax.validation import RandomState, check_number

if TYPE_CHECKING:
    import networkx as nx


class Graph:
    """An undirected, weighted graph with A_ij = A_ji >= 0 and A_ii = 0; zero weight is no edge.

    A graph is one sparse matrix and a tuple of labels. It is immutable: methods that alter something
    return a new graph. ``Graph(matrix, labels)`` does the same as `from_matrix`.

    >>> g = Graph.from_edges([("a", "b"), ("b", "c", 0.5)])
    >>> g
    Graph(3 nodes, 2 edges, mean degree 1, 1 component)
    >>> g.neighbours("b")
    {'a': 1.0, 'c': 0.5}
    """

    labels: tuple[Label, ...]
    """The nodes, in the order of the matrix rows."""
    positions: FloatArray | None
    """Coordinates, one row per node, if the graph was made from coordinates (read-only)."""
    geographic: bool
    """Whether ``positions`` are (latitude, longitude) in degrees."""
    _matrix: sparse.csr_array

    def __init__(
        self,
        matrix: object,
        labels: Iterable[object] | None = None,
        positions: object = None,
        geographic: bool = False,
    ) -> None:
        adjacency, names = matrices.read_matrix(matrix, labels)
        points = None
        if positions is not None:
            points = np.array(positions, dtype=np.float64)
            if points.ndim != 2 or len(points) != len(names):
                raise FedRelaxError(
                    f"positions has shape {points.shape}; give one row for each of the "
                    f"{len(names)} nodes"
                )
            points.flags.writeable = False
        self.__dict__.update(
            _matrix=adjacency, labels=names, positions=points, geographic=geographic
        )

    # --- Ways to make a graph ---------------------------------------------------------------

    @classmethod
    def from_matrix(cls, A: object, labels: Iterable[object] | None = None) -> Self:
        """Make a graph from a symmetric matrix: dense, scipy sparse, or a DataFrame (index = labels).

        >>> Graph.from_matrix([[0, 2], [2, 0]], labels=["a", "b"]).degrees
        array([2., 2.])
        """
        return cls(A, labels)

    @classmethod
    def from_edges(cls, edges: object, labels: Iterable[object] | None = None) -> Self:
        """Make a graph from (u, v) or (u, v, weight) rows or a DataFrame; the default weight is 1.

        ``labels`` names all nodes, including those without an edge, and sets their order; without it,
        nodes come in the order in which the edges first name them.

        >>> Graph.from_edges([("a", "b")], labels=["b", "a", "alone"]).isolated
        ('alone',)
        """
        return cls(*edge_lists.read_edges(edges, labels))

    @classmethod
    def from_csv(cls, path: str | PathLike[str], labels: Iterable[object] | None = None) -> Self:
        """Read a CSV file with the columns source, target and, optionally, weight.

        Columns with other names are taken in this order. Labels are text, or integers if all of
        them are whole numbers; if ``labels`` is given, the file's labels are matched to it as text.
        """
        return cls(*edge_lists.read_csv(path, labels))

    @classmethod
    def from_networkx(cls, g: nx.Graph, weight: str = "weight") -> Self:
        """Make a graph from an undirected networkx graph; an edge without ``weight`` weighs 1."""
        return cls(*edge_lists.read_networkx(g, weight))

    @classmethod
    def from_coordinates(
        cls,
        coords: object,
        k: int = 5,
        metric: Literal["auto", "haversine", "euclidean"] = "auto",
        labels: Iterable[object] | None = None,
    ) -> Self:
        """Join every node to its ``k`` nearest others; two nodes are joined if either chooses the other.

        ``coords`` is a DataFrame (index = labels), a dict label -> coordinates, or an array. "auto"
        measures great-circle distances if a DataFrame has columns such as lat and lon (its other
        columns are then ignored), and Euclidean ones otherwise; "haversine" reads arrays and dicts
        as (latitude, longitude) in degrees. If there are no more than ``k`` other nodes, all are joined.

        >>> Graph.from_coordinates({"a": (0, 0), "b": (0, 1), "c": (0, 3)}, k=1).neighbours("b")
        {'a': 1.0, 'c': 1.0}
        """
        return cls(*families.nearest_by_coordinates(coords, k, metric, labels))

    @classmethod
    def complete(cls, labels: Iterable[object], weight: float = 1.0) -> Self:
        """Join every node to every other with the same weight.

        >>> Graph.complete(["a", "b", "c"]).n_edges
        3
        """
        check_number("weight", weight, least=0.0)
        names = clean_labels(labels)
        return cls(weight * (1 - np.eye(len(names))), names)

    @classmethod
    def stochastic_block(
        cls,
        sizes: Sequence[int],
        p_in: float,
        p_out: float,
        random_state: RandomState = None,
        labels: Iterable[object] | None = None,
    ) -> tuple[Self, IntArray]:
        """Join nodes at random: with probability ``p_in`` within a block, ``p_out`` across blocks.

        Returns the graph and the block number of every node.

        >>> g, blocks = Graph.stochastic_block([2, 3], p_in=1, p_out=0)
        >>> g.n_edges, blocks.tolist()
        (4, [0, 0, 1, 1, 1])
        """
        matrix, blocks = families.stochastic_block(sizes, p_in, p_out, random_state)
        return cls(matrix, labels), blocks

    @classmethod
    def mixture_overlap(cls, shares: object, labels: Iterable[object] | None = None) -> Self:
        """Weight edges by the data that two nodes have in common: A_ij = sum_k min(rho_ik, rho_jk).

        ``shares`` has a row rho_i per node: the shares of its data that come from each of K
        sources, summing to 1. These are the paper's weights for non-i.i.d. data.

        >>> Graph.mixture_overlap([[0.5, 0.5], [0.25, 0.75]]).neighbours(0)
        {1: 0.75}
        """
        return cls(*families.mixture_overlap(shares, labels))

    # --- Properties -------------------------------------------------------------------------

    @property
    def n_nodes(self) -> int:
        """The number of nodes."""
        return len(self.labels)

    @property
    def n_edges(self) -> int:
        """The number of edges, each counted once."""
        return int(self._matrix.nnz) // 2

    @property
    def is_uniform(self) -> bool:
        """Whether every node is joined to every other with the same weight, so that none is nearer.

        >>> Graph.complete(["a", "b"]).is_uniform, Graph.from_edges([("a", "b"), ("b", "c")]).is_uniform
        (True, False)
        """
        n, weights = len(self.labels), self._matrix.data
        return len(weights) == n * (n - 1) and bool((weights == weights[:1]).all())

    @property
    def adjacency(self) -> sparse.csr_array:
        """The weights A_ij as a CSR array, in the order of ``labels`` (read-only)."""
        own = self._matrix
        parts = (own.data, own.indices, own.indptr)
        return sparse.csr_array(parts, shape=own.shape)  # a new object, the same arrays

    @cached_property
    def degrees(self) -> FloatArray:
        """The weighted degrees sum_j A_ij (read-only)."""
        degrees: FloatArray = self._matrix.sum(axis=1)
        degrees.flags.writeable = False
        return degrees

    def laplacian(self) -> sparse.csr_array:
        """Return L = D - A, with the weighted degrees on the diagonal of D."""
        return sparse.csr_array(sparse.diags_array(self.degrees) - self._matrix)

    @cached_property
    def lambda_2(self) -> float:
        """The second smallest eigenvalue of the Laplacian: 0 if the graph is not connected.

        The larger it is, the better connected the graph is and the faster information spreads over it.
        """
        if self._component_of.max() > 0:
            return 0.0
        return matrices.second_eigenvalue(self.laplacian())

    def index(self, label: object) -> int:
        """Return the position of a node in ``labels``."""
        try:
            return self._index[label]
        except (KeyError, TypeError):
            raise unknown_node(label, self.labels) from None

    def lacks(self, labels: Iterable[Label]) -> list[Label]:
        """Return those of the labels that are no nodes of the graph, in their order."""
        known = self._index
        return [label for label in labels if label not in known]

    def neighbours(self, label: object) -> dict[Label, float]:
        """Return a node's neighbours, each with the weight of its edge."""
        i = self.index(label)
        row = slice(self._matrix.indptr[i], self._matrix.indptr[i + 1])
        others, weights = self._matrix.indices[row].tolist(), self._matrix.data[row].tolist()
        return {self.labels[j]: weight for j, weight in zip(others, weights, strict=True)}

    def edges(self) -> Iterator[tuple[Label, Label, float]]:
        """Yield every edge once as (u, v, weight), u before v in ``labels``."""
        upper = sparse.triu(self._matrix, format="coo")
        ends = upper.row.tolist(), upper.col.tolist(), upper.data.tolist()
        for i, j, weight in zip(*ends, strict=True):
            yield self.labels[i], self.labels[j], weight

    @property
    def isolated(self) -> tuple[Label, ...]:
        """The nodes without any edge."""
        return tuple(self.labels[i] for i in np.flatnonzero(np.diff(self._matrix.indptr) == 0))

    def components(self) -> list[list[Label]]:
        """Return the connected components, each in the order of ``labels``.

        >>> Graph.from_edges([("a", "c")], labels=["a", "b", "c"]).components()
        [['a', 'c'], ['b']]
        """
        parts: list[list[Label]] = [[] for _ in range(self._component_of.max() + 1)]
        for label, part in zip(self.labels, self._component_of.tolist(), strict=True):
            parts[part].append(label)
        return parts

    def communities(self, random_state: int = 0) -> list[list[Label]]:
        """Return groups of densely connected nodes, the largest first (Louvain method).

        >>> Graph.from_edges([("a", "b"), ("c", "d"), ("d", "e"), ("e", "c")]).communities()
        [['c', 'd', 'e'], ['a', 'b']]
        """
        import networkx as nx

        sets = nx.community.louvain_communities(self.to_networkx(), seed=random_state)
        groups = [sorted(group, key=self.index) for group in sets]
        return sorted(groups, key=lambda group: (-len(group), self.index(group[0])))

    # --- Graphs made from this one ----------------------------------------------------------

    def subgraph(self, labels: Iterable[object]) -> Self:
        """Return the subgraph on these nodes, in the order given, with the edges among them."""
        rows = [self.index(label) for label in clean_labels(labels)]
        points = None if self.positions is None else self.positions[rows]
        names = [self.labels[row] for row in rows]
        return type(self)(self._matrix[rows][:, rows], names, points, self.geographic)

    def neighbours_together(self) -> tuple[Label, ...]:
        """Return the labels in an order in which neighbours are near each other (reverse Cuthill-McKee).

        A sum over neighbours misses the processor's cache once per neighbour if the models of all nodes do
        not fit into it and neighbours are far apart. On graphs that are not like a map, where this
        order gains little, it is the order of ``labels``.
        """
        A = self._matrix
        order = reverse_cuthill_mckee(A, symmetric_mode=True)
        row, place = np.repeat(np.arange(len(order)), np.diff(A.indptr)), np.argsort(order)
        before, after = np.abs(row - A.indices), np.abs(place[row] - place[A.indices])
        if 2 * after.sum(dtype=float) >= before.sum(dtype=float):
            return self.labels
        return tuple(map(self.labels.__getitem__, order.tolist()))

    def with_labels(self, labels: Iterable[object]) -> Self:
        """Return the graph with its nodes and new, isolated ones, in the order of ``labels``.

        If the graph has positions, new nodes have the position NaN.
        """
        names = clean_labels(labels)
        row = {label: number for number, label in enumerate(names)}
        left_out = [label for label in self.labels if label not in row]
        if left_out:
            raise FedRelaxError(f"labels leaves out {named('node', left_out)}; name every node")
        rows = np.array([row[label] for label in self.labels])
        own = self._matrix.tocoo()
        shape = (len(names), len(names))
        matrix = sparse.csr_array((own.data, (rows[own.row], rows[own.col])), shape=shape)
        points = None
        if self.positions is not None:
            points = np.full((len(names), self.positions.shape[1]), np.nan)
            points[rows] = self.positions
        return type(self)(matrix, names, points, self.geographic)

    def to_networkx(self) -> nx.Graph:
        """Return a networkx graph with the attribute ``weight`` on every edge."""
        import networkx as nx

        g = nx.Graph()
        g.add_nodes_from(self.labels)
        g.add_weighted_edges_from(self.edges())
        return g

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write the edges to a CSV file with the columns source, target and weight.

        Nodes without an edge are not in the file: pass all labels to `from_csv` to get them back.
        """
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([("source", "target", "weight"), *self.edges()])

    # --- Python protocols -------------------------------------------------------------------

    def __len__(self) -> int:
        return self.n_nodes

    def __contains__(self, label: object) -> bool:
        try:
            return label in self._index
        except TypeError:
            return False

    def __eq__(self, other: object) -> bool:
        """Tell whether both graphs have the same labels in the same order and exactly the same weights."""
        if not isinstance(other, Graph):
            return NotImplemented
        a, b = self._matrix, other._matrix
        return self.labels == other.labels and (a != b).nnz == 0

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        parts = int(self._component_of.max()) + 1
        return (
            f"{type(self).__name__}({counted(self.n_nodes, 'node')}, {counted(self.n_edges, 'edge')}, "
            f"mean degree {self.degrees.mean():.3g}, {counted(parts, 'component')})"
        )

    def __setattr__(self, name: str, value: object) -> Never:
        raise AttributeError(f"a Graph is immutable, so {name} cannot be set; make a new one")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.adjacency, self.labels, self.positions, self.geographic)

    # --- Cached -----------------------------------------------------------------------------

    @cached_property
    def _index(self) -> dict[object, int]:
        return {label: number for number, label in enumerate(self.labels)}

    @cached_property
    def _component_of(self) -> IntArray:
        """The component of every node, numbered in the order of ``labels``."""
        part: IntArray = connected_components(self._matrix, directed=False)[1]
        return part
