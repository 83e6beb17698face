"""The paper's synthetic networks: linear regression on clustered and on mixed local datasets.

Features are x ~ N(0, I_d) and labels y = w'x + e with e ~ N(0, sigma^2), in which w belongs to the
node's cluster (:func:`clustered`) or to the distribution that the row comes from (:func:`mixture`).
Validation rows are drawn independently of the training rows, as the paper says. (The authors' code
draws both with replacement from one pool, so there the two may share rows.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedrelax.graph import Graph
from fedrelax.typing import FloatArray, IntArray
from fedrelax.validation import RandomState, check_count, check_number, generator


@dataclass(frozen=True, eq=False)
class SyntheticNetwork:
    """Local datasets of equal size on the nodes of a graph, with the truth behind them.

    Sizes: n nodes, m training rows, m_val validation rows and m_pub public rows per node, d
    features, K clusters or distributions.
    """

    X: FloatArray
    """Training features, (n, m, d)."""
    y: FloatArray
    """Training labels, (n, m)."""
    X_val: FloatArray
    """Validation features, (n, m_val, d)."""
    y_val: FloatArray
    """Validation labels, (n, m_val), with the same noise as the training labels."""
    public: FloatArray
    """Unlabelled public rows N(0, I), drawn separately for every node, (n, m_pub, d)."""
    graph: Graph
    """The graph on the nodes 0 .. n-1."""
    clusters: IntArray
    """The node's cluster; in a mixture, the distribution with the largest share. (n,)"""
    cluster_weights: FloatArray
    """The weight vectors of the clusters or distributions, (K, d)."""
    true_weights: FloatArray
    """The node's best linear predictor, (n, d): its cluster's weights, or their mean by share."""
    noise: FloatArray
    """The noise e in the training labels, (n, m); the theory's epsilon is made of it."""
    shares: FloatArray | None = None
    """In a mixture, each node's share of each distribution, (n, K)."""


def clustered(
    sizes: Sequence[int] = (50, 50, 50),
    *,
    m: int = 10,
    d: int = 10,
    sigma: float = 0.0,
    p_in: float = 0.8,
    p_out: float = 0.2,
    m_val: int = 100,
    m_pub: int = 100,
    random_state: RandomState = None,
) -> SyntheticNetwork:
    """Draw clusters of nodes that share one weight vector w ~ N(0, I_d) each.

    Two nodes of one cluster are joined with probability ``p_in``, two of different clusters with
    ``p_out``; every edge has weight 1. ``sigma`` is the standard deviation of the label noise.

    >>> network = clustered((4, 6), d=3, random_state=0)
    >>> network.X.shape, network.clusters.tolist()
    ((10, 10, 3), [0, 0, 0, 0, 1, 1, 1, 1, 1, 1])
    """
    _check(m=m, d=d, sigma=sigma, m_val=m_val, m_pub=m_pub)
    # Independent streams: more public rows, say, leave the training rows the same.
    weights_rng, graph_rng, rows_rng, val_rng, public_rng = generator(random_state).spawn(5)
    graph, clusters = Graph.stochastic_block(sizes, p_in, p_out, random_state=graph_rng)
    weights = weights_rng.standard_normal((len(sizes), d))
    X, y, noise = _rows(weights, np.tile(clusters[:, None], m), sigma, rows_rng)
    X_val, y_val, _ = _rows(weights, np.tile(clusters[:, None], m_val), sigma, val_rng)
    return SyntheticNetwork(
        X=X,
        y=y,
        X_val=X_val,
        y_val=y_val,
        public=public_rng.standard_normal((len(clusters), m_pub, d)),
        graph=graph,
        clusters=clusters,
        cluster_weights=weights,
        true_weights=weights[clusters],
        noise=noise,
    )


def mixture(
    n: int = 150,
    K: int = 3,
    *,
    m: int = 10,
    d: int = 10,
    sigma: float = 0.0,
    m_val: int = 100,
    m_pub: int = 100,
    random_state: RandomState = None,
) -> SyntheticNetwork:
    """Draw non-i.i.d. nodes, each with its own mixture of K linear models.

    Node i takes the share rho_i = softmax(s), s ~ N(0, I_K), of its rows from each model; m * rho_i
    is rounded so that the counts sum to m exactly (largest remainder), likewise for validation.
    Rows are in random order. Edge weights are the overlaps A_ij = sum_k min(rho_ik, rho_jk).

    >>> network = mixture(4, random_state=0)
    >>> network.shares.sum(axis=1).round(9).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    check_count("n", n, least=1)
    check_count("K", K, least=1)
    _check(m=m, d=d, sigma=sigma, m_val=m_val, m_pub=m_pub)
    weights_rng, shares_rng, rows_rng, val_rng, public_rng = generator(random_state).spawn(5)
    weights = weights_rng.standard_normal((K, d))
    odds = np.exp(shares_rng.standard_normal((n, K)))
    shares = odds / odds.sum(axis=1, keepdims=True)
    X, y, noise = _rows(weights, _origins(shares, m, rows_rng), sigma, rows_rng)
    X_val, y_val, _ = _rows(weights, _origins(shares, m_val, val_rng), sigma, val_rng)
    return SyntheticNetwork(
        X=X,
        y=y,
        X_val=X_val,
        y_val=y_val,
        public=public_rng.standard_normal((n, m_pub, d)),
        graph=Graph.mixture_overlap(shares),
        clusters=shares.argmax(axis=1),
        cluster_weights=weights,
        true_weights=shares @ weights,
        noise=noise,
        shares=shares,
    )


def _rows(
    weights: FloatArray, origins: IntArray, sigma: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Draw one row per entry of ``origins`` (n, rows), labelled by the weights it points to."""
    X = rng.standard_normal((*origins.shape, weights.shape[1]))
    noise = sigma * rng.standard_normal(origins.shape)
    # One product with all K weight vectors needs less memory than one vector per row.
    clean = np.take_along_axis(X @ weights.T, origins[..., None], axis=2)[..., 0]
    return X, clean + noise, noise


def _origins(shares: FloatArray, rows: int, rng: np.random.Generator) -> IntArray:
    """Which distribution each of a node's rows comes from, (n, rows), in random order."""
    ends = largest_remainder(shares, rows).cumsum(axis=1)
    origins = (np.arange(rows)[None, :, None] >= ends[:, None, :]).sum(axis=2)
    return np.asarray(rng.permuted(origins, axis=1), dtype=np.int64)


def _check(*, m: int, d: int, sigma: float, m_val: int, m_pub: int) -> None:
    for name, value, least in (("m", m, 1), ("d", d, 1), ("m_val", m_val, 0), ("m_pub", m_pub, 1)):
        check_count(name, value, least)
    check_number("sigma", sigma, least=0.0)


def largest_remainder(
    shares: FloatArray, total: int, rng: np.random.Generator | None = None
) -> IntArray:
    """Round ``total * shares`` to whole counts, row by row, so that every row sums to ``total``.

    Everyone gets the whole part; what is left goes one each to the largest remainders. Ties go to
    the first, or at random where a generator is given.

    >>> largest_remainder(np.array([[0.5, 0.3, 0.2], [0.34, 0.33, 0.33]]), 10)
    array([[5, 3, 2],
           [4, 3, 3]])
    """
    exact = total * np.asarray(shares, dtype=np.float64)
    # The small allowance keeps 10 * 0.3 = 2.9999999999999996 a whole three.
    counts = np.floor(exact + 1e-9).astype(np.int64)
    remainder = np.round(exact - counts, 9)
    tie = np.zeros_like(exact) if rng is None else rng.random(exact.shape)
    rank = np.lexsort((tie, -remainder), axis=-1).argsort(axis=-1, kind="stable")
    left = total - counts.sum(axis=-1, keepdims=True)
    return np.asarray(counts + (rank < left), dtype=np.int64)
