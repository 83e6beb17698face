"""A discrepancy that depends on x: L(x, h_i(x), h_j(x)) = w(x) L(h_i(x), h_j(x))."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from fedrelax import FedRelax, FedRelaxError, FedRelaxRegressor, Graph, LinearModel, Network
from fedrelax.losses import Log, Squared, Weighted
from fedrelax.solvers.base import identity_of
from fedrelax.storage import load_result, save_result
from tests.conftest import classification_network, regression_network


def right(X):
    return (X[:, 0] > 0).astype(float)


@pytest.mark.parametrize("common", [True, False], ids=["common", "per-node"])
@pytest.mark.parametrize("model", [LinearRegression(), LinearModel()])
def test_a_weight_of_two_is_the_row_twice(model, common):
    """w(x) in {1, 2} with m rows is a mean over the rows with copies, but for the number of rows."""

    def twice(X):
        return 1.0 + right(X)

    def with_copies(rows):
        return np.concatenate([rows, rows[rows[:, 0] > 0]])

    given = regression_network(np.random.default_rng(0), model, n=4, d=2, common=common)
    public = given.public
    copied = Network(given.graph, public=with_copies(public.common) if common else None)
    for i, node in given.nodes.items():
        own = {} if common else {"public": with_copies(public.of(i))}
        copied.add(i, node.X, node.y, model, **own)
    settings = {"engine": "sites", "alpha": 0.3, "rounds": 3, "tol": 0.0, "weighting": "rows"}
    first = FedRelax(discrepancy=Weighted(Squared(), twice), **settings).solve(given)
    second = FedRelax(**settings).solve(copied)
    X = np.random.default_rng(1).normal(size=(20, 2))
    for i in given.nodes:
        assert first.models[i].predict(X) == pytest.approx(second.models[i].predict(X), abs=1e-8)


def test_nodes_agree_only_where_the_weight_is():
    rng = np.random.default_rng(0)
    network = Network(Graph.complete(["low", "high"]), public=rng.uniform(-1, 1, size=(400, 1)))
    X = np.linspace(-1, 1, 40)[:, None]
    for name, level in (("low", 0.0), ("high", 1.0)):
        network.add(name, X, np.full(40, level), DecisionTreeRegressor(max_depth=1))
    solver = FedRelax(alpha=10.0, rounds=60, tol=0.0, discrepancy=Weighted(Squared(), right))
    models = solver.solve(network).models
    gap = models["high"].predict(X) - models["low"].predict(X)
    assert (np.abs(gap[X[:, 0] > 0.1]) < 0.2).all()
    assert (gap[X[:, 0] < -0.1] > 0.8).all()


def test_history_holds_the_weighted_discrepancy():
    network = regression_network(np.random.default_rng(1), LinearRegression(), n=3, d=2)
    result = FedRelax(alpha=0.0, rounds=1, discrepancy=Weighted(Squared(), right)).solve(network)
    rows, total = network.public.common, 0.0
    for i in network.nodes:
        for j, a in network.graph.neighbours(i).items():
            apart = result.models[i].predict(rows) - result.models[j].predict(rows)
            total += a * float(np.mean(right(rows) * apart**2))
    assert result.history.records[-1].gtv == pytest.approx(total)


def test_classes_are_weighted_too():
    network = classification_network(np.random.default_rng(2), DecisionTreeClassifier(max_depth=3))
    plain = FedRelax(engine="sites", alpha=0.5, rounds=2).solve(network)
    ones = Weighted(Log(), lambda X: np.ones(len(X)))
    same = FedRelax(alpha=0.5, rounds=2, discrepancy=ones).solve(network)
    other = FedRelax(alpha=0.5, rounds=2, discrepancy=Weighted(Log(), right)).solve(network)
    rows = network.public.common
    answers = [
        [model.predict_proba(rows) for model in result.models.values()]
        for result in (plain, same, other)
    ]
    assert np.array_equal(answers[0], answers[1])
    assert not np.array_equal(answers[0], answers[2])


def table():
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 2)), rng.normal(size=60), np.repeat(["a", "b", "c"], 20)


def test_a_result_is_saved_and_says_what_it_minimised(tmp_path):
    X, y, nodes = table()
    solver = FedRelax(discrepancy=Weighted(Squared(), right))
    model = FedRelaxRegressor(LinearModel(), alpha=0.5, rounds=3, solver=solver)
    model.fit(X, y, nodes=nodes)
    assert model.result_.losses == ("squared", "weighted squared")
    save_result(tmp_path / "result", model)
    again = load_result(tmp_path / "result")
    assert np.array_equal(again.predict(X, nodes=nodes), model.predict(X, nodes=nodes))
    with pytest.raises(FedRelaxError, match="a discrepancy that depends on x"):
        model.plug_in("d", X[:5], y[:5])


def test_what_does_not_go_together_is_refused_before_any_fit():
    network = regression_network(np.random.default_rng(0), LinearRegression())
    weighted = Weighted(Squared(), right)
    negative = Weighted(Squared(), lambda X: X[:, 0])
    for settings, sentence in (
        ({"discrepancy": weighted, "level": 0.5}, "use level=1"),
        ({"discrepancy": weighted, "engine": "linear"}, "weighted squared"),
        ({"loss": weighted}, "pass it as discrepancy="),
        ({"discrepancy": negative}, "finite weights of at least 0"),
        ({"discrepancy": weighted, "loss": "huber"}, "two losses by gradients"),
    ):
        with pytest.raises(FedRelaxError, match=sentence):
            FedRelax(alpha=0.5, **settings).solve(network)


@pytest.mark.parametrize("common", [True, False], ids=["common", "per-node"])
def test_a_checkpoint_belongs_to_one_function_of_x(common):
    """Two lambdas look alike as texts; a run must not go on with the other one's weights."""
    network = regression_network(np.random.default_rng(0), LinearRegression(), common=common)
    one, same, other = (
        identity_of(network, FedRelax(discrepancy=Weighted(Squared(), by)))
        for by in (lambda X: X[:, 0] > 0, lambda X: X[:, 0] > 0, lambda X: X[:, 0] < 0)
    )
    assert one == same
    assert {name for name in one if one[name] != other[name]} == {"settings"}
