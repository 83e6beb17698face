"""Which engine is taken, and why not the linear one."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression, Ridge
from sklearn.tree import DecisionTreeRegressor

from fedrelax import FedRelax, FedRelaxClassifier, FedRelaxRegressor, Graph, LinearModel, Network
from fedrelax.baselines.objectives import unsupported_reason
from fedrelax.engines import LinearEngine
from fedrelax.engines.linear.network import FittedLinear
from fedrelax.errors import FedRelaxError
from fedrelax.runtime import Distillation
from fedrelax.solvers import GradientFedRelax
from tests.conftest import classification_network, refused, regression_network


def network_of(model) -> Network:
    """Five nodes; number 3 has the odd model."""
    return regression_network(
        np.random.default_rng(0), lambda i: model if i == 3 else LinearRegression()
    )


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (DecisionTreeRegressor(), "DecisionTreeRegressor is not LinearRegression, Ridge or"),
        (Lasso(), "Lasso is not"),
        (LinearRegression(positive=True), "LinearRegression has positive=True"),
        (LinearRegression(fit_intercept=False), "fit_intercept=False and node 0 has"),
        (Ridge(positive=True), "Ridge has positive=True"),
        (Ridge(solver="sag"), "Ridge has solver='sag', which stops at its own tolerance"),
        (Ridge(alpha=np.ones(3)), "not one number"),
        (LinearModel(loss="huber"), "LinearModel has loss='huber'"),
        (LinearModel(ridge=-1.0), "LinearModel has ridge=-1.0"),
    ],
)
def test_a_model_that_needs_the_general_path_is_named_with_its_node(model, reason):
    network = network_of(model)
    found = refused("linear", network, FedRelax())
    assert found is not None and found.startswith("node 3") and reason in found
    with pytest.raises(FedRelaxError, match="node 3.*use engine='auto'"):
        FedRelax(engine="linear").solve(network)
    assert LinearEngine.unsupported_reason(network, FedRelax()) == found
    assert not FedRelax().settles(network)
    assert unsupported_reason(network) == found
    with pytest.raises(FedRelaxError, match="node 3"):
        GradientFedRelax().solve(network)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"loss": "absolute"}, "loss='absolute' is not squared"),
        ({"loss": "squared", "discrepancy": "huber"}, "discrepancy='huber' is not squared"),
        ({"distillation": Distillation()}, "distillation"),
        ({"order": "sequential"}, "order='simultaneous', not 'sequential'"),
        ({"weighting": "rows"}, "weighting='mean', not 'rows'"),
        ({"first_exchange": "zeros"}, "first_exchange='models', not 'zeros'"),
    ],
)
def test_settings_that_need_the_general_path(settings, reason):
    network = regression_network(np.random.default_rng(0), LinearModel())
    assert reason in refused("linear", network, FedRelax(**settings))
    assert FedRelax(engine="auto", rounds=1, **settings).solve(network).engine == "sites"
    with pytest.raises(FedRelaxError, match=reason):
        FedRelax(engine="linear", **settings).solve(network)


def test_a_subclass_and_an_adapter_of_its_own_take_the_general_path():
    class MyRidge(Ridge):
        pass

    assert "MyRidge is not" in refused("linear", network_of(MyRidge()), FedRelax())


@pytest.mark.parametrize("rows", [2, 9])
def test_weights_that_own_rows_leave_open_are_those_of_the_model_itself(rows):
    rng = np.random.default_rng(0)
    network = Network(Graph.from_edges([("a", "b")]), public=rng.normal(size=(9, 4)))
    X = rng.normal(size=(rows, 4))
    X[:, 1] = X[:, 0] + 3e-7 * X[:, 1]
    network.add("a", X, rng.normal(size=rows), LinearModel())
    network.add("b", rng.normal(size=(9, 4)), rng.normal(size=9), LinearRegression())
    linear, general = (
        FedRelax(engine=engine, rounds=2, tol=0.0).solve(network) for engine in ("linear", "sites")
    )
    assert np.array_equal(linear.alone["a"].estimator.coef_, general.alone["a"].estimator.coef_)
    for label in "ab":
        found, wanted = linear.models[label].coef_, general.models[label].coef_
        np.testing.assert_allclose(found, wanted, rtol=1e-8)


def test_weights_that_neighbours_leave_open_take_the_general_path():
    rng = np.random.default_rng(0)
    network = Network(Graph.from_edges([("a", "b")]), public=rng.normal(size=(2, 4)))
    network.add("a", rng.normal(size=(2, 4)), rng.normal(size=2), LinearRegression())
    network.add("b", rng.normal(size=(9, 4)), rng.normal(size=9), LinearRegression())
    reason = refused("linear", network, FedRelax())
    assert reason.startswith("node 'a'") and "barely determine a weight" in reason
    assert FedRelax(engine="auto", rounds=1).solve(network).engine == "sites"


def rows_of(n: int = 4, rows: int = 8) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n * rows, 3))
    return X, X @ [1.0, 2.0, 0.5] + rng.normal(size=n * rows), np.repeat(np.arange(n), rows)


def test_estimators_take_the_linear_engine_on_their_own():
    X, y, nodes = rows_of()
    fits = {
        engine: FedRelaxRegressor(
            alpha=0.3, rounds=200, solver=FedRelax(engine=engine, tol=1e-6)
        ).fit(X, y, nodes)
        for engine in ("auto", "sites")
    }
    assert fits["auto"].result_.engine == "linear"
    assert isinstance(fits["auto"].result_.local_models[0], FittedLinear)
    assert fits["sites"].result_.engine == "sites"
    gap = np.abs(fits["auto"].predict(X, nodes) - fits["sites"].predict(X, nodes)).max()
    assert gap < 1e-10
    assert fits["auto"].history_["change"] == pytest.approx(fits["sites"].history_["change"])
    straight = FedRelaxRegressor(alpha=0.3).fit(X, y, nodes)
    assert straight.result_.engine == "linear" and len(straight.history_) == 2
    assert np.abs(straight.predict(X, nodes) - fits["sites"].predict(X, nodes)).max() < 1e-5


def test_estimators_take_the_general_path_for_other_models_and_say_so_when_forced():
    X, y, nodes = rows_of()
    models = {0: Ridge(), 1: DecisionTreeRegressor(), 2: Ridge(), 3: LinearRegression()}
    fit = FedRelaxRegressor(models, rounds=2, alpha=0.1).fit(X, y, nodes)
    assert fit.result_.engine == "sites"
    with pytest.raises(FedRelaxError, match="node 1: DecisionTreeRegressor"):
        FedRelaxRegressor(models, solver=FedRelax(engine="linear"), alpha=0.1).fit(X, y, nodes)
    with pytest.raises(
        FedRelaxError, match="engine='fast' must be one of auto, linear, softmax, sites"
    ):
        FedRelaxRegressor(solver=FedRelax(engine="fast"), alpha=0.1).fit(X, y, nodes)
    labels = np.where(y > 0, "up", "down")
    with pytest.raises(FedRelaxError, match="the task is classification"):
        FedRelaxClassifier(solver=FedRelax(engine="linear"), alpha=0.1).fit(X, labels, nodes)


def test_classification_is_refused_by_gradient_steps():
    network = classification_network(np.random.default_rng(0), LogisticRegression())
    with pytest.raises(FedRelaxError, match="the task is classification"):
        GradientFedRelax().solve(network)


def test_wrong_settings_read_the_same_on_both_paths():
    network = regression_network(np.random.default_rng(0), Ridge())
    for wrong in (
        {"alpha": -1.0},
        {"alpha": "much"},
        {"rounds": 1.5},
        {"order": "random"},
        {"patience": 3},
    ):
        said = []
        for engine in ("sites", "auto", "linear"):
            with pytest.raises(FedRelaxError) as error:
                FedRelax(engine=engine, **wrong).solve(network)
            said.append(str(error.value))
        assert said[0] == said[1] == said[2]
