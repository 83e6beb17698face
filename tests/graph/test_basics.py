"""What a graph knows about itself, and that it never changes."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from fedrelax.errors import FedRelaxError
from fedrelax.graph import Graph


@pytest.fixture
def triangle_and_two() -> Graph:
    edges = [("a", "b", 1.0), ("b", "c", 2.0), ("a", "c", 4.0), ("d", "e", 0.5)]
    return Graph.from_edges(edges, labels=list("afbcde"))


def test_counts_degrees_neighbours(triangle_and_two):
    g = triangle_and_two
    assert (g.n_nodes, len(g), g.n_edges) == (6, 6, 4)
    assert g.labels == ("a", "f", "b", "c", "d", "e")
    assert g.degrees.tolist() == [5.0, 0.0, 3.0, 6.0, 0.5, 0.5]
    assert g.neighbours("c") == {"a": 4.0, "b": 2.0}
    assert g.neighbours("f") == {}
    assert g.isolated == ("f",)
    assert g.components() == [["a", "b", "c"], ["f"], ["d", "e"]]
    assert list(g.edges()) == [("a", "b", 1.0), ("a", "c", 4.0), ("b", "c", 2.0), ("d", "e", 0.5)]
    assert "a" in g and "z" not in g and ["a"] not in g
    assert repr(g) == "Graph(6 nodes, 4 edges, mean degree 2.5, 3 components)"


def test_repr_of_one_node():
    assert repr(Graph([[0.0]])) == "Graph(1 node, 0 edges, mean degree 0, 1 component)"


def test_a_caller_cannot_corrupt_the_graph(triangle_and_two):
    g = triangle_and_two
    before = g.adjacency.toarray()
    with pytest.raises(ValueError, match="read-only"):
        g.adjacency.data[0] = 9
    with pytest.raises(ValueError, match="read-only"):
        g.degrees[0] = 9
    own = g.adjacency
    own.data = own.data * 2
    with pytest.warns(sparse.SparseEfficiencyWarning):
        own[0, 1] = 7.0
    with pytest.raises(AttributeError, match="is immutable"):
        g.labels = ("x",)
    np.testing.assert_array_equal(g.adjacency.toarray(), before)


def test_the_matrix_handed_in_is_copied():
    given = sparse.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]]))
    g = Graph(given)
    given.data[:] = 5
    assert g.neighbours(0) == {1: 1.0}


def test_adjacency_is_in_canonical_form():
    rows, columns = [0, 0, 1, 1, 2], [2, 1, 0, 0, 0]  # (1, 0) in two halves, unsorted
    g = Graph(sparse.coo_array(([3.0, 2.0, 1.0, 1.0, 3.0], (rows, columns)), shape=(4, 4)))
    kept = g.adjacency
    assert kept.format == "csr" and kept.dtype == np.float64
    assert kept.has_canonical_format and (kept.data != 0).all()
    assert list(g.edges()) == [(0, 1, 2.0), (0, 2, 3.0)]


@pytest.mark.parametrize(
    "twin", [copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))]
)
def test_copies_are_equal_and_still_read_only(twin):
    g = Graph.from_coordinates(
        pd.DataFrame({"lat": [1, 2, 3], "lon": [4, 5, 6]}, index=list("abc"))
    )
    other = twin(g)
    assert other == g and other.geographic
    np.testing.assert_array_equal(other.positions, g.positions)
    with pytest.raises(ValueError, match="read-only"):
        other.adjacency.data[0] = 9


def test_equality_means_labels_order_and_weights(triangle_and_two):
    g = triangle_and_two
    assert g == Graph.from_edges(g.edges(), labels=g.labels)
    assert g != g.subgraph(sorted(g.labels))
    assert g != Graph(2 * g.adjacency, g.labels)
    assert g != "a graph"


def test_numpy_labels_become_plain_and_are_found_either_way():
    g = Graph.complete(np.array(["a", "b"]))
    assert [type(label) for label in g.labels] == [str, str]
    assert g.index(np.str_("b")) == 1
    h = Graph.from_edges(pd.DataFrame({"source": [1, 2], "target": [2, 3]}))
    assert [type(label) for label in h.labels] == [int] * 3
    assert h.index(np.int64(3)) == 2
    assert Graph.complete([np.int64(7), np.float64(0.5)]).labels == (7, 0.5)


def test_dates_and_tuples_are_labels():
    days = pd.date_range("2024-01-01", periods=3)
    g = Graph.complete(days)
    assert g.index(days[1]) == 1
    assert Graph.complete([("fi", 1), ("fi", 2)]).neighbours(("fi", 1)) == {("fi", 2): 1.0}


def test_subgraph_keeps_edges_positions_and_the_order_asked_for():
    places = {"a": (0, 0), "b": (0, 1), "c": (0, 2), "d": (0, 3)}
    g = Graph.from_coordinates(places, k=1)
    h = g.subgraph(["d", "c", "a"])
    assert h.labels == ("d", "c", "a")
    assert list(h.edges()) == [("d", "c", 1.0)]
    assert h.positions.tolist() == [[0, 3], [0, 2], [0, 0]]


def test_another_order_and_with_labels(triangle_and_two):
    g = triangle_and_two
    back = g.subgraph(reversed(g.labels))
    assert back.labels == g.labels[::-1]
    assert back.neighbours("a") == {"b": 1.0, "c": 4.0}
    wider = g.with_labels(["new", *sorted(g.labels)])
    assert wider.labels == ("new", *"abcdef")
    assert wider.isolated == ("new", "f")
    assert wider.subgraph(g.labels) == g
    with pytest.raises(FedRelaxError, match="leaves out nodes 'f', 'e'"):
        g.with_labels(["a", "b", "c", "d"])


def test_with_labels_gives_new_nodes_no_position():
    g = Graph.from_coordinates({"a": (0, 0), "b": (1, 1)}).with_labels(["x", "b", "a"])
    np.testing.assert_array_equal(g.positions, [[np.nan, np.nan], [1, 1], [0, 0]])


def test_unknown_nodes_are_named_with_a_suggestion():
    g = Graph.complete(["Helsinki", "Turku"])
    with pytest.raises(FedRelaxError, match=r"unknown node 'Helsinky'; did you mean 'Helsinki'\?"):
        g.neighbours("Helsinky")
    with pytest.raises(FedRelaxError, match="unknown node 'x'; the graph has 'Helsinki', 'Turku'"):
        g.subgraph(["x"])
    with pytest.raises(FedRelaxError, match=r"did you mean 1 \(a number, not text\)"):
        Graph.complete(range(3)).index("1")
    with pytest.raises(FedRelaxError, match="unknown node"):
        g.index(["Turku"])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", "b", "a"], "more than once: 'a'"),
        ([1, True], "more than once: 1"),
        (["a", ["b"]], r"node label \['b'\] is of type list and cannot be hashed"),
        (["a", None], "None is a missing value"),
        (["a", float("nan")], "nan is a missing value"),
        (["a", pd.NaT], "NaT is a missing value"),
        (["a", pd.NA], "NA.* is a missing value"),
        ([], "no nodes"),
        ("abc", "labels is a str"),
        ({"a", "b"}, "labels is a set"),
        (3, "labels is 3"),
    ],
)
def test_bad_labels(labels, message):
    with pytest.raises(FedRelaxError, match=message):
        Graph.complete(labels)


def test_positions_need_one_row_per_node():
    with pytest.raises(FedRelaxError, match=r"shape \(1, 2\); give one row for each of the 2"):
        Graph([[0, 1], [1, 0]], positions=[[0, 0]])
