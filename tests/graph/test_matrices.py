"""Graphs from matrices, and the Laplacian."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from fedrelax.errors import FedRelaxError
from fedrelax.graph import Graph

A = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 2.5], [0.0, 2.5, 0.0]])


@pytest.mark.parametrize(
    "matrix",
    [
        A,
        A.tolist(),
        A.astype(object),
        np.asfortranarray(A),
        sparse.csr_array(A),
        sparse.csc_matrix(A),
        sparse.lil_array(A),
        sparse.coo_array(A),
    ],
    ids=lambda m: type(m).__name__,
)
def test_every_kind_of_matrix_gives_the_same_graph(matrix):
    g = Graph.from_matrix(matrix, labels=["a", "b", "c"])
    np.testing.assert_array_equal(g.adjacency.toarray(), A)
    assert g.labels == ("a", "b", "c")


def test_integers_and_booleans_are_weights():
    assert Graph.from_matrix(np.array([[0, 3], [3, 0]])).neighbours(0) == {1: 3.0}
    assert Graph.from_matrix(np.array([[False, True], [True, False]])).neighbours(0) == {1: 1.0}


def test_dataframe_labels_its_rows_and_may_order_its_columns_otherwise():
    frame = pd.DataFrame(A, index=list("abc"), columns=list("abc"))
    g = Graph.from_matrix(frame)
    assert g.labels == ("a", "b", "c")
    assert Graph.from_matrix(frame[["c", "a", "b"]]) == g
    assert Graph.from_matrix(frame, labels=list("abc")) == g
    assert Graph.from_matrix(pd.DataFrame(A), labels=list("abc")) == g
    with pytest.raises(
        FedRelaxError, match="the index of the DataFrame labels the rows 'a', 'b', 'c'"
    ):
        Graph.from_matrix(frame, labels=list("cba"))
    with pytest.raises(FedRelaxError, match=r"rows and the columns .* different nodes"):
        Graph.from_matrix(frame.set_axis(list("xyz"), axis=1))


def test_zero_weights_are_no_edges():
    stored = sparse.csr_array(([1.0, 1.0, 0.0], ([0, 1, 0], [1, 0, 2])), shape=(3, 3))
    assert Graph.from_matrix(stored).n_edges == 1


def test_rounding_is_averaged_away():
    B = A.copy()
    B[0, 1] *= 1 + 1e-13
    kept = Graph.from_matrix(B).adjacency
    assert (kept != kept.T).nnz == 0
    assert kept[0, 1] == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("make", [np.array, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({(0, 1): 1.5}, "from 'a' to 'b' is 1.5 and from 'b' to 'a' it is 1.0"),
        ({(0, 1): 1 + 1e-10}, "not symmetric"),
        ({(0, 2): 1e-300}, "from 'a' to 'c' is 1e-300 and from 'c' to 'a' it is 0.0"),
        ({(1, 2): -1.0, (2, 1): -1.0}, r"\('b', 'c'\) has the negative weight -1.0"),
        ({(1, 2): np.nan, (2, 1): np.nan}, r"\('b', 'c'\) has the weight nan"),
        ({(1, 2): np.inf, (2, 1): np.inf}, r"\('b', 'c'\) has the weight inf"),
        ({(2, 2): 3.0}, r"\('c', 'c'\) with weight 3.0 joins a node to itself"),
    ],
)
def test_bad_entries_are_named(make, entries, message):
    B = A.copy()
    for place, weight in entries.items():
        B[place] = weight
    with pytest.raises(FedRelaxError, match=message):
        Graph.from_matrix(make(B), labels=["a", "b", "c"])


@pytest.mark.parametrize(
    ("matrix", "labels", "message"),
    [
        (np.ones((2, 3)), None, r"shape \(2, 3\); give a square one"),
        (np.ones(3), None, r"shape \(3,\)"),
        ([[0, 1], [1]], None, "or rows of different lengths"),
        (np.zeros((0, 0)), None, "no nodes"),
        (A, ["a", "b"], "2 labels were given for 3 nodes"),
        ([[0, "far"], ["far", 0]], ["a", "b"], "something other than real numbers"),
        (np.array([[0, None], [None, 0]]), ["a", "b"], r"edge \('a', 'b'\) has the weight nan"),
        (sparse.csr_array(np.array([[0, 1j], [1j, 0]])), None, "give real numbers"),
    ],
)
def test_bad_matrices(matrix, labels, message):
    with pytest.raises(FedRelaxError, match=message):
        Graph.from_matrix(matrix, labels)


def test_lambda_2_of_graphs_with_a_formula():
    def path(n):
        return Graph.from_edges([(i, i + 1) for i in range(n - 1)])

    def ring(n):
        return Graph.from_edges([(i, (i + 1) % n) for i in range(n)])

    for n in (2, 10, 700):  # both sides of the switch to sparse eigenvalues
        assert path(n).lambda_2 == pytest.approx(2 - 2 * np.cos(np.pi / n), rel=1e-6)
        assert Graph.complete(range(n), weight=0.5).lambda_2 == pytest.approx(n / 2, rel=1e-6)
    assert ring(700).lambda_2 == pytest.approx(2 - 2 * np.cos(2 * np.pi / 700), rel=1e-6)


def test_lambda_2_is_zero_when_the_graph_falls_apart():
    assert Graph([[0.0]]).lambda_2 == 0.0
    assert Graph.from_edges([(0, 1), (2, 3)]).lambda_2 == 0.0
    assert Graph.complete(range(600)).with_labels(range(601)).lambda_2 == 0.0


def test_lambda_2_large_equals_dense():
    g, _ = Graph.stochastic_block([300, 300], 0.1, 0.01, random_state=1)
    for h in (g, Graph.from_coordinates(np.random.default_rng(1).random((600, 2)), k=6)):
        dense = np.linalg.eigvalsh(h.laplacian().toarray())[1]
        assert h.lambda_2 == pytest.approx(max(dense, 0), rel=1e-6, abs=1e-9)
