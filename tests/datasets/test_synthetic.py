from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrelax.datasets import SyntheticNetwork, clustered, mixture
from fedrelax.datasets.synthetic import largest_remainder
from fedrelax.errors import FedRelaxError

MAKERS = {
    "clustered": lambda **kw: clustered((3, 5), **kw),
    "single_cluster": lambda **kw: clustered((8,), **kw),
    "mixture": lambda **kw: mixture(8, 2, **kw),
}


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


def arrays(network: SyntheticNetwork) -> dict[str, np.ndarray]:
    values = {f.name: getattr(network, f.name) for f in fields(network)}
    return {name: v for name, v in values.items() if isinstance(v, np.ndarray)}


def dense(network: SyntheticNetwork) -> np.ndarray:
    return network.graph.adjacency.toarray()


def test_shapes(make):
    network = make(m=4, d=3, m_val=6, m_pub=7, random_state=0)
    n, m, d = network.X.shape
    assert (n, m, d) == (8, 4, 3)
    assert network.y.shape == network.noise.shape == (8, 4)
    assert network.X_val.shape == (8, 6, 3)
    assert network.y_val.shape == (8, 6)
    assert network.public.shape == (8, 7, 3)
    assert network.true_weights.shape == (8, 3)
    assert network.clusters.shape == (8,)
    assert dense(network).shape == (8, 8)


def test_same_seed_same_network(make):
    one, two, other = make(random_state=5), make(random_state=5), make(random_state=6)
    for name, value in arrays(one).items():
        np.testing.assert_array_equal(value, arrays(two)[name])
    np.testing.assert_array_equal(dense(one), dense(two))
    assert not np.array_equal(one.X, other.X)


def test_a_generator_moves_on(make):
    rng = np.random.default_rng(0)
    assert not np.array_equal(make(random_state=rng).X, make(random_state=rng).X)


def test_more_public_or_validation_rows_leave_the_training_rows_alone(make):
    one, two = make(random_state=1), make(m_val=3, m_pub=2, random_state=1)
    np.testing.assert_array_equal(one.X, two.X)
    np.testing.assert_array_equal(one.y, two.y)
    np.testing.assert_array_equal(dense(one), dense(two))


def test_noise_is_what_separates_labels_from_the_linear_model():
    network = clustered((4, 2, 3), sigma=2.0, random_state=0)
    clean = np.einsum("imd,id->im", network.X, network.true_weights)
    np.testing.assert_allclose(network.y - clean, network.noise, atol=1e-12)


def test_noise_has_the_given_standard_deviation():
    network = clustered((50, 50), m=100, sigma=3.0, d=2, m_val=100, random_state=0)
    clean = np.einsum("imd,id->im", network.X_val, network.true_weights)
    for noise in (network.noise, network.y_val - clean):
        # The standard error of a standard deviation over N draws is sigma / sqrt(2 N).
        assert abs(noise.std() - 3.0) < 5 * 3.0 / np.sqrt(2 * noise.size)


def test_without_noise_labels_are_exact(make):
    assert not make(random_state=0).noise.any()


def test_clusters_have_the_given_sizes_and_share_weights():
    network = clustered((2, 5, 1), random_state=0)
    assert np.bincount(network.clusters).tolist() == [2, 5, 1]
    np.testing.assert_array_equal(network.true_weights, network.cluster_weights[network.clusters])


def test_extreme_probabilities_give_the_block_graph():
    network = clustered((3, 4), p_in=1.0, p_out=0.0, random_state=0)
    same = network.clusters[:, None] == network.clusters[None, :]
    np.testing.assert_array_equal(dense(network), same & ~np.eye(7, dtype=bool))


def test_public_and_validation_rows_are_drawn_afresh_for_every_node(make):
    network = make(random_state=0)
    rows = np.concatenate([network.X, network.X_val, network.public], axis=1).reshape(-1, 10)
    assert len(np.unique(rows, axis=0)) == len(rows)


def test_mixture_edges_are_overlaps_of_shares():
    network = mixture(9, 4, random_state=0)
    shares = network.shares
    assert shares is not None
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    overlap = np.minimum(shares[:, None], shares[None]).sum(axis=2)
    np.testing.assert_allclose(dense(network), overlap - np.diag(np.diag(overlap)))
    np.testing.assert_allclose(network.true_weights, shares @ network.cluster_weights)


@pytest.mark.parametrize(("features", "labels", "m"), [("X", "y", 13), ("X_val", "y_val", 40)])
def test_mixture_rows_follow_the_shares(features, labels, m):
    network = mixture(20, 3, m=13, m_val=40, random_state=0)
    X, y = getattr(network, features), getattr(network, labels)
    fits = np.isclose(X @ network.cluster_weights.T, y[..., None])
    np.testing.assert_array_equal(fits.sum(axis=2), 1)
    counts = fits.sum(axis=1)
    np.testing.assert_array_equal(counts.sum(axis=1), m)
    assert network.shares is not None
    assert np.abs(counts - m * network.shares).max() < 1


def test_an_empty_validation_set_is_allowed(make):
    assert make(m_val=0, random_state=0).X_val.shape == (8, 0, 10)


@given(
    odds=st.lists(st.floats(0, 100), min_size=1, max_size=8).filter(lambda o: sum(o) > 1e-3),
    total=st.integers(0, 1000),
    seed=st.none() | st.integers(0, 10),
)
@settings(max_examples=200, deadline=None)
def test_largest_remainder_sums_exactly_and_stays_within_one(odds, total, seed):
    shares = np.array([odds]) / sum(odds)
    rng = None if seed is None else np.random.default_rng(seed)
    counts = largest_remainder(shares, total, rng)
    assert counts.sum() == total
    assert (counts >= 0).all()
    assert np.abs(counts - total * shares).max() < 1 + 1e-6


@pytest.mark.parametrize(
    ("maker", "arguments", "words"),
    [
        (clustered, {"sizes": ()}, "each of sizes=0 must"),
        (clustered, {"sizes": (3, 0)}, "each of sizes=0 must"),
        (clustered, {"sizes": (3, 2.5)}, "each of sizes=2.5 must be a whole"),
        (clustered, {"m": 0}, "m=0 must be"),
        (clustered, {"d": -1}, "d=-1 must be"),
        (clustered, {"sigma": -0.1}, "sigma=-0.1 must be"),
        (clustered, {"sigma": float("nan")}, "sigma=nan must be"),
        (clustered, {"p_in": 1.5}, "p_in is 1.5"),
        (clustered, {"p_out": "half"}, "p_out is 'half'"),
        (clustered, {"random_state": "x"}, "random_state is 'x'"),
        (mixture, {"n": 0}, "n=0 must be"),
        (mixture, {"K": 0}, "K=0 must be"),
        (mixture, {"m_pub": 0}, "m_pub=0 must be"),
        (mixture, {"m_val": -1}, "m_val=-1 must be"),
    ],
)
def test_bad_arguments_are_named(maker, arguments, words):
    with pytest.raises(FedRelaxError, match=words):
        maker(**arguments)
