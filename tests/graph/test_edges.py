"""Graphs from lists of edges, CSV files and networkx."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from fedrelax.errors import FedRelaxError
from fedrelax.graph import Graph


def test_pairs_triples_and_both():
    g = Graph.from_edges(iter([("b", "a"), ("a", "c", 2), ["c", "d", 0.5]]))
    assert g.labels == ("b", "a", "c", "d")
    assert list(g.edges()) == [("b", "a", 1.0), ("a", "c", 2.0), ("c", "d", 0.5)]


def test_labels_give_order_and_isolated_nodes():
    g = Graph.from_edges([("b", "a")], labels=["a", "x", "b"])
    assert g.labels == ("a", "x", "b") and g.isolated == ("x",)
    assert Graph.from_edges([], labels=["a"]).n_edges == 0


def test_arrays_and_frames():
    edges = [(0, 1), (1, 2)]
    g = Graph.from_edges(edges)
    assert Graph.from_edges(np.array(edges)) == g
    assert Graph.from_edges(pd.DataFrame(edges, columns=["from", "to"])) == g
    named = pd.DataFrame({"weight": [2, 3], "Target": [1, 2], "Source": [0, 1], "note": ["", ""]})
    assert Graph.from_edges(named) == Graph.from_edges([(0, 1, 2), (1, 2, 3)])


def test_zero_weight_is_no_edge_but_names_its_nodes():
    g = Graph.from_edges([("a", "b", 0.0), ("a", "c"), ("a", "a", 0.0)])
    assert g.labels == ("a", "b", "c") and g.n_edges == 1


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([("a", "b"), ("a", "b")], r"edge \('a', 'b'\) is given twice; keep one"),
        ([("c", "d"), ("a", "b", 1), ("b", "a", 2)], r"edge \('b', 'a'\) is given twice"),
        ([("a", "a")], r"edge \('a', 'a'\) with weight 1.0 joins a node to itself"),
        ([("a", "b", -2)], r"edge \('a', 'b'\) has the negative weight -2.0"),
        ([("a", "b", float("nan"))], r"edge \('a', 'b'\) has the weight nan"),
        ([("a", "b", "far")], r"edge \('a', 'b'\) has the weight 'far'; give a number"),
        ([("a", "b", None)], r"has the weight None; give a number"),
        ([("a", "b", {"weight": 1})], "give a number"),
        ([("a", "b"), ("c",)], r"edge number 1 is \('c',\)"),
        (["ab"], "edge number 0 is 'ab'"),
        ([3], "edge number 0 is 3"),
        (7, "edges is 7"),
        ([("a", None)], "None is a missing value"),
        ([(["a"], "b")], "cannot be hashed"),
        ([], "no edges and no labels"),
    ],
)
def test_bad_edges(edges, message):
    with pytest.raises(FedRelaxError, match=message):
        Graph.from_edges(edges)


def test_a_node_outside_the_labels_is_refused():
    with pytest.raises(FedRelaxError, match=r"unknown node 'Oulo'; did you mean 'Oulu'\?"):
        Graph.from_edges([("Espoo", "Oulo")], labels=["Espoo", "Oulu"])


def test_bad_rows_of_a_frame_are_named():
    frame = pd.DataFrame({"source": ["a", "b"], "target": ["b", np.nan]}, index=[10, 20])
    with pytest.raises(FedRelaxError, match="row with index 20: node label nan is a missing value"):
        Graph.from_edges(frame)
    frame = pd.DataFrame({"source": ["a", "b"], "target": ["b", "a"]}, index=[10, 20])
    with pytest.raises(FedRelaxError, match=r"row with index 20: .* given twice"):
        Graph.from_edges(frame)
    with pytest.raises(FedRelaxError, match="give source,target"):
        Graph.from_edges(frame[["source"]])
    with pytest.raises(FedRelaxError, match="give source,target"):
        Graph.from_edges(frame[["source"]].assign(weight=1.0))


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "roads.csv"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_csv(write):
    path = write('source,target,weight\nEspoo, Vantaa, 0.5\n\n"Oulu, north",Espoo,2e3\n')
    edges = [("Espoo", "Vantaa", 0.5), ("Oulu, north", "Espoo", 2000)]
    assert Graph.from_csv(path) == Graph.from_edges(edges)
    path = write("\ufeffweight,from,to\n2,a,b\n")
    assert Graph.from_csv(path) == Graph.from_edges([("a", "b", 2)])
    assert Graph.from_csv(write("a,b\nx,y\n")) == Graph.from_edges([("x", "y")])
    assert Graph.from_csv(write("a,b,c\nx,y,3\n")) == Graph.from_edges([("x", "y", 3)])


def test_csv_labels_are_integers_only_if_all_are_written_so(write):
    assert Graph.from_csv(write("u,v\n1,2\n2,-3\n")).labels == (1, 2, -3)
    assert Graph.from_csv(write("u,v\n01,2\n2,3\n")).labels == ("01", "2", "3")
    assert Graph.from_csv(write("u,v\n1,2\n2,x\n")).labels == ("1", "2", "x")


def test_csv_matches_given_labels_by_their_text(write):
    path = write("u,v\n1,2\n")
    assert Graph.from_csv(path, labels=["1", "2", "3"]).neighbours("1") == {"2": 1.0}
    assert Graph.from_csv(path, labels=[3, 2, 1]).neighbours(1) == {2: 1.0}
    assert Graph.from_csv(path, labels=[1, 2.5, 2]).isolated == (2.5,)
    with pytest.raises(FedRelaxError, match=r"roads.csv, line 2: unknown node '2'"):
        Graph.from_csv(path, labels=[1, 7])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("source,target,weight\na,b,1\n\na,c,far\n", "line 4: .* the weight 'far'; give a number"),
        ("source,target,weight\na,b,\n", r"edge \('a', 'b'\) has the weight nan"),
        ("source,target\na,\n", "line 2: node label nan is a missing value"),
        ("source,target\na,b\nb,a\n", r"line 3: edge \('b', 'a'\) is given twice"),
        ("source,target,weight\na,b,-1\n", r"edge \('a', 'b'\) has the negative weight"),
        ("source,target\na,a\n", "roads.csv, .* itself"),
        ("source\na\n", r"has the columns \['source'\]"),
        ("1,2\n2,3\n", "1,2 looks like an edge; start the file with a header"),
        ("a,b,0.5\na,c,1\n", "a,b,0.5 looks like an edge"),
        ("", "is empty"),
        ("source,target\n", "no rows"),
    ],
)
def test_bad_csv(write, text, message):
    with pytest.raises(FedRelaxError, match=message):
        Graph.from_csv(write(text))


def test_csv_that_cannot_be_read(tmp_path):
    with pytest.raises(FedRelaxError, match=r"missing.csv does not exist"):
        Graph.from_csv(tmp_path / "missing.csv")
    with pytest.raises(FedRelaxError, match="is a directory"):
        Graph.from_csv(tmp_path)


def test_csv_round_trip_is_exact(tmp_path):
    rng = np.random.default_rng(0)
    g = Graph.from_edges([(i, i + 1, weight) for i, weight in enumerate(rng.random(30))])
    g.to_csv(tmp_path / "g.csv")
    assert Graph.from_csv(tmp_path / "g.csv", labels=g.labels) == g


def test_networkx():
    theirs = nx.Graph([("a", "b", {"weight": 2.0, "km": 5}), ("b", "c", {"km": 7})])
    theirs.add_node("alone")
    g = Graph.from_networkx(theirs)
    assert g.labels == ("a", "b", "c", "alone")
    assert list(g.edges()) == [("a", "b", 2.0), ("b", "c", 1.0)]
    assert list(Graph.from_networkx(theirs, weight="km").edges()) == [("a", "b", 5), ("b", "c", 7)]
    assert nx.utils.graphs_equal(
        Graph.from_networkx(g.to_networkx()).to_networkx(), g.to_networkx()
    )


def test_networkx_refusals():
    with pytest.raises(FedRelaxError, match="directed"):
        Graph.from_networkx(nx.DiGraph([(0, 1)]))
    with pytest.raises(FedRelaxError, match="given twice"):
        Graph.from_networkx(nx.MultiGraph([(0, 1), (0, 1)]))
    with pytest.raises(FedRelaxError, match="itself"):
        Graph.from_networkx(nx.Graph([(0, 0)]))
    with pytest.raises(FedRelaxError, match="no nodes"):
        Graph.from_networkx(nx.Graph())
    with pytest.raises(FedRelaxError, match="expected a networkx graph, found list"):
        Graph.from_networkx([(0, 1)])


def test_tables_of_other_libraries():
    pl = pytest.importorskip("polars")
    edges = pl.DataFrame({"source": ["a", "b"], "target": ["b", "c"], "weight": [1.0, 0.5]})
    assert Graph.from_edges(edges) == Graph.from_edges([("a", "b"), ("b", "c", 0.5)])
    places = pl.DataFrame({"lat": [60.0, 61.0, 65.0], "lon": [24.0, 24.0, 25.0]})
    assert Graph.from_coordinates(places, k=1, labels=list("abc")).neighbours("a") == {"b": 1.0}
