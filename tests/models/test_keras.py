"""Keras networks at the nodes: weights, soft labels, rounds that go on, seeds, shapes."""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys

import numpy as np
import pytest

from fedrelax import FedRelax, FedRelaxClassifier, FedRelaxError, FedRelaxRegressor, Graph, Network
from fedrelax.losses import Log, Squared
from fedrelax.models import Rows, Task, adapt
from fedrelax.models.keras import KerasModel
from fedrelax.models.keras.estimator import load_keras
from fedrelax.models.names import model_by_name
from tests.conftest import classification_network, regression_network

if not os.environ.get("KERAS_BACKEND"):
    pytest.importorskip("torch", reason="needs the extra keras (its backend, torch)")
try:
    keras = load_keras()
except FedRelaxError as error:
    pytest.skip(str(error), allow_module_level=True)

NUMBERS = Task("regression", 1)
COINS = Task("classification", 2, np.array(["head", "tail"]))
TREES = Task("classification", 3, np.array(["ash", "birch", "cedar"]))


def linear(outputs=1, loss="mse", ending="linear", width=3, rate=0.1):
    network = keras.Sequential(
        [
            keras.layers.Input((width,)),
            keras.layers.Dense(outputs, ending, kernel_initializer="zeros"),
        ]
    )
    network.compile(keras.optimizers.SGD(rate), loss)
    return network


def deep(shape, outputs):
    network = keras.Sequential(
        [keras.layers.Input(shape), keras.layers.Dense(8, "relu"), keras.layers.Dense(outputs)]
    )
    network.compile("adam", "mse")
    return network


def test_weights_count_as_in_weighted_least_squares():
    rng = np.random.default_rng(0)
    X, y, w = rng.normal(size=(24, 3)), rng.normal(size=24), rng.uniform(0, 3, 24)
    model = KerasModel(linear(), epochs=300, batch_size=24)
    fitted = adapt(model, NUMBERS).fit([Rows(X, y[:, None], w, Squared())], seed=0)
    A = np.c_[X, np.ones(24)]
    best = np.linalg.solve(A.T @ (w[:, None] * A), A.T @ (w * y))
    assert fitted.predict(X)[:, 0] == pytest.approx(A @ best, abs=1e-4)


LOSSES = {
    "softmax": ("softmax", "categorical_crossentropy"),
    "scores": ("linear", keras.losses.CategoricalCrossentropy(from_logits=True)),
    "class numbers": ("softmax", "sparse_categorical_crossentropy"),
    "class scores": ("linear", keras.losses.SparseCategoricalCrossentropy(from_logits=True)),
}


@pytest.mark.parametrize("form", LOSSES)
def test_soft_labels_reach_their_shares_in_every_form(form):
    """Rows alike but for their soft labels: the best answer is the weighted mean of the labels."""
    rng = np.random.default_rng(0)
    target, w = rng.dirichlet([1, 2, 4], size=20), rng.uniform(0.2, 2, 20)
    ending, loss = LOSSES[form]
    model = KerasModel(linear(3, loss, ending, rate=1.0), epochs=200, batch_size=60)
    rows = Rows(np.zeros((20, 3)), target, w, Log())
    answer = adapt(model, TREES).fit([rows], seed=0).predict(np.zeros((1, 3)))
    assert answer[0] == pytest.approx(w @ target / w.sum(), abs=1e-3)


@pytest.mark.parametrize("scores", [False, True])
def test_two_classes_with_one_output(scores):
    rng = np.random.default_rng(0)
    p, w = rng.uniform(size=20), rng.uniform(0.2, 2, 20)
    loss = keras.losses.BinaryCrossentropy(from_logits=scores)
    network = linear(1, loss, "linear" if scores else "sigmoid", rate=1.0)
    model = KerasModel(network, epochs=200, batch_size=20)
    rows = Rows(np.zeros((20, 3)), np.c_[1 - p, p], w, Log())
    answer = adapt(model, COINS).fit([rows], seed=0).predict(np.zeros((1, 3)))
    share = w @ p / w.sum()
    assert answer[0] == pytest.approx([1 - share, share], abs=1e-3)


def test_rounds_go_on_or_start_from_the_weights_that_were_given():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(16, 3))
    rows = Rows(X, X @ [[1.0], [2.0], [3.0]], np.ones(16), Squared())
    local = adapt(KerasModel(linear(rate=0.01), epochs=3, batch_size=16), NUMBERS)
    one = local.fit([rows], seed=0)
    more, afresh = one.fit([rows], seed=0, continued=True), one.fit([rows], seed=0)
    errors = [rows.loss.mean(rows.target, m.predict(X)) for m in (one, more, afresh)]
    assert errors[1] < errors[0] == errors[2]
    assert local.estimator.model.get_weights()[0].tolist() == [[0.0]] * 3


def test_a_bare_model_and_a_function_take_part():
    nets = [linear(width=3), KerasModel(deep, epochs=3)]
    network = regression_network(np.random.default_rng(0), lambda i: nets[i % 2])
    result = FedRelax(alpha=0.3, rounds=2, continued=True).solve(network)
    assert result.history["gtv"][-1] < result.history["gtv"][0]
    home = result.models[0]
    assert isinstance(home.model_, keras.Model)
    grid = np.random.default_rng(1).normal(size=(5, 3))
    assert home.predict(grid) == pytest.approx(result.local_models[0].predict(grid)[:, 0])


def test_text_labels_and_a_missing_class():
    model = model_by_name("keras-mlp", "classification").set_params(epochs=5)
    result = FedRelax(alpha=0.5, rounds=1).solve(
        classification_network(np.random.default_rng(0), model)
    )
    grid = np.random.default_rng(1).normal(size=(9, 3))
    for local in result.local_models.values():
        assert local.predict(grid).sum(axis=1) == pytest.approx(1.0)
    assert {c for m in result.models.values() for c in m.predict(grid)} <= {"ash", "birch", "cedar"}


def test_images_pass_through():
    def convolution(shape, outputs):
        layers = [keras.layers.Input(shape), keras.layers.Conv2D(2, 3), keras.layers.Flatten()]
        network = keras.Sequential([*layers, keras.layers.Dense(outputs, "softmax")])
        network.compile("adam", "categorical_crossentropy")
        return network

    rng = np.random.default_rng(0)
    network = Network(
        Graph.from_edges([("a", "b")]), "classification", public=rng.normal(size=(6, 5, 5, 1))
    )
    for label in "ab":
        y = rng.integers(0, 2, 8)
        network.add(label, rng.normal(size=(8, 5, 5, 1)), y, KerasModel(convolution, epochs=1))
    result = FedRelax(alpha=0.5, rounds=1).solve(network)
    assert result.local_models["a"].predict(rng.normal(size=(3, 5, 5, 1))).shape == (3, 2)


def test_same_seed_same_result_and_the_callers_generators_stay():
    rows = Rows(np.eye(3), np.eye(3)[:, :1], np.ones(3), Squared())
    local = adapt(KerasModel(deep, epochs=2), NUMBERS)
    random.seed(1), np.random.seed(1), keras.utils.set_random_seed(1)
    want = random.random(), np.random.random(), float(keras.random.uniform(()))
    random.seed(1), np.random.seed(1), keras.utils.set_random_seed(1)
    answers = [local.fit([rows], seed=s).predict(np.eye(3)) for s in (5, 5, 6)]
    assert (random.random(), np.random.random(), float(keras.random.uniform(()))) == want
    assert np.array_equal(answers[0], answers[1])
    assert not np.array_equal(answers[0], answers[2])


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", [lambda: KerasModel(deep, epochs=2), linear], ids=["function", "bare"]
)
def test_workers_do_not_change_the_result(make):
    network = regression_network(np.random.default_rng(0), make(), n=2, m_pub=5)
    one, two = (FedRelax(alpha=0.5, rounds=1, n_jobs=n).solve(network) for n in (1, 2))
    grid = np.random.default_rng(1).normal(size=(9, 3))
    for label in one.local_models:
        a, b = one.local_models[label].predict(grid), two.local_models[label].predict(grid)
        assert np.array_equal(a, b)


def test_scaled_rows_make_units_meaningless():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    y = X @ [[1.0], [2.0], [3.0]]
    model = KerasModel(deep, epochs=5, scale=True)
    one = adapt(model, NUMBERS).fit([Rows(X, y, np.ones(20), Squared())], seed=0)
    far = adapt(model, NUMBERS).fit(
        [Rows(1000 * X + 5, 50 * y - 7, np.ones(20), Squared())], seed=0
    )
    assert far.predict(1000 * X + 5) == pytest.approx(50 * one.predict(X) - 7, abs=1e-2)


def test_a_fitted_model_survives_pickling_between_processes():
    rows = Rows(np.eye(3), np.eye(3)[:, :1], np.ones(3), Squared())
    fitted = adapt(linear(), NUMBERS).fit([rows], seed=0)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict(np.eye(3)), fitted.predict(np.eye(3)))


def test_the_estimators_take_keras_models():
    rng = np.random.default_rng(0)
    X, nodes = rng.normal(size=(20, 3)), np.repeat(["a", "b"], 10)
    model = KerasModel(linear(), epochs=1)
    fitted = FedRelaxRegressor(model, rounds=1, public_rows=10, alpha="auto")
    assert fitted.fit(X, X[:, 0], nodes=nodes).predict(X, nodes).shape == (20,)
    labels = np.where(X[:, 0] > 0, "up", "down")
    model = KerasModel(linear(2, "categorical_crossentropy", "softmax"), epochs=30)
    coins = FedRelaxClassifier(model, rounds=1, alpha=0.1).fit(X, labels, nodes=nodes)
    assert coins.score(X, labels, nodes) > 0.8


def refused(model, task=NUMBERS):
    with pytest.raises(FedRelaxError) as caught:
        adapt(model, task)
    return str(caught.value)


def test_what_cannot_be_trained_is_said_before_training():
    bare = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1)])
    assert "is not compiled; call model.compile" in refused(bare)
    assert "has 1 output and there are 3 classes" in refused(linear(), TREES)
    assert "a function of the input shape and the number of outputs" in refused(
        KerasModel(lambda: 1)
    )
    network = regression_network(np.random.default_rng(0), linear(loss="mae"))
    with pytest.raises(FedRelaxError, match="minimises absolute, not loss='squared'"):
        FedRelax(loss="squared").solve(network)


def test_outputs_that_are_no_probabilities_are_refused():
    network = classification_network(
        np.random.default_rng(0), linear(3, "categorical_crossentropy", "sigmoid", rate=1e-6)
    )
    with pytest.raises(FedRelaxError, match="not probabilities; end it with softmax"):
        FedRelax(rounds=1).solve(network)


@pytest.mark.slow
def test_without_a_word_from_the_user_keras_gets_torch():
    code = "from fedrelax.models.keras.estimator import load_keras; print(load_keras().backend.backend())"
    environment = {k: v for k, v in os.environ.items() if k != "KERAS_BACKEND"}
    told = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert told.stdout.split()[-1] == "torch"
