"""What holds for every graph."""

import subprocess
import sys
from pathlib import Path

import networkx as nx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import fedrelax.graph
from fedrelax.graph import Graph

relaxed = settings(deadline=None, max_examples=60)
weights = st.one_of(st.just(0.0), st.floats(1e-6, 1e6))


@st.composite
def matrices(draw):
    n = draw(st.integers(1, 12))
    upper = np.zeros((n, n))
    pairs = np.triu_indices(n, 1)
    upper[pairs] = draw(st.lists(weights, min_size=len(pairs[0]), max_size=len(pairs[0])))
    return upper + upper.T


@given(matrices())
@relaxed
def test_round_trips(A):
    labels = [f"node {i}" for i in range(len(A))]
    g = Graph.from_matrix(A, labels)
    np.testing.assert_array_equal(g.adjacency.toarray(), A)
    assert Graph.from_matrix(g.adjacency, labels) == g
    assert Graph.from_edges(g.edges(), labels) == g
    assert Graph.from_networkx(g.to_networkx()) == g
    assert len(list(g.edges())) == g.n_edges


@given(matrices())
@relaxed
def test_laplacian_is_positive_semidefinite_with_zero_row_sums(A):
    g = Graph.from_matrix(A)
    L = g.laplacian().toarray()
    size = max(1.0, g.degrees.max())
    np.testing.assert_array_equal(L, L.T)
    np.testing.assert_allclose(L.sum(axis=1), 0, atol=1e-12 * size)
    values = np.linalg.eigvalsh(L)
    assert values[0] > -1e-12 * size
    assert g.lambda_2 >= 0
    if len(A) > 1:
        np.testing.assert_allclose(g.lambda_2, values[1], atol=1e-12 * size)


@given(matrices())
@relaxed
def test_components_are_those_of_networkx(A):
    g = Graph.from_matrix(A)
    expected = sorted(sorted(part) for part in nx.connected_components(g.to_networkx()))
    assert g.components() == expected
    assert list(g.isolated) == [part[0] for part in expected if len(part) == 1]


@given(matrices(), st.randoms(use_true_random=False))
@relaxed
def test_reordering_changes_the_order_only(A, random):
    g = Graph.from_matrix(A)
    order = list(g.labels)
    random.shuffle(order)
    h = g.subgraph(order)
    np.testing.assert_array_equal(h.adjacency.toarray(), A[np.ix_(order, order)])
    assert h.subgraph(g.labels) == g == h.with_labels(g.labels)
    assert all(h.neighbours(label) == g.neighbours(label) for label in order)


def test_importing_the_graph_stays_light():
    package = Path(fedrelax.graph.__file__).parents[1]
    code = (
        "import sys, types\n"
        "sys.modules['fedrelax'] = parent = types.ModuleType('fedrelax')\n"  # no other layer
        f"parent.__path__ = [{str(package)!r}]\n"
        "import fedrelax.graph\n"
        "print([m for m in ('networkx', 'pandas', 'sklearn') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
