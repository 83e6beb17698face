"""Softmax models all at once and node by node are the same algorithm: every number of every round."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from fedrelax import FedRelax, FedRelaxClassifier, Graph, Network
from fedrelax.errors import FedRelaxError
from fedrelax.models import SoftmaxModel
from fedrelax.runtime import Callback, Distillation
from tests.conftest import refused

QUANTITIES = ("local_loss", "gtv", "objective", "validation_loss", "change")
PER_NODE = ("node_local_loss", "node_gtv", "node_validation_loss")
NAMES = np.array(["ash", "birch", "cedar", "elm"])


def softmax_network(
    seed: int,
    n: int = 4,
    k: int = 3,
    d: int = 2,
    intercept: bool = True,
    validation: bool = False,
    model=None,
    common: bool = True,
) -> Network:
    """Ragged rows and unlike ridges; the last node is isolated, node 0 lacks the last class."""
    rng = np.random.default_rng(seed)
    A = np.triu(rng.uniform(0.2, 2.0, (n, n)) * (rng.random((n, n)) < 0.7), 1)
    A[:, -1] = 0.0
    public = rng.normal(size=(11, d))
    graph = Graph.from_matrix(A + A.T)
    network = Network(graph, "classification", public=public if common else None)
    rule = 2 * rng.normal(size=(d, k))
    for i, label in enumerate(graph.labels):
        rows = int(rng.integers(k, 15))
        X = rng.normal(size=(rows, d))
        codes = (X @ rule + rng.gumbel(size=(rows, k))).argmax(axis=1)
        codes[:k] = np.arange(k)
        if i == 0:
            codes = np.minimum(codes, k - 2)
        held = None
        if validation and i != 1:
            held = rng.normal(size=(4 + i, d)), NAMES[rng.integers(0, k, 4 + i)]
        ours = SoftmaxModel(ridge=float(10 ** rng.uniform(-3, 0)), fit_intercept=intercept)
        chosen = ours if model is None or i != 1 else model
        own = None if common else public + i
        network.add(label, X, NAMES[codes], chosen, validation=held, public=own)
    return network


def answers(result, models, X) -> np.ndarray:
    return np.stack([models[label].predict(X) for label in result.graph.labels])


def assert_same(network: Network, rounds: int = 3, tol: float = 0.0, **choices) -> None:
    """Compare both engines after every number of rounds."""
    X = np.random.default_rng(1).normal(size=(9, next(iter(network)).X.shape[1]))
    for count in range(rounds + 1):
        chosen = FedRelax(rounds=count, tol=tol, **choices)
        slow = replace(chosen, engine="sites").solve(network)
        fast = replace(chosen, engine="softmax").solve(network)
        for kind in ("local_models", "alone"):
            gap = answers(slow, getattr(slow, kind), X) - answers(fast, getattr(fast, kind), X)
            assert np.abs(gap).max() < 1e-6
    assert (slow.n_rounds, slow.reason) == (fast.n_rounds, fast.reason)
    for name in QUANTITIES + PER_NODE:
        expected = slow.history[name]
        np.testing.assert_allclose(fast.history[name], expected, rtol=1e-5, atol=1e-9, err_msg=name)
    assert set(fast.discrepancies) == set(slow.discrepancies)
    for edge, value in slow.discrepancies.items():
        assert fast.discrepancies[edge] == pytest.approx(value, rel=1e-5, abs=1e-9)


@settings(max_examples=10)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(2, 5),
    k=st.integers(2, 4),
    d=st.integers(1, 3),
    intercept=st.booleans(),
    validation=st.booleans(),
    alpha=st.sampled_from([0.0, 0.05, 0.4, 5.0]),
    damping=st.sampled_from([0.0, 0.3]),
)
def test_every_round_is_the_same(seed, n, k, d, intercept, validation, alpha, damping):
    network = softmax_network(seed, n, k, d, intercept, validation)
    assert_same(network, alpha=alpha, damping=damping)


def test_small_groups_of_nodes_give_the_same(monkeypatch):
    monkeypatch.setattr("fedrelax.engines.softmax.nodes_at_once", lambda *sizes: 2)
    monkeypatch.setattr("fedrelax.engines.batch.AT_ONCE", 1)
    assert_same(softmax_network(5, n=5, validation=True), alpha=0.4)


def test_steps_that_do_not_help_end_the_search_alike(monkeypatch):
    monkeypatch.setattr("fedrelax.linear.softmax.HALVINGS", 0)
    assert_same(softmax_network(2), alpha=0.4)


def test_models_come_home_as_plain_estimators():
    network = softmax_network(0)
    result = FedRelax(engine="auto", rounds=2).solve(network)
    assert result.engine == "softmax"
    for node in network:
        model = result.models[node.label]
        assert type(model) is SoftmaxModel and model.ridge == node.model.ridge
        assert model.coef_.shape == (3, 2) and model.intercept_.shape == (3,)
        assert model.classes_.tolist() == NAMES[:3].tolist() and model.n_features_in_ == 2
        assert set(model.predict(node.X)) <= set(NAMES)
        assert not hasattr(node.model, "coef_")


def test_patience_keeps_the_best_round():
    network = softmax_network(3, validation=True)
    chosen = FedRelax(alpha=2.0, rounds=12, tol=0.0, patience=2)
    slow, fast = (replace(chosen, engine=engine).solve(network) for engine in ("sites", "auto"))
    assert fast.engine == "softmax" and slow.reason == "validation loss no longer improving"
    assert (fast.n_rounds, fast.reason) == (slow.n_rounds, slow.reason)
    X = np.random.default_rng(1).normal(size=(9, 2))
    assert (
        np.abs(answers(slow, slow.local_models, X) - answers(fast, fast.local_models, X)).max()
        < 1e-6
    )
    for edge, value in slow.discrepancies.items():
        assert fast.discrepancies[edge] == pytest.approx(value, rel=1e-5)


def test_the_estimator_takes_it_on_its_own():
    rng = np.random.default_rng(0)
    X, nodes = rng.normal(size=(60, 3)), np.repeat(np.arange(4), 15)
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=60) > 0, "up", "down")
    fits = {
        engine: FedRelaxClassifier(
            SoftmaxModel(ridge=0.1),
            alpha=0.3,
            rounds=8,
            validation_share=0.2,
            solver=FedRelax(patience=2, engine=engine),
        ).fit(X, y, nodes)
        for engine in ("auto", "softmax", "sites")
    }
    assert {engine: fit.result_.engine for engine, fit in fits.items()} == {
        "auto": "softmax",
        "softmax": "softmax",
        "sites": "sites",
    }
    assert fits["auto"].n_rounds_ == fits["sites"].n_rounds_
    gap = fits["auto"].predict_proba(X, nodes) - fits["sites"].predict_proba(X, nodes)
    assert np.abs(gap).max() < 1e-6
    for name in QUANTITIES:
        assert fits["auto"].history_[name] == pytest.approx(fits["sites"].history_[name], rel=1e-5)


def test_callbacks_see_every_round():
    class Count(Callback):
        seen = 0

        def after_round(self, record) -> bool:
            self.seen += 1
            return record.round == 2

    count = Count()
    result = FedRelax(engine="softmax", rounds=9, tol=0.0).solve(softmax_network(1), [count])
    assert (count.seen, result.reason) == (3, "stopped by a callback")


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (LogisticRegression(), "the task is classification, and LogisticRegression is not"),
        (SoftmaxModel(ridge=0.0), "node 1: SoftmaxModel has ridge=0.0, not one number above 0"),
        (
            SoftmaxModel(fit_intercept=False),
            "node 1 has fit_intercept=False and node 0 has fit_",
        ),
    ],
)
def test_a_model_that_needs_the_general_path_is_named(model, reason):
    network = softmax_network(0, model=model)
    assert reason in refused("softmax", network, FedRelax())
    assert FedRelax(engine="auto", rounds=1).solve(network).engine == "sites"
    with pytest.raises(FedRelaxError, match=f"{reason}.*use engine='auto'"):
        FedRelax(engine="softmax").solve(network)


@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        ({"loss": "squared"}, "loss='squared' is not log"),
        ({"distillation": Distillation(5)}, "distillation"),
        ({"order": "sequential"}, "order='simultaneous', not 'sequential'"),
        ({"weighting": "rows"}, "weighting='mean', not 'rows'"),
        ({"first_exchange": "zeros"}, "first_exchange='models', not 'zeros'"),
    ],
)
def test_settings_that_need_the_general_path(choices, reason):
    network = softmax_network(0)
    assert reason in refused("softmax", network, FedRelax(**choices))
    assert FedRelax(engine="auto", rounds=1, **choices).solve(network).engine == "sites"
    with pytest.raises(FedRelaxError, match=reason):
        FedRelax(engine="softmax", **choices).solve(network)


def test_own_public_sets_and_many_weights_take_the_general_path():
    assert "one common set" in refused("softmax", softmax_network(0, common=False), FedRelax())
    wide = softmax_network(0, d=200)
    assert (
        refused("softmax", wide, FedRelax()) == "node 0: its model has 603 weights, more than 600"
    )


def test_wrong_settings_read_the_same_on_both_paths():
    network = softmax_network(0)
    for wrong in ({"alpha": -1.0}, {"order": "random"}, {"loss": "logg"}, {"patience": 3}):
        said = set()
        for engine in ("sites", "auto", "softmax"):
            with pytest.raises(FedRelaxError) as error:
                FedRelax(engine=engine, **wrong).solve(network)
            said.add(str(error.value))
        assert len(said) == 1
    with pytest.raises(FedRelaxError, match="the task is regression"):
        numbers = Network(Graph.complete([0]), public=[[0.0]]).add(
            0, [[1.0]], [1.0], SoftmaxModel()
        )
        FedRelax(engine="softmax").solve(numbers)
