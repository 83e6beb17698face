"""What is measured on test rows, by which measure, and that one object goes from there to the page."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

from fedrelax import FedRelaxClassifier, FedRelaxError, FedRelaxRegressor
from fedrelax.comparison import compare_ways
from fedrelax.evaluation import MEASURES, Measure, evaluate, get_measure
from fedrelax.report import report_data, report_html
from fedrelax.storage import read_result, save_result


def rows(n=5, each=12, d=4):
    rng = np.random.default_rng(0)
    X, nodes = rng.normal(size=(n * each, d)), np.repeat(np.arange(n), each)
    return X, X.sum(axis=1) + 0.5 * rng.normal(size=len(X)), nodes


def halves(n=5, each=12):
    """Half of every node's rows train; the last node has no test rows."""
    X, y, nodes = rows(n, each)
    train = np.tile(np.arange(each) < each // 2, n)
    train[nodes == n - 1] = True
    return (X[train], y[train], nodes[train]), (X[~train], y[~train], nodes[~train])


def test_a_part_of_a_data_frame_is_measured_row_by_row():
    """Its targets keep the index of the whole frame, which says nothing about their places."""
    train, test = halves()
    model = FedRelaxRegressor(LinearRegression(), alpha=0.5).fit(*train[:2], nodes=train[2])
    far = [pd.Series(y, index=np.arange(len(y)) + 1000) for _, y, _ in (train, test)]
    found = evaluate(model, (train[0], far[0], train[2]), (test[0], far[1], test[2]))
    assert found.errors == evaluate(model, train, test).errors


def test_each_way_is_measured_on_the_test_rows():
    train, test = halves()
    model = FedRelaxRegressor(LinearRegression(), alpha=0.5).fit(*train[:2], nodes=train[2])
    found = evaluate(model, train, test)
    assert found.nodes["test_rows"].tolist() == [6, 6, 6, 6, 0]
    assert found.nodes["together"].isna().tolist() == [False] * 4 + [True]
    own, held = train[2] == 2, test[2] == 2
    alone = LinearRegression().fit(train[0][own], train[1][own])
    expected = np.sqrt(np.mean((alone.predict(test[0][held]) - test[1][held]) ** 2))
    assert found.nodes["alone"][2] == pytest.approx(expected)
    pooled = LinearRegression().fit(*train[:2]).predict(test[0])
    assert found.errors["pooled"] == pytest.approx(np.sqrt(np.mean((pooled - test[1]) ** 2)))


def test_boosting_is_compared_with_boosting():
    rng = np.random.default_rng(0)
    X, nodes = rng.uniform(-1, 1, size=(400, 2)), np.repeat(np.arange(5), 80)
    y = 10.0 * (X[:, 0] > 0.2) * (X[:, 1] < 0.3) + 0.1 * rng.normal(size=400)
    train = np.arange(400) % 2 == 0
    model = FedRelaxRegressor("auto", minutes=10, random_state=0)
    model.fit(X[train], y[train], nodes=nodes[train])
    assert "boosted differences" in model.choice_.reason
    found = evaluate(
        model, (X[train], y[train], nodes[train]), (X[~train], y[~train], nodes[~train])
    )
    rows = {i: np.flatnonzero(nodes[train] == i) for i in range(5)}
    alone, pooled = model.default_.references(model.network_of(X[train], y[train], rows, {}))
    own = nodes[~train] == 3
    left = alone[3].predict(X[~train][own]) - y[~train][own]
    assert "BoostedTrees" in repr(alone[3]) and "BoostedTrees" in repr(pooled)
    assert found.nodes["alone"][3] == pytest.approx(np.sqrt(np.mean(left**2)))
    assert found.errors["together"] < found.errors["alone"]


def test_wrong_labels_are_counted():
    X, y, nodes = rows(n=3, each=20)
    labels = np.where(y > 0, "up", "down")
    model = FedRelaxClassifier(alpha=0.5).fit(X, labels, nodes=nodes)
    found = evaluate(model, (X, labels, nodes), (X, labels, nodes))
    assert found.errors["together"] == pytest.approx(1 - model.score(X, labels, nodes=nodes))


def test_bad_input_is_a_sentence():
    train, test = halves()
    model = FedRelaxRegressor(LinearRegression(), alpha=0.5).fit(*train[:2], nodes=train[2])
    with pytest.raises(FedRelaxError, match="measure='RMS' must be one of RMSE.*did you mean"):
        evaluate(model, train, test, "RMS")
    with pytest.raises(FedRelaxError, match="'error rate' is for classification"):
        evaluate(model, train, test, "error rate")
    with pytest.raises(FedRelaxError, match="node 9 has test rows and no training rows"):
        evaluate(model, train, (*test[:2], np.full(len(test[1]), 9)))


class MAE(Measure):
    """The mean absolute difference: all that a new measure takes."""

    name, task = "MAE", "regression"

    def per_row(self, task, y, prediction):
        return np.abs(task.encode(y) - prediction).mean(axis=1)

    def axis(self, target):
        return f"mean absolute error (units of {target})"


def test_a_new_measure_needs_one_class(tmp_path, monkeypatch):
    """From the measurement over the files to the page, the tables and the comparison."""
    pytest.importorskip("plotly")
    monkeypatch.setitem(MEASURES, "MAE", MAE())
    train, test = halves()
    model = FedRelaxRegressor(LinearRegression(), alpha=0.5).fit(*train[:2], nodes=train[2])
    found = evaluate(model, train, test, "MAE")
    missed = np.abs(model.predict(test[0], nodes=test[2]) - test[1])
    assert found.errors["together"] == pytest.approx(missed.mean())
    saved = read_result(save_result(tmp_path / "out", model, evaluation=found, target="load"))
    again = report_data(saved).evaluation
    assert again.verdict == found.verdict and "the MAE" in again.verdict
    assert again.nodes["gain"].to_numpy() == pytest.approx(found.nodes["gain"], nan_ok=True)
    page = report_html(saved)
    assert "MAE together" in page and "mean absolute error (units of load)" in page
    compared = compare_ways(model, *rows(), ways=[], splits=2, measure="MAE")
    assert compared.to_dict()["measure"] == "MAE" and "MAE" in compared.advice


def test_the_files_use_the_words_of_the_page(tmp_path):
    train, test = halves()
    model = FedRelaxRegressor(LinearRegression(), alpha=0.5).fit(*train[:2], nodes=train[2])
    save_result(tmp_path / "out", model, evaluation=evaluate(model, train, test))
    metrics = json.loads((tmp_path / "out/metrics.json").read_text())
    assert list(metrics["errors"]) == ["alone", "pooled", "together"]
    head = (tmp_path / "out/nodes.csv").read_text().splitlines()[0]
    assert head == "node,model,rows,test_rows,alone,pooled,together,gain"


@pytest.mark.parametrize("name", list(MEASURES))
def test_numbers_are_written_with_their_unit(name):
    measure = get_measure(name, MEASURES[name].task)
    assert measure.show(float("nan")) == "-"
    assert measure.show(0.125).endswith(measure.unit)
    assert measure.gap(0.125).startswith("+") and measure.gap(0.125, sign="")[0].isdigit()
    low, high = measure.between(-0.25, 0.5).split(" to ")
    assert low == measure.gap(-0.25).split()[0] and high == measure.gap(0.5)
