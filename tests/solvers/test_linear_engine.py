"""The linear engine and the general path are the same algorithm: every number of every round."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import random_graph, regression_network
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, Ridge

from fedrelax import FedRelax, LinearModel, Network
from fedrelax.solvers import LinearFedRelax
from fedrelax.solvers.linear_models import FittedLinear

QUANTITIES = ("local_loss", "gtv", "objective", "validation_loss", "change")
PER_NODE = ("node_local_loss", "node_gtv", "node_validation_loss")


def models_of(kinds: str, intercept: bool, rng: np.random.Generator):
    """Return a function of the node's number."""
    ridge = rng.uniform(0.1, 3.0, 100)
    every = {
        "plain": lambda i: LinearRegression(fit_intercept=intercept),
        "ridge": lambda i: Ridge(ridge[i], fit_intercept=intercept),
        "ours": lambda i: LinearModel(fit_intercept=intercept),
        "penalised": lambda i: LinearModel(ridge=ridge[i], fit_intercept=intercept),
    }
    if kinds == "mixed":
        return lambda i: list(every.values())[i % 4](i)
    return every[kinds]


def linear_network(
    seed: int,
    *,
    kinds: str,
    intercept: bool,
    outputs: int,
    common: bool,
    least_rows: int = 1,
    n: int = 6,
    d: int = 3,
    validation: bool = True,
    m_pub: int = 8,
) -> Network:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, n, connected=False)
    model = models_of(kinds, intercept, rng)
    shift, scale = rng.normal(size=d) * 2, rng.uniform(0.3, 3.0, d)
    network = Network(graph, public=rng.normal(size=(m_pub, d)) * scale + shift if common else None)
    truth = rng.normal(size=(d, outputs))

    def rows(count: int) -> tuple[np.ndarray, np.ndarray]:
        X = rng.normal(size=(count, d)) * scale + shift
        y = X @ (truth + 0.3 * rng.normal(size=truth.shape)) + rng.normal(size=(count, outputs)) + 1
        return X, y[:, 0] if outputs == 1 else y

    for i, label in enumerate(graph.labels):
        X, y = rows(int(rng.integers(least_rows, 12)))
        public = None if common else rng.normal(size=(m_pub + i, d)) * scale + shift
        held = rows(int(rng.integers(1, 5))) if validation and i % 3 else None
        network.add(label, X, y, model(i), public=public, validation=held)
    return network


def both(network: Network, **options):
    general = FedRelax(**options).solve(network)
    return general, LinearFedRelax(**options).solve(network)


def assert_same(general, linear, rtol: float = 1e-9) -> None:
    assert linear.engine == "linear" and general.engine == "general"
    assert (linear.n_rounds, linear.reason) == (general.n_rounds, general.reason)
    assert linear.graph == general.graph and linear.history.labels == general.history.labels
    size = max(1.0, float(np.abs(general.history["local_loss"]).max()))
    for name in QUANTITIES + PER_NODE:
        found, expected = linear.history[name], general.history[name]
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-13 * size, err_msg=name)
    d = next(iter(linear.models.values())).n_features_in_
    X = np.random.default_rng(99).normal(size=(40, d))
    for kept in ("local_models", "alone"):
        for label, expected in getattr(general, kept).items():
            found = getattr(linear, kept)[label]
            want = expected.predict(X)
            gap = np.abs(found.predict(X) - want).max()
            assert gap <= 1e-10 * max(1.0, np.abs(want).max())
            assert np.array_equal(found.estimator.predict(X).reshape(want.shape), found.predict(X))
    assert list(linear.discrepancies) == list(general.discrepancies)
    np.testing.assert_allclose(
        list(linear.discrepancies.values()),
        list(general.discrepancies.values()),
        rtol=rtol,
        atol=1e-13 * size,
    )


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    kinds=st.sampled_from(["plain", "ridge", "ours", "penalised", "mixed"]),
    intercept=st.booleans(),
    outputs=st.integers(1, 3),
    common=st.booleans(),
    alpha=st.sampled_from([0.0, 0.05, 0.5, 3.0]),
    objective=st.sampled_from(["paper", "gtvmin"]),
    order=st.sampled_from(["simultaneous", "sequential"]),
    damping=st.sampled_from([0.0, 0.3]),
    weighting=st.sampled_from(["mean", "rows"]),
    first_exchange=st.sampled_from(["models", "zeros"]),
)
def test_identical_to_the_general_path_in_every_round(
    seed, kinds, intercept, outputs, common, **options
):
    network = linear_network(
        seed,
        kinds=kinds,
        intercept=intercept,
        outputs=outputs,
        common=common,
        least_rows=6 if kinds == "mixed" else 1,
    )
    assert_same(*both(network, rounds=6, tol=0.0, **options))
