"""The estimators keep scikit-learn's grammar and do what their documentation says."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import check_regressor_multioutput, parametrize_with_checks

from fedrelax import (
    FedRelax,
    FedRelaxClassifier,
    FedRelaxError,
    FedRelaxRegressor,
    Graph,
    LinearModel,
    NodeFitError,
    SoftmaxModel,
)
from fedrelax.errors import FedRelaxWarning
from tests.conftest import random_graph

CITIES = ("Oslo", "Bergen", "Bodø", "Tromsø")


@parametrize_with_checks(
    [FedRelaxRegressor(alpha=0.1), FedRelaxClassifier(alpha=0.1), LinearModel(), SoftmaxModel()]
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore")
def test_two_targets_without_nodes_and_without_settings():
    """One node has no edges to choose from."""
    check_regressor_multioutput("FedRelaxRegressor", FedRelaxRegressor())


def a_table(seed=0, rows=15, outputs=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows * len(CITIES), 3))
    nodes = np.repeat(CITIES, rows)
    shape = (3,) if outputs is None else (3, outputs)
    y = X @ rng.normal(size=shape) + 0.5 * rng.normal(size=(len(X), *shape[1:]))
    return X, y, nodes


CHAIN = Graph.from_edges(list(zip(CITIES[:-1], CITIES[1:], strict=True)))


def test_fit_leaves_what_is_promised():
    X, y, nodes = a_table()
    model = FedRelaxRegressor(DecisionTreeRegressor(max_depth=5), graph=CHAIN, alpha=0.1)
    assert model.fit(X, y, nodes=nodes) is model
    assert set(model.models_) == set(CITIES)
    assert isinstance(model.models_["Oslo"], DecisionTreeRegressor)
    assert model.graph_.n_edges == 3
    assert model.n_rounds_ == len(model.history_) - 1
    own = nodes == "Bodø"
    expected = model.models_["Bodø"].predict(X[own])
    assert np.array_equal(model.predict(X, nodes=nodes)[own], expected)


def test_nodes_as_a_column_name():
    X, y, nodes = a_table()
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(city=nodes)
    by_name = FedRelaxRegressor(graph=CHAIN, alpha=0.1).fit(frame, y, nodes="city")
    by_array = FedRelaxRegressor(graph=CHAIN, alpha=0.1).fit(X, y, nodes=nodes)
    assert by_name.feature_names_in_.tolist() == ["a", "b", "c"]
    assert np.allclose(by_name.predict(frame), by_array.predict(X, nodes=nodes))
    assert np.allclose(by_name.predict(frame, nodes="city"), by_name.predict(frame))


def test_labels_are_any_hashable():
    X, y, _ = a_table()
    labels = [("Norway", 1), frozenset({"a"}), 3.5, None.__class__]
    graph = Graph.from_edges(
        [(labels[0], labels[1]), (labels[1], labels[2]), (labels[2], labels[3])]
    )
    model = FedRelaxRegressor(graph=graph, alpha=0.1).fit(
        X, y, nodes=[label for label in labels for _ in range(15)]
    )
    assert list(model.models_) == labels
    assert model.predict(X[:2], nodes=[labels[0]] * 2).shape == (2,)


def test_several_outputs():
    X, y, nodes = a_table(outputs=2)
    model = FedRelaxRegressor(
        LinearModel(), CHAIN, alpha=0.2, rounds=500, solver=FedRelax(tol=1e-12)
    )
    together = model.fit(X, y, nodes=nodes).predict(X, nodes=nodes)
    for q in range(2):
        single = clone(model).fit(X, y[:, q], nodes=nodes).predict(X, nodes=nodes)
        assert together[:, q] == pytest.approx(single, abs=1e-8)


def test_models_per_node_by_dict_and_by_function():
    X, y, nodes = a_table()
    table = {city: Ridge(alpha=1.0 + i) for i, city in enumerate(CITIES)}
    by_dict = FedRelaxRegressor(table, CHAIN, alpha=0.1).fit(X, y, nodes=nodes)
    by_function = FedRelaxRegressor(lambda city: table[city], CHAIN, alpha=0.1).fit(
        X, y, nodes=nodes
    )
    assert [by_dict.models_[c].alpha for c in CITIES] == [1.0, 2.0, 3.0, 4.0]
    assert np.array_equal(by_dict.predict(X, nodes=nodes), by_function.predict(X, nodes=nodes))


def test_a_node_that_is_only_in_the_graph_gets_its_neighbours_mean():
    X, y, nodes = a_table()
    graph = Graph.from_edges(
        [("Oslo", "Bergen", 1.0), ("Oslo", "Hamar", 3.0), ("Hamar", "Bergen", 1.0)]
    )
    known = np.isin(nodes, ["Oslo", "Bergen"])
    model = FedRelaxRegressor(graph=graph, alpha=0.1).fit(X[known], y[known], nodes=nodes[known])
    rows = X[:4]
    expected = (3 * model.models_["Oslo"].predict(rows) + model.models_["Bergen"].predict(rows)) / 4
    assert model.predict(rows, nodes=["Hamar"] * 4) == pytest.approx(expected)


def test_a_node_that_nobody_knows_gets_the_mean_of_all_nodes():
    X, y, nodes = a_table()
    model = FedRelaxRegressor(Ridge(), CHAIN, alpha=0.1).fit(X, y, nodes=nodes)
    rows, asked = X[:5], ["Brgen", "Oslo", "Brgen", "Zürich", "Zürich"]
    with pytest.warns(FedRelaxWarning) as caught:
        said = model.predict(rows, nodes=asked)
    assert [str(warning.message) for warning in caught] == [
        "nodes 'Brgen', 'Zürich' were not in training (did you mean 'Bergen'?): 4 rows predicted by the "
        "network's consensus, the mean of 4 nodes"
    ]
    everybody = np.mean([model.models_[city].predict(rows) for city in CITIES], axis=0)
    everybody[1] = model.models_["Oslo"].predict(rows[1:2])[0]
    assert said == pytest.approx(everybody)
    model.set_params(unknown="raise")
    with pytest.raises(FedRelaxError, match="node 'Zürich' was not in training, and no neighbour"):
        model.predict(rows[3:], nodes=asked[3:])
    with pytest.raises(FedRelaxError, match="did you mean 'Bergen'.; unknown='consensus' predicts"):
        model.score(rows[:2], y[:2], nodes=asked[:2])
    with pytest.raises(FedRelaxError, match="unknown='ask' must be one of consensus, raise"):
        model.set_params(unknown="ask").predict(rows, nodes=asked)
    with pytest.raises(FedRelaxError, match="unknown='ask' must be one of consensus, raise"):
        model.fit(X, y, nodes=nodes)


def test_the_consensus_on_classes_is_the_mean_of_probabilities():
    X, y, nodes = a_table()
    model = FedRelaxClassifier(LogisticRegression(), CHAIN, alpha=0.1)
    model.fit(X, np.where(y > 0, "high", "low"), nodes=nodes)
    expected = np.mean([model.models_[city].predict_proba(X) for city in CITIES], axis=0)
    with pytest.warns(FedRelaxWarning, match="node 'Zürich' was not in training: 60 rows"):
        said = model.predict_proba(X, nodes=["Zürich"] * len(X))
    assert said == pytest.approx(expected)


def test_folds_may_hold_out_whole_nodes():
    """Without metadata routing: the node column is remembered, and unknown nodes get an answer."""
    X, y, nodes = a_table(rows=20)
    frame = pd.DataFrame(X).rename(columns=str).assign(city=nodes)
    model, folds = FedRelaxRegressor(Ridge(), alpha=0.1), GroupKFold(4)
    given = {"groups": nodes, "cv": folds, "params": {"nodes": "city"}}
    with pytest.warns(FedRelaxWarning, match="the mean of 3 nodes"):
        scores = cross_val_score(model, frame, y, **given)
    for score, (train, test) in zip(scores, folds.split(frame, y, nodes), strict=True):
        fitted = clone(model).fit(frame.iloc[train], y[train], nodes="city")
        each = [fitted.models_[city].predict(X[test]) for city in set(nodes[train])]
        assert score == pytest.approx(r2_score(y[test], np.mean(each, axis=0)))
    with pytest.raises(ValueError, match="was not in training"):
        cross_val_score(
            clone(model).set_params(unknown="raise"), frame, y, **given, error_score="raise"
        )
    with pytest.warns(FedRelaxWarning, match="the mean of 3 nodes"):
        search = GridSearchCV(model, {"alpha": [0.0, 0.3]}, cv=folds)
        search.fit(frame, y, groups=nodes, nodes="city")
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_a_class_that_a_node_never_saw():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = np.array(["low", "mid", "high"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    nodes = np.repeat(["a", "b"], 40)
    seen = ~((nodes == "a") & (y == "high"))
    model = FedRelaxClassifier(LogisticRegression(C=10), alpha=3.0, rounds=50)
    model.fit(X[seen], y[seen], nodes=nodes[seen])
    assert model.classes_.tolist() == ["high", "low", "mid"]
    far = np.array([[1.5, 0.0]])
    assert model.predict(far, nodes=["a"]).tolist() == ["high"]
    assert model.predict_proba(far, nodes=["a"]).sum() == pytest.approx(1)


def test_coupling_helps_related_nodes():
    rng = np.random.default_rng(0)
    X, nodes = rng.normal(size=(240, 8)), np.repeat(np.arange(40), 6)
    y = X @ np.ones(8) + 0.5 * rng.normal(size=240)
    X_new = rng.normal(size=(4000, 8))
    y_new, nodes_new = X_new @ np.ones(8), np.repeat(np.arange(40), 100)
    graph = random_graph(rng, 40, 0.2)
    scores = {}
    for alpha in (0.0, 1.0):
        model = FedRelaxRegressor(Ridge(0.1), graph, alpha=alpha).fit(X, y, nodes=nodes)
        scores[alpha] = model.score(X_new, y_new, nodes=nodes_new)
    assert scores[1.0] > 0.97 > scores[0.0]


def test_validation_share_and_patience():
    X, y, nodes = a_table(rows=20)
    model = FedRelaxRegressor(
        DecisionTreeRegressor(max_depth=3),
        CHAIN,
        alpha=1.0,
        validation_share=0.25,
        rounds=30,
        solver=FedRelax(patience=2),
    ).fit(X, y, nodes=nodes)
    assert model.n_rounds_ == int(np.argmin(model.history_["validation_loss"]))


def test_params_and_clone():
    model = FedRelaxRegressor(Ridge(), CHAIN, alpha=0.3)
    assert clone(model).get_params()["alpha"] == 0.3
    assert model.set_params(estimator__alpha=7.0).estimator.alpha == 7.0


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_cross_validation_and_grid_search_with_routed_nodes(routing):
    X, y, nodes = a_table(rows=20)
    model = FedRelaxRegressor(Ridge(), CHAIN, rounds=3, alpha=0.1)
    model = (
        model.set_fit_request(nodes=True)
        .set_predict_request(nodes=True)
        .set_score_request(nodes=True)
    )
    shuffled = np.random.default_rng(0).permutation(len(X))
    X, y, nodes = X[shuffled], y[shuffled], nodes[shuffled]
    scores = cross_val_score(model, X, y, params={"nodes": nodes}, cv=3)
    assert scores.shape == (3,)
    search = GridSearchCV(model, {"alpha": [0.0, 0.3]}, cv=3).fit(X, y, nodes=nodes)
    assert search.best_params_["alpha"] in (0.0, 0.3)
    assert search.best_estimator_.predict(X[:3], nodes=nodes[:3]).shape == (3,)


def test_a_pipeline_gets_its_weights_even_when_routing_is_on(routing):
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y, nodes = a_table()
    model = FedRelaxRegressor(make_pipeline(StandardScaler(), Ridge()), CHAIN, alpha=1.0)
    on = model.fit(X, y, nodes=nodes).predict(X, nodes=nodes)
    with sklearn.config_context(enable_metadata_routing=False):
        off = clone(model).fit(X, y, nodes=nodes).predict(X, nodes=nodes)
    assert np.array_equal(on, off)


class Fussy(Ridge):
    def fit(self, X, y, sample_weight=None):
        raise RuntimeError("the cat sat on the keyboard")


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failing_fit_names_the_node_and_keeps_the_cause(jobs):
    X, y, nodes = a_table()
    models = {city: Fussy() if city == "Bodø" else Ridge() for city in CITIES}
    with pytest.raises(
        NodeFitError, match="node 'Bodø': fit of Fussy .*the cat sat on the keyboard"
    ) as e:
        FedRelaxRegressor(models, CHAIN, n_jobs=jobs, alpha=0.1).fit(X, y, nodes=nodes)
    assert e.value.__cause__ is not None


class Centred(Ridge):
    """Works in place: subtracts the means of its rows in ``fit`` and in ``predict``."""

    def fit(self, X, y, sample_weight=None):
        self.mean_, self.level_ = X.mean(axis=0), y.mean(axis=0)
        X -= self.mean_
        y -= self.level_
        return super().fit(X, y, sample_weight)

    def predict(self, X):
        X -= self.mean_
        return super().predict(X) + self.level_


@pytest.mark.parametrize("outputs", [None, 2])
def test_a_model_that_writes_into_its_rows_changes_nothing_of_the_callers(outputs):
    X, y, nodes = a_table(outputs=outputs)
    public = X[:20] + 0.1
    before = X.copy(), y.copy(), public.copy()
    models = {city: Centred() if city == "Oslo" else Ridge() for city in CITIES}
    model = FedRelaxRegressor(models, CHAIN, alpha=0.1, public=public, rounds=3)
    model.fit(X, y, nodes=nodes)
    answers = model.predict(X, nodes=nodes)
    for old, new in zip(before, (X, y, public), strict=True):
        np.testing.assert_array_equal(old, new)
    usual = clone(model).set_params(estimator=Ridge()).fit(X, y, nodes=nodes)
    np.testing.assert_allclose(answers, usual.predict(X, nodes=nodes))


def test_a_classifier_that_writes_into_its_rows_changes_nothing_of_the_callers():
    class Scaled(LogisticRegression):
        def predict_proba(self, X):
            X *= 1.0 + 1e-9
            return super().predict_proba(X)

        def fit(self, X, y, sample_weight=None):
            X *= 1.0 + 1e-9
            return super().fit(X, y, sample_weight)

    X, y, nodes = a_table()
    before = X.copy()
    FedRelaxClassifier(Scaled(), CHAIN, alpha=0.1, rounds=2).fit(X, y > 0, nodes=nodes)
    np.testing.assert_array_equal(before, X)


@pytest.mark.parametrize(
    "model",
    [
        FedRelaxRegressor(Ridge(), CHAIN, alpha=0.5),
        FedRelaxRegressor(Ridge(), alpha=0.5, validation_share=0.2, solver=FedRelax(patience=3)),
        FedRelaxRegressor(DecisionTreeRegressor(max_depth=3), alpha=0.5, rounds=3),
        FedRelaxRegressor(RandomForestRegressor(n_estimators=3), alpha=(0.1, 1.0), rounds=2),
        FedRelaxRegressor(),
        FedRelaxClassifier(alpha=0.5),
    ],
    ids=str,
)
def test_the_order_of_the_rows_changes_nothing(model):
    """Public rows, folds, validation rows, seeds and sums are the same to the last digit."""
    X, y, nodes = a_table()
    X[::3] = X[0]  # rows that differ in nothing but the target
    y = y > 0 if model._kind == "classification" else y
    answers = []
    for order in (np.arange(len(X)), np.random.default_rng(1).permutation(len(X))):
        fitted = clone(model).fit(X[order], y[order], nodes=nodes[order])
        answers.append(fitted.answers(X, nodes))
    np.testing.assert_array_equal(*answers)
