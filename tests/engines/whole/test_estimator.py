"""``estimator="auto"``: model, penalty, coupling, level and curves found from the rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline

from fedrelax import Callback, FedRelaxClassifier, FedRelaxError, FedRelaxRegressor, Graph
from fedrelax.baselines import Alone
from fedrelax.comparison import compare_ways
from fedrelax.models import SoftmaxModel
from fedrelax.models.curves import CurveColumns
from fedrelax.report import report_data, report_html
from fedrelax.report.data.report_data import candidates_of_choice
from fedrelax.solvers import WholeNetwork
from fedrelax.splits import TEST_STREAM, group_rows, training_mask
from fedrelax.storage import load_result, read_result, save_result

N = 12


def table(bend=0.0, seed=0, rows=6):
    """Nodes of very unlike levels and one slope, perhaps with a bend."""
    rng = np.random.default_rng(seed)
    nodes, X = np.repeat(np.arange(N), rows), rng.normal(size=(N * rows, 2))
    y = X[:, 0] + bend * X[:, 1] ** 2 + 7.0 * nodes + 0.3 * rng.normal(size=len(X))
    return X, y, nodes


def error(model, bend):
    X, y, nodes = table(bend, seed=1, rows=40)
    noise = np.sqrt(np.mean((model.predict(X, nodes) - y) ** 2))
    return float(noise)


@pytest.mark.parametrize("bend", [0.0, 1.0])
def test_it_comes_near_the_noise_where_a_fixed_penalty_does_not(bend):
    X, y, nodes = table(bend)
    found = FedRelaxRegressor().fit(X, y, nodes=nodes)
    assert error(found, bend) < (0.65 if bend else 0.4)  # the noise has 0.3
    usual = FedRelaxRegressor(Ridge(), level=1.0).fit(X, y, nodes=nodes)
    assert error(found, bend) < 0.85 * error(usual, bend)
    kind = Pipeline if bend else Ridge
    assert all(type(model) is kind for model in found.models_.values())
    assert found.result_.engine == "whole" and found.alpha_ > 0
    assert found.choice_.alphas[0] == 0.0 and "held-out rows" in found.choice_.reason


def test_the_report_marks_the_one_that_was_chosen(tmp_path):
    X, y, nodes = table()
    model = FedRelaxRegressor().fit(X, y, nodes=nodes)
    assert model.level_ < 1
    save_result(tmp_path / "r", model)
    for shown in (
        candidates_of_choice(model.choice_),
        report_data(read_result(tmp_path / "r")).candidates,
    ):
        assert [one.alpha for one in shown if one.chosen] == [pytest.approx(model.alpha_)]


def test_callbacks_history_and_alone():
    heard = []

    class Listener(Callback):
        def begin(self, rounds, n_nodes):
            heard.append("begin")

        def after_round(self, record):
            heard.append(record.round)

        def end(self, outcome):
            heard.append("end")

    X, y, nodes = table()
    model = FedRelaxRegressor("auto", alpha="auto", callbacks=[Listener()]).fit(X, y, nodes=nodes)
    assert heard == ["begin", 0, 1, "end"]
    own = nodes == 3
    alone = model.result_.alone[3].predict(X[own])[:, 0]
    assert model.history_.records[0].node_local_loss[3] == pytest.approx(
        np.mean((alone - y[own]) ** 2)
    )
    P = np.random.default_rng(0).normal(size=(5, 2))
    assert model.result_.local_models[3].predict(P)[:, 0] == pytest.approx(
        model.models_[3].predict(P)
    )


def test_classes():
    X, y, nodes = table(rows=12)
    labels = np.where(X[:, 0] + 0.3 * np.sin(9 * y) > 0, "up", "down")
    model = FedRelaxClassifier().fit(X, labels, nodes=nodes)
    assert all(type(one) is LogisticRegression for one in model.models_.values())
    assert model.score(X, labels, nodes=nodes) > 0.85
    assert model.predict_proba(X[:4], nodes[:4]).sum(axis=1) == pytest.approx(1.0)
    assert set(model.classes_) == {"up", "down"}


@pytest.mark.parametrize("bend", [0.0, 1.0])
def test_it_is_saved_loaded_and_its_report_says_what_left(tmp_path, bend):
    X, y, nodes = table(bend)
    model = FedRelaxRegressor().fit(X, y, nodes=nodes)
    save_result(tmp_path / "r", model)
    again = load_result(tmp_path / "r")
    np.testing.assert_array_equal(again.predict(X, nodes), model.predict(X, nodes))
    page = report_html(read_result(tmp_path / "r"))
    assert "sums over its rows" in page and "no message contains any of them" not in page


def test_where_it_does_not_serve_the_usual_model_is_taken():
    X, y, nodes = table()
    model = FedRelaxRegressor("auto", alpha=0.1).fit(X, y, nodes=nodes)
    assert model.result_.engine == "linear" and type(model.models_[0]) is Ridge
    ring = Graph.from_edges([(i, (i + 1) % N) for i in range(N)])
    labels = np.where(X[:, 0] > 0, "up", "down")
    rows = {i: np.flatnonzero(nodes == i) for i in range(N)}
    network = FedRelaxClassifier(graph=ring, alpha=0.1).network_of(X, labels, rows, {})
    with pytest.raises(FedRelaxError, match="does not join all nodes alike"):
        WholeNetwork().solve(network)


def test_a_graph_too_large_to_factorise_is_refused_in_a_sentence(monkeypatch):
    X, y, nodes = table()
    ring = Graph.from_edges([(i, (i + 1) % N) for i in range(N)])
    rows = {i: np.flatnonzero(nodes == i) for i in range(N)}
    network = FedRelaxRegressor(graph=ring).network_of(X, y, rows, {})
    assert WholeNetwork.unsupported_reason(network) is None
    monkeypatch.setattr("fedrelax.solvers.whole.OPERATIONS", 10.0)
    assert "takes too long" in WholeNetwork.unsupported_reason(network)
    monkeypatch.setattr("fedrelax.solvers.whole.NODES", 10)
    assert "12 nodes are more than 10" in WholeNetwork.unsupported_reason(network)


def test_classes_on_a_graph_have_the_penalty_found_and_exchange_predictions(tmp_path):
    X, y, nodes = table(rows=8)
    labels = np.where(X[:, 0] + 0.3 * np.sin(9 * y) > 0, "up", "down")
    ring = Graph.from_edges([(i, (i + 1) % N) for i in range(N)])
    model = FedRelaxClassifier(graph=ring, random_state=3, quick=True)
    found = compare_ways(model, X, labels, nodes, ways=[Alone()], splits=2, seed=3)
    rng = np.random.default_rng([3, TEST_STREAM])
    mask = training_mask(group_rows(nodes, len(X)), 0.2, rng)
    model.fit(X[mask], labels[mask], nodes=nodes[mask])
    assert model.result_.engine == "softmax" and type(model.models_[0]) is SoftmaxModel
    assert model.models_[0].ridge == model.plan_.model.ridge > 0
    error = 1 - model.score(X[~mask], labels[~mask], nodes=nodes[~mask])
    assert found.errors[0, found.ways.index("together")] == pytest.approx(error)
    save_result(tmp_path / "r", model)
    page = report_html(read_result(tmp_path / "r"))
    assert "sums over its rows" in page and "Predictions on" in page


def test_curves_of_columns_are_a_transformer_of_scikit_learn():
    X = np.random.default_rng(0).normal(size=(50, 2))
    columns = CurveColumns().fit(X)
    assert columns.transform(X).shape == (50, 10)
    far = columns.transform(np.full((1, 2), 1e6))[:, 2:]
    edge = columns.transform(X.max(axis=0, keepdims=True))[:, 2:]
    np.testing.assert_allclose(far, edge)


def test_compare_measures_what_fit_gives():
    X, y, nodes = table(rows=10)
    model = FedRelaxRegressor(random_state=3)
    found = compare_ways(model, X, y, nodes, ways=[Alone()], splits=2, seed=3)
    rng = np.random.default_rng([3, TEST_STREAM])
    mask = training_mask(group_rows(nodes, len(X)), 0.2, rng)
    fitted = model.fit(X[mask], y[mask], nodes=nodes[mask])
    error = np.sqrt(np.mean((fitted.predict(X[~mask], nodes[~mask]) - y[~mask]) ** 2))
    assert found.errors[0, found.ways.index("together")] == pytest.approx(error)
