"""Models that learn row by row, and go on from round to round."""

from __future__ import annotations

import numpy as np
import pytest

from fedrelax import FedRelax, FedRelaxError, FedRelaxWarning
from fedrelax.losses import Log, Squared
from fedrelax.models import Rows, Task, adapt
from fedrelax.models.incremental import IncrementalModel, from_bytes, to_bytes
from fedrelax.models.names import model_by_name
from tests.conftest import classification_network, regression_network

river = pytest.importorskip("river", reason="needs the extra incremental (river)")
from river import forest, linear_model, neighbors, tree  # noqa: E402

NUMBERS = Task("regression", 1)
TREES = Task("classification", 3, np.array(["ash", "birch", "cedar"]))


def steps(n=200, seed=0):
    """A target with one step, which a tree finds."""
    X = np.random.default_rng(seed).uniform(-1, 1, (n, 2))
    return Rows(X, np.where(X[:, :1] > 0, 3.0, -1.0), np.ones(n), Squared())


def test_a_tree_finds_a_step():
    rows = steps()
    fitted = adapt(model_by_name("hoeffding", "regression"), NUMBERS).fit([rows], seed=0)
    assert type(fitted.estimator) is tree.HoeffdingTreeRegressor
    assert rows.loss.mean(rows.target, fitted.predict(rows.X)) < 0.5


def test_weights_are_repetitions():
    """A row of weight 3 counts like three rows: the mean of a leaf says so."""
    rows = Rows(np.zeros((2, 1)), np.array([[0.0], [4.0]]), np.array([1.0, 3.0]), Squared())
    fitted = adapt(model_by_name("hoeffding", "regression"), NUMBERS).fit([rows], seed=0)
    assert fitted.weights == "exact"
    assert fitted.predict(np.zeros((1, 1))) == pytest.approx(3.0)


def test_soft_labels_become_class_shares():
    rng = np.random.default_rng(0)
    target, w = rng.dirichlet([1, 2, 4], size=9), rng.uniform(0.1, 1, 9)
    rows = Rows(np.zeros((9, 1)), target, w, Log())
    fitted = adapt(model_by_name("hoeffding", "classification"), TREES).fit([rows], seed=0)
    assert fitted.predict(np.zeros((1, 1)))[0] == pytest.approx(w @ target / w.sum())


def test_rounds_learn_on_without_being_asked_unless_told_otherwise():
    first = Rows(np.zeros((1, 1)), np.array([[2.0]]), np.ones(1), Squared())
    second = Rows(np.zeros((1, 1)), np.array([[4.0]]), np.ones(1), Squared())
    mean_tree = tree.HoeffdingTreeRegressor(leaf_prediction="mean")
    X = np.zeros((1, 1))
    on = adapt(mean_tree, NUMBERS).fit([first], seed=0)
    assert on.fit([second], seed=0).predict(X) == pytest.approx(3.0)
    assert on.predict(X) == pytest.approx(2.0)  # the old one stays as it was
    afresh = adapt(IncrementalModel(mean_tree, learn_on=False), NUMBERS).fit([first], seed=0)
    assert afresh.fit([second], seed=0).predict(X) == pytest.approx(4.0)
    assert afresh.fit([second], seed=0, continued=True).predict(X) == pytest.approx(3.0)


MODELS = [
    tree.HoeffdingTreeRegressor(grace_period=10),
    tree.HoeffdingAdaptiveTreeRegressor(grace_period=10),
    forest.ARFRegressor(n_models=2),
    linear_model.LinearRegression(),
]
CLASSIFIERS = [
    tree.HoeffdingTreeClassifier(grace_period=10),
    tree.HoeffdingAdaptiveTreeClassifier(grace_period=10),
    tree.ExtremelyFastDecisionTreeClassifier(grace_period=10),
    linear_model.SoftmaxRegression(),
]


@pytest.mark.filterwarnings("ignore::fedrelax.FedRelaxWarning")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_every_regressor_takes_part_and_repeats_itself(model):
    network = regression_network(np.random.default_rng(0), model)
    runs = [FedRelax(alpha=0.3, rounds=2, n_jobs=n).solve(network) for n in (1, 1, 2)]
    assert all(type(m) is type(model) for m in runs[0].models.values())
    objectives = [run.history["objective"] for run in runs]
    assert np.isfinite(objectives[0]).all()
    assert np.array_equal(objectives[0], objectives[1])
    assert np.array_equal(objectives[0], objectives[2])


@pytest.mark.filterwarnings("ignore::fedrelax.FedRelaxWarning")
@pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda model: type(model).__name__)
def test_every_classifier_takes_part(model):
    network = classification_network(np.random.default_rng(0), model)
    result = FedRelax(alpha=0.5, rounds=2).solve(network)
    for local in result.local_models.values():
        share = local.predict(np.random.default_rng(1).normal(size=(9, 3)))
        assert share.shape == (9, 3)
        assert share.sum(axis=1) == pytest.approx(1.0)


def test_without_weights_rows_are_resampled_and_that_is_said():
    network = regression_network(np.random.default_rng(0), neighbors.KNNRegressor(n_neighbors=2))
    with pytest.warns(FedRelaxWarning, match="'KNNRegressor' takes no sample weights"):
        FedRelax(alpha=0.3, rounds=1).solve(network)


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_a_saved_tree_answers_the_same_and_learns_no_more(kind):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 3))
    if kind == "regression":
        task, rows = NUMBERS, Rows(X, np.sign(X[:, :1]) + X[:, 1:2], np.ones(300), Squared())
    else:
        names = TREES.classes[(X[:, 0] > 0).astype(int) + (X[:, 1] > 0)]
        task, rows = TREES, Rows(X, TREES.encode(names), np.ones(300), Log())
    local = adapt(model_by_name(("hoeffding"), kind), task).fit([rows], seed=0)
    assert local.estimator.n_nodes > 3
    saved = from_bytes(to_bytes(local.estimator), ())
    assert np.array_equal(adapt(saved, task).predict(X), local.predict(X))
    assert to_bytes(saved) == to_bytes(local.estimator)
    with pytest.raises(FedRelaxError, match="can predict but not learn on"):
        adapt(saved, task).fit([rows], seed=0)


def test_a_damaged_tree_is_refused():
    rows = steps()
    local = adapt(model_by_name("hoeffding", "regression"), NUMBERS).fit([rows], seed=0)
    data = to_bytes(local.estimator).replace(b'"left": [1,', b'"left": [0,')
    with pytest.raises(FedRelaxError, match="tree is damaged"):
        from_bytes(data, ())


def test_what_does_not_fit_is_said_before_training():
    with pytest.raises(FedRelaxError, match="predicts classes, and the target holds numbers"):
        adapt(tree.HoeffdingTreeClassifier(), NUMBERS)
    with pytest.raises(FedRelaxError, match="one number per row, and the target has 2"):
        adapt(tree.HoeffdingTreeRegressor(), Task("regression", 2))
    with pytest.raises(FedRelaxError, match="passes=0 must be a whole number"):
        adapt(IncrementalModel(tree.HoeffdingTreeRegressor(), passes=0), NUMBERS)
    with pytest.raises(FedRelaxError, match="no learn_one and predict_one"):
        adapt(IncrementalModel(3), NUMBERS)
    with pytest.raises(FedRelaxError, match=r"cannot be saved without pickle; of river"):
        to_bytes(tree.HoeffdingAdaptiveTreeRegressor())
