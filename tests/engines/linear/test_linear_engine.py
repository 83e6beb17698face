"""The linear engine and the general path are the same algorithm: every number of every round."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, Ridge

from fedrelax import FedRelax, LinearModel, Network
from fedrelax.engines.linear.network import FittedLinear
from tests.conftest import random_graph, refused, regression_network

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
    general = FedRelax(engine="sites", **options).solve(network)
    return general, FedRelax(engine="linear", **options).solve(network)


def assert_same(general, linear, rtol: float = 1e-9) -> None:
    assert linear.engine == "linear" and general.engine == "sites"
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


@pytest.mark.slow
@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    kinds=st.sampled_from(["plain", "ridge", "ours", "penalised", "mixed"]),
    intercept=st.booleans(),
    outputs=st.integers(1, 3),
    common=st.booleans(),
    alpha=st.sampled_from([0.0, 0.05, 0.5, 3.0]),
    objective=st.sampled_from(["paper", "gtvmin"]),
    damping=st.sampled_from([0.0, 0.3]),
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


def well_posed(seed: int = 0, **options) -> Network:
    usual = {"kinds": "mixed", "intercept": True, "outputs": 1, "common": True, "least_rows": 6}
    return linear_network(seed, **(usual | options))


@pytest.mark.parametrize("common", [True, False], ids=["common set", "a set per node"])
def test_stops_at_the_same_round_when_predictions_rest(common):
    network = well_posed(3, common=common)
    general, linear = both(network, alpha=0.3, rounds=500, tol=1e-6)
    assert general.reason == "predictions converged" and general.n_rounds > 3
    assert_same(general, linear)


@pytest.mark.parametrize("damping", [0.0, 0.4])
def test_patience_goes_back_to_the_best_round(damping):
    found = set()
    for seed in range(8):
        network = well_posed(seed)
        general, linear = both(network, alpha=2.0, rounds=40, tol=0.0, patience=2, damping=damping)
        assert_same(general, linear)
        found.add(general.n_rounds < len(general.history) - 1)
    assert True in found


def test_near_consensus_gtv_keeps_its_digits():
    """Neighbours that differ by a millionth of what they predict."""
    for common in (True, False):
        network = well_posed(5, common=common, kinds="plain", m_pub=30)
        general, linear = both(network, alpha=1e4, rounds=30, tol=0.0, damping=0.3)
        assert general.history["gtv"][-1] < 1e-4 * general.history["gtv"][0]
        np.testing.assert_allclose(linear.history["gtv"], general.history["gtv"], rtol=1e-6)


def unlike_features(size, away, model) -> tuple[Network, np.ndarray]:
    rng = np.random.default_rng(0)
    network = Network(random_graph(rng, 5), public=rng.normal(size=(20, 3)) * size + away)
    for label in range(5):
        X = rng.normal(size=(9, 3))
        y = X @ [1.0, 2.0, 3.0] + rng.normal(size=9)
        network.add(label, X * size + away, y, model)
    return network, rng.normal(size=(20, 3)) * size + away


@pytest.mark.parametrize("model", [LinearRegression(), Ridge(), LinearModel()])
def test_features_far_from_zero_and_of_unlike_size_lose_no_digits(model):
    network, X = unlike_features([0.01, 1.0, 100.0], [1.0, 2000.0, -1e5], model)
    general, linear = both(network, alpha=0.4, rounds=10, tol=0.0)
    for label, other in general.models.items():
        assert np.abs(linear.models[label].predict(X) - other.predict(X)).max() < 1e-8


def test_features_that_linear_regression_takes_for_constant_need_the_general_path():
    """Its solver drops directions with less than ``tol`` of the most spread."""
    network, _ = unlike_features([1e-5, 1.0, 1e4], [0.0, 0.0, 0.0], LinearRegression())
    reason = refused("linear", network, FedRelax())
    assert reason is not None and "differ too much in scale" in reason
    network, X = unlike_features([1e-5, 1.0, 1e4], [0.0, 0.0, 0.0], Ridge(1e-3))
    general, linear = both(network, alpha=0.4, rounds=10, tol=0.0)
    for label, other in general.models.items():
        assert np.abs(linear.models[label].predict(X) - other.predict(X)).max() < 1e-10


def test_stopping_by_a_callback_and_what_callbacks_see():
    from fedrelax.runtime import Callback

    class Watch(Callback):
        def __init__(self):
            self.seen = []

        def begin(self, rounds, n_nodes):
            self.seen.append((rounds, n_nodes))

        def after_round(self, record):
            self.seen.append(record.round)
            return record.round == 2

        def end(self, outcome):
            self.seen.append(outcome.reason)

    network, seen = well_posed(), []
    for engine in ("sites", "linear"):
        watch = Watch()
        FedRelax(alpha=0.3, rounds=9, tol=0.0, engine=engine).solve(network, [watch])
        seen.append(watch.seen)
    assert seen[0] == seen[1] == [(9, 6), 0, 1, 2, "stopped by a callback"]


@pytest.mark.parametrize("kind", ["plain", "ridge", "ours", "penalised"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("outputs", [1, 2])
def test_models_are_the_nodes_own_kind_as_their_fit_leaves_them(kind, intercept, outputs):
    import pickle

    from sklearn.base import clone

    network = well_posed(kinds=kind, intercept=intercept, outputs=outputs)
    general, linear = both(network, alpha=0.3, rounds=2, tol=0.0)
    X = np.random.default_rng(1).normal(size=(5, 3))
    for node in network:
        ours, theirs = linear.models[node.label], general.models[node.label]
        assert type(ours) is type(node.model) and ours is not node.model
        assert ours.get_params() == node.model.get_params()
        for name in ("coef_", "intercept_", "n_features_in_"):
            assert np.shape(getattr(ours, name)) == np.shape(getattr(theirs, name))
            assert type(getattr(ours, name)) is type(getattr(theirs, name))
        missing = vars(theirs).keys() - vars(ours).keys()
        assert missing <= {"rank_", "singular_"}  # of the last design matrix, which is never formed
        assert np.shape(ours.predict(X)) == np.shape(theirs.predict(X))
        assert not hasattr(clone(ours), "coef_") and not hasattr(node.model, "coef_")
        copied = pickle.loads(pickle.dumps(linear)).models[node.label]
        assert np.array_equal(copied.predict(X), ours.predict(X))


def test_a_fitted_model_can_be_trained_on():
    from fedrelax.losses import Squared
    from fedrelax.models import Rows

    network = well_posed()
    linear = FedRelax(engine="linear").solve(network)
    node = network.nodes[0]
    local = linear.local_models[0]
    assert isinstance(local, FittedLinear) and local.name == "LinearRegression"
    rows = Rows(node.X, node.y[:, None], np.ones(len(node.y)), Squared())
    again = local.fit([rows], seed=0)
    assert np.allclose(again.predict(node.X), linear.alone[0].predict(node.X))


def test_one_node_without_edges_learns_alone():
    network = regression_network(np.random.default_rng(0), Ridge(), n=1)
    assert_same(*both(network, alpha=1.0, rounds=3))
