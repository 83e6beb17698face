"""Complete graphs, random blocks and the overlap of mixtures."""

import numpy as np
import pandas as pd
import pytest

from fedrelax.errors import FedRelaxError
from fedrelax.graph import Graph
from fedrelax.graph.families import _triangle


def test_complete():
    g = Graph.complete(["a", "b", "c"], weight=0.25)
    np.testing.assert_array_equal(g.adjacency.toarray(), 0.25 * (1 - np.eye(3)))
    assert Graph.complete(["alone"]).n_edges == 0
    for weight in (-1.0, np.nan, np.inf, "1"):
        with pytest.raises(FedRelaxError, match="weight=.* must be a finite number of at least 0"):
            Graph.complete(["a", "b"], weight=weight)


def test_blocks_at_the_extremes():
    g, blocks = Graph.stochastic_block([3, 1, 2], p_in=1, p_out=0)
    same = blocks[:, None] == blocks
    np.testing.assert_array_equal(g.adjacency.toarray(), same & ~np.eye(6, dtype=bool))
    g, blocks = Graph.stochastic_block([3, 1, 2], p_in=0, p_out=1, labels=list("abcdef"))
    np.testing.assert_array_equal(g.adjacency.toarray(), blocks[:, None] != blocks)
    assert g.labels == tuple("abcdef")


def test_blocks_have_the_expected_number_of_edges():
    sizes, p_in, p_out = [150, 100, 50], 0.3, 0.05
    g, blocks = Graph.stochastic_block(sizes, p_in, p_out, random_state=0)
    dense = np.triu(g.adjacency.toarray(), 1)
    same = blocks[:, None] == blocks
    pairs = np.triu(np.ones_like(dense), 1)
    for where, p in ((same, p_in), (~same, p_out)):
        n_pairs = pairs[where].sum()
        spread = np.sqrt(n_pairs * p * (1 - p))
        assert abs(dense[where].sum() - n_pairs * p) < 5 * spread
    assert set(g.adjacency.data.tolist()) == {1.0}


def test_blocks_repeat_with_the_seed():
    def draw(seed):
        return Graph.stochastic_block([20, 20], 0.5, 0.1, random_state=seed)[0]

    assert draw(3) == draw(3) == draw(np.random.default_rng(3))
    assert draw(3) != draw(4)


def test_triangle_numbers_count_every_pair_once():
    n = 40
    i, j = _triangle(np.arange(n * (n - 1) // 2))
    assert list(zip(i.tolist(), j.tolist(), strict=True)) == [
        (a, b) for a in range(n) for b in range(a)
    ]
    large = 3_000_000_000  # beyond exact square roots
    first = large * (large - 1) // 2
    i, j = _triangle(np.array([first - 1, first, first + large - 1]))
    assert i.tolist() == [large - 1, large, large] and j.tolist() == [large - 2, 0, large - 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], 0.5, 0.5), "each of sizes=0 must be a whole number"),
        (([3, 0], 0.5, 0.5), "each of sizes=0 must be a whole number"),
        (([1.5], 0.5, 0.5), "each of sizes=1.5 must be a whole number"),
        (([3], 1.5, 0.5), "p_in is 1.5"),
        (([3], 0.5, float("nan")), "p_out is nan"),
        (([3], "x", 0.5), "p_in is 'x'"),
        (([3], 0.5, 0.5, "x"), "random_state is 'x'"),
        (([3], 0.5, 0.5, -1), "random_state is -1"),
        (([3], 0.5, 0.5, 0, ["a"]), "1 labels were given for 3 nodes"),
    ],
)
def test_bad_blocks(arguments, message):
    with pytest.raises(FedRelaxError, match=message):
        Graph.stochastic_block(*arguments)


def test_mixture_overlap_is_the_sum_of_minima():
    rng = np.random.default_rng(0)
    rho = np.exp(rng.normal(size=(12, 3)))
    rho /= rho.sum(axis=1, keepdims=True)
    rho[0], rho[1] = [1, 0, 0], [0, 1, 0]
    g = Graph.mixture_overlap(pd.DataFrame(rho, index=[f"n{i}" for i in range(12)]))
    dense = g.adjacency.toarray()
    for i in range(12):
        for j in range(12):
            overlap = sum(min(a, b) for a, b in zip(rho[i], rho[j], strict=True))
            assert dense[i, j] == pytest.approx(0 if i == j else overlap)
    assert "n1" not in g.neighbours("n0")
    assert dense.max() <= 1 + 1e-12


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ([[0.5, 0.5], [0.5, 0.4]], "shares of node 'b' sum to 0.9"),
        ([[0.5, 0.5], [1.5, -0.5]], "node 'b' has the negative share -0.5"),
        ([[0.5, 0.5], [np.nan, 1.0]], "node 'b' has the share nan"),
        ([0.5, 0.5], "found shape"),
    ],
)
def test_bad_shares(shares, message):
    with pytest.raises(FedRelaxError, match=message):
        Graph.mixture_overlap(shares, labels=["a", "b"])
