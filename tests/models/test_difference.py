"""Learning the difference: a node's model is what its neighbours say plus its own difference from that."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from fedrelax import (
    Distillation,
    FedRelax,
    FedRelaxClassifier,
    FedRelaxError,
    FedRelaxRegressor,
    Graph,
    Network,
)
from fedrelax.attacks import Constant
from fedrelax.datasets import clustered
from fedrelax.engines.sites.engine import SiteEngine
from fedrelax.faults import Absent, Delayed, Lost
from fedrelax.losses import Squared
from fedrelax.models import LinearModel, Rows, SoftmaxModel
from fedrelax.models.archive import closed, opened
from fedrelax.models.class_difference import SumClassifier
from fedrelax.models.difference import SumRegressor, drawn
from fedrelax.models.names import model_by_name
from fedrelax.privacy import PrivateStatistics
from fedrelax.storage import load_result, save_result
from fedrelax.storage.formats import SUM, Format
from fedrelax.wiring import Discover, Rewire

EXTRAS = {"lightgbm": "lightgbm", "xgboost": "xgboost", "torch-mlp": "torch"}

D = 3


def lines(graph, model, rows=8, seed=0):
    rng = np.random.default_rng(seed)
    network = Network(graph, public=rng.normal(size=(30, D)))
    for label in graph.labels:
        X = rng.normal(size=(rows, D))
        w = np.array([1.0, -2.0, 3.0]) + 0.5 * rng.normal(size=D)
        network.add(label, X, X @ w + 0.3 * rng.normal(size=rows), model)
    return network


def complete(n):
    return Graph.from_edges([(i, j) for i in range(n) for j in range(i)])


def weights_of(result):
    return np.array([model.coef_ for model in result.models.values()])


def test_lines_on_a_complete_graph_are_the_mixed_model():
    """Generalised least squares and best linear unbiased predictions for random slopes of precision L."""
    penalty = 2.0
    network = lines(complete(6), LinearModel(ridge=penalty, fit_intercept=False))
    result = FedRelax(1e-12, update="difference", rounds=400, tol=1e-13).solve(network)
    S = np.array([node.X.T @ node.X for node in network])
    b = np.array([node.X.T @ node.y for node in network])
    M = np.linalg.inv(S + penalty * np.eye(D))
    common = np.linalg.solve((M @ S).sum(axis=0), (M @ b[:, :, None]).sum(axis=0))[:, 0]
    effects = np.einsum("nij,nj->ni", M, b - S @ common)
    assert weights_of(result) == pytest.approx(common + effects, abs=1e-8)
    assert effects.sum(axis=0) == pytest.approx(np.zeros(D), abs=1e-8)


def test_where_all_hear_the_same_few_rounds_reach_the_fixed_point():
    network = lines(complete(6), LinearModel())

    def answers(rounds, damping=0.0):
        settings = FedRelax(0.3, update="difference", damping=damping, rounds=rounds, tol=0)
        models = settings.solve(network).models
        return np.array([models[label].predict(network.public.common) for label in network.labels])

    as_they_come = 1e-9  # any damping, however small: then rounds are not accelerated
    rest = answers(120, as_they_come)
    assert np.abs(answers(8) - rest).max() < 1e-9
    assert np.abs(answers(8, as_they_come) - rest).max() > 1e-3


def test_rounds_are_not_accelerated_once_a_node_no_longer_heeds_all_others():
    network = lines(complete(4), LinearModel())
    engine = SiteEngine.of(network, FedRelax(0.3, update="difference"))
    with engine.working():
        engine.start()
        engine.share(0)
        engine.update(1)
        assert all(site.consensus is not None for site in engine.sites)
        pairs = Graph.from_edges([(0, 1), (2, 3)], labels=network.labels)
        engine.rewire(pairs.adjacency)
        engine.update(2)
        assert all(site.consensus is None for site in engine.sites)


@pytest.mark.parametrize("weighting", ["mean", "rows"])
def test_lines_on_any_graph_solve_a_linear_system(weighting):
    ring = Graph.from_edges([(i, (i + 1) % 5, 1.0 + i) for i in range(5)])
    network = lines(ring, LinearModel(ridge=0.5, fit_intercept=False))
    alpha, P = 0.1, network.public.common
    settings = FedRelax(alpha, update="difference", weighting=weighting, rounds=2000, tol=1e-14)
    found = weights_of(settings.solve(network))
    A, n = ring.adjacency.toarray(), 5
    system, right = np.zeros((n * D, n * D)), np.zeros(n * D)
    for i, node in enumerate(network):
        S, degree, heard = node.X.T @ node.X, A[i].sum(), (A[i] > 0).sum()
        scale = len(node.X) / len(P) if weighting == "mean" else 1.0
        L = 0.5 * np.eye(D) + alpha * degree * scale * P.T @ P
        mean = A[i] / degree * heard / (heard + 1)
        mean[i] = 1 / (heard + 1)
        here = slice(i * D, (i + 1) * D)
        right[here] = node.X.T @ node.y
        for j in range(n):
            there = slice(j * D, (j + 1) * D)
            system[here, there] = (i == j) * (S + L) - mean[j] * L
    wanted = np.linalg.solve(system, right).reshape(n, D)
    assert found == pytest.approx(wanted, abs=1e-8)


def test_public_rows_of_their_own_count_by_the_weights_of_the_graph():
    graph = Graph.from_edges([("a", "b", 1.0), ("b", "c", 3.0), ("a", "c", 2.0)])
    rng, ridge, alpha = np.random.default_rng(0), 0.5, 0.2
    public = {label: rng.normal(size=(12 + k, D)) for k, label in enumerate("abc")}
    given = lines(graph, LinearModel(ridge=ridge, fit_intercept=False))
    network = Network(graph)
    for node in given:
        network.add(node.label, node.X, node.y, node.model, public=public[node.label])
    result = FedRelax(alpha, update="difference", rounds=2000, tol=1e-14).solve(network)
    for node in network:
        near = graph.neighbours(node.label).items()
        parts = {j: a * public[j].T @ public[j] / len(public[j]) for j, a in near}
        Q = sum(parts.values())
        heard = np.linalg.solve(Q, sum(part @ result.models[j].coef_ for j, part in parts.items()))
        L = ridge * np.eye(D) + alpha * len(node.X) * Q
        own = np.linalg.solve(node.X.T @ node.X + L, node.X.T @ (node.y - node.X @ heard))
        assert result.models[node.label].coef_ == pytest.approx(heard + own, abs=1e-8)


def error_of(**settings):
    """The mean error of ten lines, some of few rows, and that of each node alone."""
    network = lines(complete(10), DecisionTreeRegressor(max_depth=3, random_state=0), rows=12)
    new = np.random.default_rng(1).normal(size=(200, D))
    truth = new @ [1.0, -2.0, 3.0]

    def error(models):
        return np.mean([np.mean((model.predict(new) - truth) ** 2) for model in models])

    together = FedRelax(0.01, update="difference", rounds=4, tol=0, **settings).solve(network)
    alone = FedRelax(0.0, rounds=1).solve(network)
    liars = set(settings["exchange"].attackers(network.labels)) if "combine" in settings else ()
    return (
        error(model for label, model in together.models.items() if label not in liars),
        error(alone.models.values()),
    )


RUNS = {
    "lost": {"exchange": Lost(0.3)},
    "late": {"exchange": Delayed(2)},
    "absent": {"exchange": Absent(0.3)},
    "in turn": {"order": "sequential"},
    "asynchronous": {"order": "asynchronous"},
    "damped": {"damping": 0.3},
    "level": {"level": 0.5},
    "noise": {"exchange": PrivateStatistics(epsilon=50.0, range=(-20, 20))},
    "liars": {"exchange": Constant(value=100.0), "combine": "median"},
    "liars, trimmed": {"exchange": Constant(value=100.0), "combine": "trimmed"},
    "rewired": {"wiring": Rewire()},
    "discovered": {"wiring": Discover()},
}


@pytest.mark.parametrize("name", RUNS)
def test_nodes_learn_their_difference_where(name):
    together, alone = error_of(**RUNS[name])
    assert together < 0.85 * alone


def test_public_rows_are_drawn_to_weigh_as_much_as_own_rows():
    public = Rows(np.arange(50.0)[:, None], np.zeros((50, 1)), np.full(50, 0.2), Squared())
    other = replace(public, X=public.X + 50, weight=np.where(np.arange(50) < 25, 0.0, 0.4))
    (some,) = drawn([public, other], seed=0)
    assert len(some) == 20 and (some.weight == 1).all()
    assert len(np.unique(some.X)) == 20 and not ((some.X >= 50) & (some.X < 75)).any()
    assert (some.X >= 75).mean() == pytest.approx(0.5, abs=0.3)
    assert drawn([replace(public, weight=np.full(50, 1e-6))], seed=0) == []
    strong = [replace(public, weight=np.full(50, 3.0))]
    assert drawn(strong, seed=0) == strong


@pytest.mark.parametrize("model", [Ridge(), DecisionTreeRegressor(random_state=0)])
def test_nodes_may_have_different_columns(model, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=["u", "v", "w"])
    frame["node"], y = np.repeat(list("abc"), 20), frame["u"] + 2 * frame["v"]
    frame.loc[frame["node"] == "a", "w"] = np.nan
    solver = FedRelax(update="difference")
    fitted = FedRelaxRegressor(model, alpha=0.1, rounds=2, solver=solver).fit(frame, y, "node")
    save_result(tmp_path / "result", fitted)
    loaded = load_result(tmp_path / "result")
    assert loaded.predict(frame) == pytest.approx(fitted.predict(frame))
    assert fitted.score(frame, y) > 0.9


def test_everything_open_is_chosen():
    fitted, X, y, nodes = fitted_on_lines(Ridge(), alpha="auto", wiring="auto")
    assert fitted.score(X, y, nodes=nodes) > 0.99


def test_the_sum_of_lines_is_a_line_to_take_away():
    model = FedRelaxRegressor(Ridge(), alpha=0.1, rounds=3, solver=FedRelax(update="difference"))
    rng = np.random.default_rng(0)
    X, nodes = rng.normal(size=(40, 2)), np.repeat(list("abcd"), 10)
    model.fit(X, X @ [1.0, 2.0], nodes=nodes)
    own = model.models_["a"]
    assert type(own) is Ridge
    np.testing.assert_allclose(own.predict(X[:10]), model.predict(X[:10], nodes=nodes[:10]))


def test_trees_do_not_drift_and_learn_from_their_neighbours():
    data = clustered((10, 10), d=10, m=10, random_state=0)
    network = Network(data.graph, public=data.public[:, :20].reshape(-1, 10))
    for i, label in enumerate(data.graph.labels):
        network.add(label, data.X[i], data.y[i], DecisionTreeRegressor(max_depth=5, random_state=0))

    def error(models):
        guesses = [model.predict(X) for model, X in zip(models, data.X_val, strict=True)]
        return np.mean((np.array(guesses) - data.y_val) ** 2)

    errors = [
        error(FedRelax(1e-3, update="difference", rounds=k, tol=0).solve(network).models.values())
        for k in (1, 3, 6)
    ]
    alone = error(FedRelax(0.0, rounds=1).solve(network).models.values())
    assert max(errors) < 0.8 * alone


@pytest.mark.parametrize(
    ("settings", "model", "sentence"),
    [
        ({"continued": True}, Ridge(), "fits both parts of a model afresh"),
        ({"distillation": Distillation()}, Ridge(), "fits both parts of a model afresh"),
        ({}, DecisionTreeRegressor(criterion="poisson"), "fits positive numbers only"),
        ({"engine": "linear"}, LinearModel(), "update='difference' fits two"),
    ],
)
def test_what_does_not_go_is_refused_in_a_sentence(settings, model, sentence):
    with pytest.raises(FedRelaxError, match=sentence):
        FedRelax(0.1, update="difference", **settings).solve(lines(complete(3), model))


# Classes


def groups(graph, model, rows=12, seed=0, classes=3):
    """Nodes whose classes follow similar, but not equal, softmax models."""
    rng = np.random.default_rng(seed)
    W = 2 * rng.normal(size=(D, classes))
    names, network = np.array(list("xyz"))[:classes], None
    network = Network(graph, "classification", rng.normal(size=(60, D)))
    new = rng.normal(size=(200, D))
    truth = {}
    for label in graph.labels:
        own = W + 0.5 * rng.normal(size=W.shape)
        X = rng.normal(size=(rows, D))
        draw = [
            names[(Z @ own + rng.gumbel(size=(len(Z), classes))).argmax(axis=1)] for Z in (X, new)
        ]
        network.add(label, X, draw[0], model)
        truth[label] = draw[1]
    return network, new, truth


def loss_of(result, new, truth):
    loss = []
    for label, model in result.local_models.items():
        p, y = model.predict(new), result.task.encode(truth[label])
        loss.append(-np.log(np.clip((p * y).sum(axis=1), 1e-3, None)).mean())
    return np.mean(loss)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", ["logistic", "tree", "forest", "knn", "svm", "boosting", "lightgbm", "xgboost"]
)
@pytest.mark.parametrize("classes", [2, 3])
def test_classifiers_learn_from_their_neighbours(name, classes):
    if name in EXTRAS:
        pytest.importorskip(EXTRAS[name])
    model = model_by_name(name, "classification")
    network, new, truth = groups(complete(6), model, classes=classes)
    alone = loss_of(FedRelax(0.0, rounds=1).solve(network), new, truth)
    result = FedRelax(0.1, update="difference", rounds=3, tol=0).solve(network)
    assert loss_of(result, new, truth) < alone
    for label, model in result.models.items():
        answer = model.predict_proba(new)
        np.testing.assert_allclose(answer, result.local_models[label].predict(new))
        assert (model.predict(new) == model.classes_[answer.argmax(axis=1)]).all()


@pytest.mark.parametrize("classes", [2, 3])
def test_softmax_regressions_stay_one_and_solve_their_problem_with_an_offset(classes):
    network, _, _ = groups(complete(4), SoftmaxModel(ridge=0.5), classes=classes)
    result = FedRelax(0.2, update="difference", rounds=3, tol=0).solve(network)
    node, own = network.nodes[0], result.local_models[0]
    assert type(result.models[0]) is SoftmaxModel
    consensus, difference = own.parts
    p, offset = own.predict(node.X), np.log(consensus.predict(network.public.common))
    far = own.predict(network.public.common)
    weight = 0.2 * 3 * len(node.X) / len(far)
    slope = node.X.T @ (p - network.task.encode(node.y))
    slope += weight * network.public.common.T @ (far - np.exp(offset))
    assert slope + difference.estimator.coef_.T == pytest.approx(0, abs=1e-6)


def test_logistic_regression_and_softmax_regression_agree():
    losses = []
    for model in (LogisticRegression(C=1.0, tol=1e-10), SoftmaxModel(ridge=0.5)):
        network, new, truth = groups(complete(3), model)
        result = FedRelax(0.1, update="difference", rounds=2, tol=0).solve(network)
        losses.append(loss_of(result, new, truth))
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


def test_a_node_of_one_class_and_one_row_learns_from_the_others():
    for model in (SoftmaxModel(), DecisionTreeClassifier(random_state=0)):
        network, new, _ = groups(complete(4), model)
        lonely = Network(network.graph, "classification", network.public.common)
        for node in network:
            rows = slice(0, 1 if node.label == 0 else None)
            lonely.add(node.label, node.X[rows], node.y[rows], model)
        result = FedRelax(0.01, update="difference", rounds=2, tol=0).solve(lonely)
        assert len(set(result.models[0].predict(new))) > 1


@pytest.mark.parametrize("name", ["logistic", "tree", "svm", "lightgbm", "xgboost", "torch-mlp"])
def test_a_sum_of_classifiers_is_saved_without_pickle(tmp_path, name):
    if name in EXTRAS:
        pytest.importorskip(EXTRAS[name])
    rng = np.random.default_rng(0)
    X, nodes = rng.normal(size=(60, 2)), np.repeat(list("abc"), 20)
    y = np.array(["low", "high"])[(X @ [1.0, 2.0] > 0).astype(int)]
    solver = FedRelax(update="difference")
    model = model_by_name(name, "classification")
    fitted = FedRelaxClassifier(model, alpha=0.1, rounds=2, solver=solver, public_rows=40)
    fitted.fit(X, y, nodes=nodes)
    save_result(tmp_path / "result", fitted)
    loaded = load_result(tmp_path / "result")
    wanted = fitted.predict_proba(X, nodes=nodes)
    np.testing.assert_allclose(loaded.predict_proba(X, nodes=nodes), wanted, atol=1e-6)
    assert fitted.score(X, y, nodes=nodes) > 0.8


@pytest.mark.thorough
@parametrize_with_checks([SumClassifier(LogisticRegression(), DecisionTreeClassifier(max_depth=2))])
def test_scikit_learn_accepts_the_sum_of_classifiers(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.thorough
def test_trees_that_choose_their_neighbours_do_better_than_one_tree_per_cluster():
    """Nor do they start again once the graph is found: they do not drift."""
    data = clustered((25, 25, 25), random_state=0)
    network = Network(data.graph, public=data.public[:, :20].reshape(-1, 10))
    for i in range(len(data.X)):
        tree = DecisionTreeRegressor(max_depth=5, random_state=0)
        network.add(i, data.X[i], data.y[i], tree, validation=(data.X_val[i], data.y_val[i]))
    settings = FedRelax(1e-6, update="difference", wiring=Rewire(), rounds=11, tol=0.0)
    records = settings.solve(network).history.records
    squares = []
    for cluster in range(3):
        here = data.clusters == cluster
        tree = DecisionTreeRegressor(max_depth=5, random_state=0)
        tree.fit(data.X[here].reshape(-1, 10), data.y[here].ravel())
        left = data.y_val[here].ravel() - tree.predict(data.X_val[here].reshape(-1, 10))
        squares.append(np.mean(left**2))
    assert records[-1].validation_loss < np.mean(squares) < 0.6 * records[0].validation_loss
    assert records[-1].validation_loss < records[-2].validation_loss


@parametrize_with_checks([SumRegressor(Ridge(), DecisionTreeRegressor(max_depth=2))])
def test_scikit_learn_accepts_the_sum(estimator, check):
    check(estimator)


# Saving


def fitted_on_lines(model, **given):
    rng = np.random.default_rng(0)
    X, nodes = rng.normal(size=(60, 2)), np.repeat(list("abc"), 20)
    y = X @ [1.0, 2.0] + (nodes == "a") * X[:, 0]
    given = {"alpha": 0.1, "rounds": 2, **given}
    solver = FedRelax(update="difference")
    fitted = FedRelaxRegressor(model, solver=solver, public_rows=40, **given)
    return fitted.fit(X, y, nodes=nodes), X, y, nodes


@pytest.mark.parametrize("name", ["ridge", "tree", "knn", "lightgbm", "xgboost", "torch-mlp"])
def test_a_sum_is_saved_without_pickle(tmp_path, name):
    if name in EXTRAS:
        pytest.importorskip(EXTRAS[name])
    model = model_by_name(name, "regression")
    fitted, X, _, nodes = fitted_on_lines(model)
    save_result(tmp_path / "result", fitted)
    loaded = load_result(tmp_path / "result")
    np.testing.assert_allclose(loaded.predict(X, nodes=nodes), fitted.predict(X, nodes=nodes))
    kind = type(loaded.models_["a"])
    assert kind is (type(fitted.models_["a"]))
    assert kind is SumRegressor or name == "ridge"


def test_a_consensus_of_all_nodes_is_written_once(monkeypatch, tmp_path):
    fitted, X, _, nodes = fitted_on_lines(DecisionTreeRegressor(random_state=0))
    written = []
    to_bytes = Format.to_bytes
    monkeypatch.setattr(
        Format, "to_bytes", lambda form, model: written.append(model) or to_bytes(form, model)
    )
    save_result(tmp_path / "result", fitted)
    kinds = [type(model).__name__ for model in written]
    assert kinds.count("HistGradientBoostingRegressor") == 1
    assert kinds.count("DecisionTreeRegressor") == 4  # three differences, and their kind
    loaded = load_result(tmp_path / "result")
    np.testing.assert_allclose(loaded.predict(X, nodes=nodes), fitted.predict(X, nodes=nodes))


def test_a_damaged_sum_is_refused(tmp_path):
    fitted, *_ = fitted_on_lines(DecisionTreeRegressor(random_state=0))
    for about in ({"share": 1.0}, {"share": 1.0, "formats": ["sum", "skops"]}):
        data = SUM.to_bytes(fitted.models_["a"])
        members = {**opened(data), "about.json": json.dumps(about).encode()}
        with pytest.raises(FedRelaxError, match="does not hold two models"):
            SUM.from_bytes(closed(members), ())
