"""XGBoost and LightGBM in a network: soft labels, any labels, few rows, rounds that go on."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedrelax import FedRelax, FedRelaxClassifier, FedRelaxError, FedRelaxRegressor
from fedrelax.losses import Log, Squared
from fedrelax.models import Rows, Task, adapt
from fedrelax.models.boost import CodedClassifier
from fedrelax.models.names import model_by_name
from tests.conftest import classification_network, regression_network

xgboost = pytest.importorskip("xgboost", reason="needs the extra boost (xgboost)")
lightgbm = pytest.importorskip("lightgbm", reason="needs the extra boost (lightgbm)")

NUMBERS = Task("regression", 1)
TREES = Task("classification", 3, np.array(["ash", "birch", "cedar"]))
COINS = Task("classification", 2, np.array(["head", "tail"]))
NAMES = ["xgboost", "lightgbm"]


def small(name, **more):
    """Settings under which rows count by their weights alone, so that K copies are the same."""
    if name == "xgboost":
        return xgboost.XGBClassifier(n_estimators=8, max_depth=3, **more)
    return lightgbm.LGBMClassifier(
        n_estimators=8, num_leaves=6, min_child_samples=0, min_data_in_bin=1, verbosity=-1, **more
    )


def soft_rows(task, rng, n=60):
    X = rng.normal(size=(n, 4))
    target = rng.dirichlet(np.arange(1, task.n_outputs + 1), size=n)
    return Rows(X, target, rng.uniform(0.2, 2.0, n), Log())


def copies(rows):
    row, label = np.nonzero(rows.target)
    return rows.X[row], label, (rows.target * rows.weight[:, None])[row, label]


@pytest.mark.parametrize(
    "settings",
    [{"missing": -9.0}, {"feature_types": ["c", "q"], "enable_categorical": True}],
    ids=["missing", "categories"],
)
def test_xgboost_keeps_what_its_template_says_of_the_rows(settings):
    """Every third of nine categories is a head, and -9 stands for a gap: lost without the settings."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 9, 300), rng.normal(size=300)]).astype(float)
    y = np.where(X[:, 0] % 3 == 0, "head", "tail")
    if "missing" in settings:
        X[y == "tail", 1] = -9.0
    rows = Rows(X, COINS.encode(y) * 0.98 + 0.01, np.ones(300), Log())
    template = xgboost.XGBClassifier(n_estimators=20, max_depth=1, **settings)
    fitted = adapt(template, COINS).fit([rows], seed=0)
    codes = (y == "tail").astype(int)
    theirs = xgboost.XGBClassifier(n_estimators=20, max_depth=1, n_jobs=1, **settings)
    theirs = theirs.fit(np.tile(X, (2, 1)), np.r_[codes, 1 - codes],
                        sample_weight=np.r_[np.full(300, 0.99), np.full(300, 0.01)])  # fmt: skip
    assert fitted.predict(X) == pytest.approx(theirs.predict_proba(X), abs=1e-4)
    assert (fitted.predict(X).argmax(axis=1) == codes).all()


def test_a_node_with_one_row_of_a_table():
    frame = pd.DataFrame({"a": [1.0], "b": [2.0]})
    rows = Rows(frame, np.array([[3.0]]), np.ones(1), Squared())
    model = lightgbm.LGBMRegressor(n_estimators=2, min_child_samples=1, verbosity=-1)
    assert adapt(model, NUMBERS).fit([rows], seed=0).predict(frame) == pytest.approx(3.0)


@pytest.mark.parametrize("task", [COINS, TREES], ids=["two classes", "three classes"])
@pytest.mark.parametrize("name", NAMES)
def test_soft_labels_are_k_weighted_copies(name, task):
    """A soft label counts like K copies of its row, each with its share of the weight."""
    rows = soft_rows(task, np.random.default_rng(0))
    fitted = adapt(small(name), task).fit([rows], seed=0)
    X, codes, weight = copies(rows)
    theirs = small(name, random_state=0, n_jobs=1).fit(X, codes, sample_weight=weight)
    assert fitted.predict(rows.X) == pytest.approx(theirs.predict_proba(rows.X), abs=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_settings_for_hard_labels_are_kept(name):
    settings = {"scale_pos_weight": 2.0} if name == "xgboost" else {"class_weight": "balanced"}
    rows = soft_rows(COINS, np.random.default_rng(0))
    fitted = adapt(small(name, **settings), COINS).fit([rows], seed=0).estimator
    assert type(fitted) is (CodedClassifier if name == "xgboost" else lightgbm.LGBMClassifier)
    assert set(fitted.predict(rows.X)) <= {"head", "tail"}


@pytest.mark.parametrize("name", NAMES)
def test_a_network_of_classifiers_with_text_labels_and_a_missing_class(name):
    network = classification_network(
        np.random.default_rng(0), model_by_name(name, "classification")
    )
    result = FedRelax(alpha=0.5, rounds=2).solve(network)
    grid = np.random.default_rng(1).normal(size=(9, 3))
    for local in result.local_models.values():
        share = local.predict(grid)
        assert share.shape == (9, 3)
        assert share.sum(axis=1) == pytest.approx(1.0)
    assert {c for m in result.models.values() for c in m.predict(grid)} <= {"ash", "birch", "cedar"}
    assert result.history["gtv"][-1] < result.history["gtv"][0]


@pytest.mark.parametrize("name", NAMES)
def test_a_class_that_nobody_has_shown_stays_unlikely(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    rows = Rows(X, TREES.encode(np.where(X[:, 0] > 0, "ash", "cedar")), np.ones(20), Log())
    share = adapt(model_by_name(name, "classification"), TREES).fit([rows], seed=0).predict(X)
    assert share[:, 1].max() < 1e-3
    assert (share.argmax(axis=1) == np.where(X[:, 0] > 0, 0, 2)).mean() > 0.9


@pytest.mark.parametrize("name", NAMES)
def test_a_node_with_one_class_knows_that_class(name):
    rows = Rows(np.zeros((4, 2)), TREES.encode(np.full(4, "birch")), np.ones(4), Log())
    fitted = adapt(model_by_name(name, "classification"), TREES).fit([rows], seed=0)
    assert fitted.predict(np.ones((1, 2))).tolist() == [[0.0, 1.0, 0.0]]
    both = Rows(np.eye(2), TREES.encode(np.array(["ash", "birch"])), np.ones(2), Log())
    assert fitted.fit([both], seed=0, continued=True).predict(np.eye(2)).shape == (2, 3)
    afresh = adapt(model_by_name(name, "classification"), TREES).fit([both], seed=0)
    again = fitted.fit([both], seed=0, continued=True)
    assert np.array_equal(again.predict(np.eye(2)), afresh.predict(np.eye(2)))


@pytest.mark.parametrize("name", NAMES)
def test_a_network_of_regressors(name):
    network = regression_network(np.random.default_rng(0), model_by_name(name, "regression"))
    result = FedRelax(alpha=0.3, rounds=2).solve(network)
    kind = xgboost.XGBRegressor if name == "xgboost" else lightgbm.LGBMRegressor
    assert all(type(model) is kind for model in result.models.values())
    assert all(model.n_jobs == 1 for model in result.models.values())
    assert result.history["gtv"][-1] < result.history["gtv"][0]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_workers_do_not_change_the_result(name):
    network = classification_network(
        np.random.default_rng(0), model_by_name(name, "classification")
    )
    one, two = (FedRelax(alpha=0.5, rounds=1, n_jobs=n).solve(network) for n in (1, 2))
    grid = np.random.default_rng(1).normal(size=(9, 3))
    for label in one.local_models:
        a, b = one.local_models[label].predict(grid), two.local_models[label].predict(grid)
        assert np.array_equal(a, b)


def test_a_pipeline_around_xgboost_takes_text_labels():
    model = make_pipeline(StandardScaler(), xgboost.XGBClassifier(n_estimators=3))
    network = classification_network(np.random.default_rng(0), model)
    result = FedRelax(alpha=0.5, rounds=1).solve(network)
    answers = {c for m in result.models.values() for c in m.predict(np.zeros((2, 3)))}
    assert answers <= {"ash", "birch", "cedar"}


@pytest.mark.parametrize("name", NAMES)
def test_rows_that_are_all_alike_leave_the_class_shares(name):
    X, weight = np.ones((4, 2)), np.array([1.0, 1.0, 1.0, 5.0])
    rows = Rows(X, TREES.encode(np.array(["ash", "ash", "birch", "cedar"])), weight, Log())
    fitted = adapt(model_by_name(name, "classification"), TREES).fit([rows], seed=0)
    assert fitted.predict(X[:1]) == pytest.approx(np.array([[2, 1, 5]]) / 8)


def test_a_single_row_is_enough():
    rows = Rows(np.zeros((1, 2)), np.array([[3.0]]), np.array([0.5]), Squared())
    for name in NAMES:
        fitted = adapt(model_by_name(name, "regression"), NUMBERS).fit([rows], seed=0)
        assert fitted.predict(np.zeros((1, 2))) == pytest.approx(3.0, abs=0.1)


def test_the_estimators_take_boosted_models_and_choose_alpha():
    rng = np.random.default_rng(0)
    X, nodes = rng.normal(size=(45, 2)), np.repeat(["a", "b", "c"], 15)
    model = xgboost.XGBRegressor(n_estimators=5)
    fitted = FedRelaxRegressor(model, alpha="auto", rounds=1, public_rows=20)
    assert np.isfinite(fitted.fit(X, X[:, 0], nodes=nodes).predict(X, nodes)).all()
    labels = np.where(X[:, 0] > 0, "up", "down")
    coins = FedRelaxClassifier(
        lightgbm.LGBMClassifier(verbosity=-1, min_child_samples=2), rounds=1, alpha=0.1
    )
    assert coins.fit(X, labels, nodes=nodes).score(X, labels, nodes) > 0.9


def test_objectives_are_told_apart():
    assert adapt(xgboost.XGBRegressor(), NUMBERS).fits == {"squared"}
    assert adapt(xgboost.XGBRegressor(objective="reg:absoluteerror"), NUMBERS).fits == {"absolute"}
    assert adapt(lightgbm.LGBMRegressor(objective="poisson"), NUMBERS).fits is None
    assert adapt(lightgbm.LGBMClassifier(), COINS).fits == {"log"}
    with pytest.raises(FedRelaxError, match="minimises squared, not loss='absolute'"):
        FedRelax(loss="absolute").solve(
            regression_network(np.random.default_rng(0), xgboost.XGBRegressor())
        )


def test_two_numbers_per_row():
    rows = Rows(np.eye(4), np.arange(8.0).reshape(4, 2), np.ones(4), Squared())
    two = Task("regression", 2)
    fitted = adapt(xgboost.XGBRegressor(n_estimators=50), two).fit([rows], seed=0)
    assert fitted.predict(np.eye(4)).shape == (4, 2)
    with pytest.raises(FedRelaxError, match="LGBMRegressor predicts one number per row"):
        adapt(lightgbm.LGBMRegressor(), two)
