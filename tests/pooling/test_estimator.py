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
from fedrelax.pooling.search import ROUNDS
from fedrelax.report import report_data, report_html
from fedrelax.report.page.script_data import script_data
from fedrelax.solvers import PartialPooling
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
    plain = FedRelaxRegressor(quick=True).fit(X, y, nodes=nodes)
    assert all(type(model) is Ridge for model in plain.models_.values())
    if bend:
        assert all(type(model) is Pipeline for model in found.models_.values())
    assert found.result_.engine == "pooling" and found.alpha_ > 0
    assert found.choice_.alphas[0] == 0.0 and "held-out rows" in found.choice_.reason


def test_the_report_marks_the_one_that_was_chosen(tmp_path):
    X, y, nodes = table()
    model = FedRelaxRegressor().fit(X, y, nodes=nodes)
    assert model.level_ < 1
    save_result(tmp_path / "r", model)
    shown = script_data(report_data(read_result(tmp_path / "r")))["candidates"]
    chosen = [one["alpha"] for one in shown if one["chosen"]]
    assert chosen == [pytest.approx(model.alpha_, rel=1e-4)]


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
    assert heard == ["begin", *range(ROUNDS + 1), "end"]
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
    plain = FedRelaxClassifier(quick=True).fit(X, labels, nodes=nodes)
    assert all(type(one) is LogisticRegression for one in plain.models_.values())
    model = FedRelaxClassifier().fit(X, labels, nodes=nodes)
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
    assert "In the rounds of partial pooling" in page
    numbers = model.default_.pooled.numbers
    assert f"{numbers:,} numbers" in page and numbers > 0


def test_where_it_does_not_serve_the_usual_model_is_taken():
    X, y, nodes = table()
    model = FedRelaxRegressor("auto", alpha=0.1).fit(X, y, nodes=nodes)
    assert model.result_.engine == "linear" and type(model.models_[0]) is Ridge
    rows = {i: np.flatnonzero(nodes == i) for i in range(N)}
    sets = {i: X[nodes == i] for i in range(N)}
    network = FedRelaxRegressor(alpha=0.1, public=sets).network_of(X, y, rows, {})
    with pytest.raises(FedRelaxError, match="public rows of its own"):
        PartialPooling().solve(network)


def test_a_graph_too_large_to_factorise_is_refused_in_a_sentence(monkeypatch):
    X, y, nodes = table()
    ring = Graph.from_edges([(i, (i + 1) % N) for i in range(N)])
    rows = {i: np.flatnonzero(nodes == i) for i in range(N)}
    network = FedRelaxRegressor(graph=ring).network_of(X, y, rows, {})
    assert PartialPooling.unsupported_reason(network) is None
    monkeypatch.setattr("fedrelax.solvers.pooling.MOST_NODES", 10)
    assert "12 nodes are more than 10" in PartialPooling.unsupported_reason(network)
    monkeypatch.setattr("fedrelax.solvers.pooling.MOST", 10.0)
    network = FedRelaxRegressor().network_of(X, y, rows, {})
    assert "too many to find all settings" in PartialPooling.unsupported_reason(network)


def test_a_graph_too_large_to_pool_gets_the_penalty_found_and_exchanges_predictions(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("fedrelax.solvers.pooling.MOST_NODES", 10)
    X, y, nodes = table(rows=8)
    labels = np.where(X[:, 0] + 0.3 * np.sin(9 * y) > 0, "up", "down")
    ring = Graph.from_edges([(i, (i + 1) % N) for i in range(N)])
    model = FedRelaxClassifier(graph=ring, random_state=3, quick=True).fit(X, labels, nodes=nodes)
    assert model.result_.engine == "softmax" and type(model.models_[0]) is SoftmaxModel
    assert model.models_[0].ridge == model.plan_.model.ridge > 0
    save_result(tmp_path / "r", model)
    page = report_html(read_result(tmp_path / "r"))
    assert "In the rounds of partial pooling" in page and "Predictions on" in page


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


def smooth(n, m, seed, noise=0.5):
    """Nodes on a ring whose level and slope go round once; a function draws new rows of them."""
    rng = np.random.default_rng(seed)
    turn = 2 * np.pi * np.arange(n) / n

    def rows(many, noise):
        node = np.repeat(np.arange(n), many)
        X = rng.normal(size=(len(node), 2))
        y = 3 * np.cos(turn[node]) + 2 * np.sin(turn[node]) * X[:, 0]
        return X, y + noise * rng.normal(size=len(node)), node

    return rows(m, noise), rows(50, 0.0)


def ring_of(n):
    return Graph.from_edges([(i, (i + 1) % n) for i in range(n)])


def test_a_graph_that_says_who_is_alike_is_worth_more_than_all_nodes_alike():
    (X, y, node), (T, t, at) = smooth(40, 4, 0)
    model = FedRelaxRegressor(graph=ring_of(40)).fit(X, y, nodes=node)
    without = FedRelaxRegressor(wiring="fixed").fit(X, y, nodes=node)
    error, plain = (np.mean((m.predict(T, at) - t) ** 2) for m in (model, without))
    assert error < 0.15 and error < 0.6 * plain
    assert "along the graph" in model.choice_.reason and model.alpha_ > 0
    left_out = model.default_.pooled.left_out
    assert left_out["together"] < 0.5 * left_out["every node alone"]


def test_smooth_lines_vary_along_the_graph():
    n, rng = 40, np.random.default_rng(3)
    turn = 2 * np.pi * np.arange(n) / n

    def rows(many, noise):
        node, x = np.repeat(np.arange(n), many), rng.uniform(-1, 1, size=n * many)
        return x[:, None], np.sin(5 * x + turn[node]) + noise * rng.normal(size=len(x)), node

    (X, y, node), (T, t, at) = rows(8, 0.1), rows(50, 0.0)
    model = FedRelaxRegressor(graph=ring_of(n), wiring="fixed", minutes=0).fit(X, y, nodes=node)
    assert "along the graph" in model.choice_.reason and "smooth lines" in model.choice_.reason
    assert np.mean((model.predict(T, at) - t) ** 2) < 0.1  # the mean square of the curves is 0.5


def test_a_graph_that_misleads_is_left_aside():
    (X, _, node), _ = smooth(40, 6, 1)
    level = 5.0 * np.random.default_rng(2).normal(size=40)
    model = FedRelaxRegressor(graph=ring_of(40)).fit(X, level[node] + X[:, 0], nodes=node)
    assert "along the graph" not in model.choice_.reason


def test_isolated_nodes_and_several_parts():
    (X, y, node), (T, t, at) = smooth(40, 4, 0)
    edges = [(i, i + 1) for i in range(38) if i != 20]  # two parts, and node 39 by itself
    graph = Graph.from_edges(edges, labels=range(40))
    model = FedRelaxRegressor(graph=graph).fit(X, y, nodes=node)
    near = at != 39
    assert np.mean((model.predict(T, at) - t)[near] ** 2) < 0.3
    assert np.isfinite(model.predict(T, at)).all()


def test_days_that_nodes_have_in_common_are_judged_by_days():
    rng = np.random.default_rng(6)
    n, days = 15, 8
    node, day = np.repeat(np.arange(n), days), np.tile(np.arange(days), n)
    X = rng.normal(size=days)[day][:, None] + 0.01 * rng.normal(size=(n * days, 1))
    y = 3.0 * rng.normal(size=days)[day] + 0.1 * rng.normal(size=n * days)
    honest = FedRelaxRegressor(wiring="fixed").fit(X, y, nodes=node, groups=day)
    blind = FedRelaxRegressor(wiring="fixed").fit(X, y, nodes=node)
    promised = [m.default_.pooled.left_out["together"] for m in (honest, blind)]
    assert promised[0] > 1.5 * promised[1]


def shocks(x, year):
    return np.random.default_rng(7).normal(size=10)[(year - 2000).astype(int)]


def steep(x, year):
    return 2.0 * np.tanh(8.0 * (x - 0.5)) + 1.5 * np.tanh(8.0 * (x + 1.0))


def effects(many, seed, effect):
    rng = np.random.default_rng(seed)
    node = np.repeat(np.arange(20), many)
    x = rng.uniform(-2, 2, size=len(node))
    year = rng.integers(2000, 2010, size=len(node)).astype(float)
    level = 3.0 * np.random.default_rng(99).normal(size=20)
    y = level[node] + x + effect(x, year) + 0.1 * rng.normal(size=len(node))
    return np.column_stack([x, year]), y, node


@pytest.mark.parametrize(
    ("effect", "words"), [(shocks, "effects of single values"), (steep, "smooth lines")]
)
def test_what_all_nodes_have_in_common_is_found_and_lowers_the_error(tmp_path, effect, words):
    (X, y, node), (T, t, at) = effects(8, 0, effect), effects(100, 1, effect)
    model = FedRelaxRegressor(wiring="fixed").fit(X, y, nodes=node)
    plain = FedRelaxRegressor(quick=True).fit(X, y, nodes=node)
    error, before = (np.mean((m.predict(T, at) - t) ** 2) for m in (model, plain))
    assert error < 0.15 * before and error < 0.12  # the noise has 0.01
    assert words in model.choice_.reason
    save_result(tmp_path / "r", model)
    again = load_result(tmp_path / "r")
    np.testing.assert_array_equal(again.predict(X, node), model.predict(X, node))
    new = X.copy()
    new[:, 1] = 1900.0  # a year that nobody has seen has no effect of its own
    assert np.isfinite(model.predict(new, node)).all()


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_made_up(seed):
    X, y, node = effects(8, seed, lambda x, year: 0.0)
    reason = FedRelaxRegressor(wiring="fixed").fit(X, y, nodes=node).choice_.reason
    assert "smooth lines" not in reason and "single values" not in reason


def test_nodes_that_differ_in_level_alone_share_their_slopes():
    X, y, nodes = table(rows=4)
    model = FedRelaxRegressor(quick=True).fit(X, y, nodes=nodes)
    slopes = np.array([one.coef_ for one in model.models_.values()])
    assert slopes.std(axis=0).max() < 0.05


def test_classes_pool_where_that_beats_alone_and_one_model():
    rng = np.random.default_rng(9)
    n, m = 40, 8
    level = 1.5 * rng.normal(size=n)

    def rows(many):
        node = np.repeat(np.arange(n), many)
        X = rng.normal(size=(len(node), 2))
        return X, (level[node] + 1.5 * X[:, 0] + rng.logistic(size=len(node)) > 0).astype(int), node

    (X, y, node), (T, t, h) = rows(m), rows(200)
    model = FedRelaxClassifier(wiring="fixed").fit(X, y, nodes=node)
    pooled = model.default_.pooled

    def loss(p):
        return -np.log(p[np.arange(len(t)), t]).mean()

    alone = np.array([pooled.alone[i].predict_proba(T[h == i]) for i in range(n)]).reshape(-1, 2)
    other = min(loss(pooled.pooled.predict_proba(T)), loss(alone))
    assert loss(model.predict_proba(T, nodes=h)) < 0.95 * other
    assert pooled.left_out["together"] < min(
        pooled.left_out["every node alone"], pooled.left_out["one model for all"]
    )


def test_without_public_rows_enough_nothing_is_shared():
    """Fewer public rows than columns cannot tell one model from another."""
    X, y, nodes = table()
    few = FedRelaxRegressor(wiring="fixed", public=X[:1]).fit(X, y, nodes=nodes)
    many = FedRelaxRegressor(wiring="fixed").fit(X, y, nodes=nodes)
    assert error(few, 0.0) > 1.3 * error(many, 0.0)
