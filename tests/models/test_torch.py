"""Nets of PyTorch take part like any model: their losses, shapes, modes, seeds and messages."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge

pytest.importorskip("torch", reason="nets need torch: pip install 'fedrelax[torch]'")

import torch
from torch import nn

from fedrelax import (
    FedRelax,
    FedRelaxClassifier,
    FedRelaxError,
    FedRelaxRegressor,
    Graph,
    Network,
    NodeFitError,
    TorchModel,
)
from fedrelax.losses import Absolute, Huber, Log, Loss, Squared
from fedrelax.models import Rows, Task, adapt
from fedrelax.models.torch import MLP, TorchNode, linear, mlp
from fedrelax.models.torch.training import per_row
from tests.conftest import classification_network, regression_network

NUMBERS = Task("regression", 1)


class LogCosh(Loss):
    """A loss that only numpy knows."""

    name, tasks = "logcosh", frozenset({"regression"})
    symmetric, collapses = True, False

    def per_row(self, target, prediction):
        return np.log(np.cosh(prediction - target)).sum(axis=-1)

    def gradient(self, target, prediction):
        return np.tanh(prediction - target)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def rows_of(rng, n=12, d=3, loss=None, slope=(1.0, -2.0, 0.5)):
    X = rng.normal(size=(n, d))
    return Rows(X, (X @ slope)[:, None], np.ones(n), loss or Squared())


def small(**settings):
    return TorchModel(MLP((6,)), **{"steps": 5, "batched": False, **settings})


# Losses


@pytest.mark.parametrize("loss", [Squared(), Absolute(), Huber(0.7), LogCosh()])
def test_every_loss_for_numbers_has_its_value_and_slope(rng, loss):
    target, output = rng.normal(size=(2, 9, 2))
    tensor = torch.tensor(output, requires_grad=True)
    found = per_row(loss, torch.tensor(target), tensor, classify=False)
    np.testing.assert_allclose(found.detach().numpy(), loss.per_row(target, output), rtol=1e-12)
    found.sum().backward()
    np.testing.assert_allclose(tensor.grad.numpy(), loss.gradient(target, output), rtol=1e-12)


@pytest.mark.parametrize("loss", [Log(), Squared()])
def test_every_loss_for_classes_has_the_value_of_the_softmax(rng, loss):
    target, logits = rng.dirichlet(np.ones(4), size=7), rng.normal(size=(7, 4))
    probability = torch.tensor(logits).softmax(-1).numpy()
    found = per_row(loss, torch.tensor(target), torch.tensor(logits), classify=True)
    np.testing.assert_allclose(found.numpy(), loss.per_row(target, probability), rtol=1e-10)


@pytest.mark.parametrize("pair", [("huber", "squared"), ("absolute", "huber"), (LogCosh(), None)])
def test_two_losses_are_trained_at_once(rng, pair):
    network = regression_network(rng, TorchModel(MLP((8,)), steps=40))
    result = FedRelax(alpha=0.3, loss=pair[0], discrepancy=pair[1], rounds=5, tol=0).solve(network)
    objective = result.history["objective"]
    assert objective[-1] < 0.9 * objective[0]


# Fit


def test_a_linear_net_finds_the_least_squares_solution(rng):
    """SGD on the weighted mean: the minimiser of the weighted sum, whatever the weights."""
    term = rows_of(rng, n=20)
    weight = rng.uniform(0.1, 3.0, 20)
    noisy = Rows(term.X, term.target + rng.normal(size=(20, 1)), weight, Squared())
    model = TorchModel(nn.Linear(3, 1), "sgd", lr=0.2, steps=2000, dtype="float64")
    fitted = adapt(model, NUMBERS).fit([noisy], seed=0).estimator
    exact = Ridge(alpha=0.0).fit(noisy.X, noisy.target[:, 0], sample_weight=weight)
    np.testing.assert_allclose(fitted.module_.weight.detach().numpy()[0], exact.coef_, atol=1e-8)


def test_fit_leaves_the_old_model_as_it_is(rng):
    first = adapt(small(), NUMBERS).fit([rows_of(rng)], seed=1)
    X = rng.normal(size=(4, 3))
    before = first.predict(X)
    second = first.fit([rows_of(rng)], seed=1)
    assert np.array_equal(first.predict(X), before)
    assert not np.allclose(second.predict(X), before)
    again = first.fit([rows_of(rng)], seed=1)
    assert not np.array_equal(again.predict(X), before)


def test_rounds_go_on_unless_told_otherwise(rng):
    """Ten fits of one step are one fit of ten steps, with the optimiser's memory."""
    term = rows_of(rng)
    whole = adapt(small(steps=10), NUMBERS).fit([term], seed=3)
    steps = adapt(small(steps=1), NUMBERS)
    fresh = adapt(small(steps=1, warm_start=False), NUMBERS)
    for _ in range(10):
        steps = steps.fit([term], seed=3)
        fresh = fresh.fit([term], seed=3)
    np.testing.assert_allclose(steps.predict(term.X), whole.predict(term.X), atol=1e-6)
    once = adapt(small(steps=1), NUMBERS).fit([term], seed=3)
    assert np.array_equal(fresh.predict(term.X), once.predict(term.X))
    told = once.fit([term], seed=3, continued=True)
    assert not np.array_equal(told.predict(term.X), once.predict(term.X))


def test_a_factory_draws_by_the_nodes_seed_and_a_module_starts_as_given(rng):
    term = rows_of(rng)
    drawn = [adapt(small(first=0), NUMBERS).fit([term], seed=s).predict(term.X) for s in (1, 1, 2)]
    assert np.array_equal(drawn[0], drawn[1])
    assert not np.allclose(drawn[0], drawn[2])
    module = nn.Linear(3, 1)
    given = adapt(TorchModel(module, first=0), NUMBERS).fit([term], seed=1).predict(term.X)
    with torch.no_grad():
        expected = module(torch.tensor(term.X, dtype=torch.float32)).numpy()
    np.testing.assert_allclose(given, expected, rtol=1e-6)


def test_training_does_not_move_the_random_numbers_of_others(rng):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    adapt(small(batch_size=4), NUMBERS).fit([rows_of(rng)], seed=1)
    assert torch.equal(torch.rand(3), expected)


def test_minibatches_and_dropout_are_seeded_and_differ_between_rounds(rng):
    net = nn.Sequential(nn.Linear(3, 16), nn.Dropout(0.5), nn.Linear(16, 1))
    term, runs = rows_of(rng), []
    for _ in range(2):
        node = adapt(TorchModel(net, batch_size=5, epochs=2), NUMBERS)
        one = node.fit([term], seed=4)
        runs.append((one.predict(term.X), one.fit([term], seed=4).predict(term.X)))
    assert np.array_equal(runs[0][0], runs[1][0])
    assert np.array_equal(runs[0][1], runs[1][1])


def test_predictions_are_made_in_evaluation_mode(rng):
    """Batch normalisation and dropout: a row's answer does not depend on the rows beside it."""
    net = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1))
    fitted = adapt(TorchModel(net, batch_size=4, epochs=3), NUMBERS).fit([rows_of(rng)], seed=0)
    X = rng.normal(size=(6, 3))
    alone = np.concatenate([fitted.predict(X[i : i + 1]) for i in range(6)])
    np.testing.assert_allclose(fitted.predict(X), alone, rtol=1e-5)
    assert int(fitted.estimator.module_[1].num_batches_tracked) == 9


def test_scaling_makes_units_irrelevant(rng):
    term = rows_of(rng, n=30)
    large = Rows(1000 * term.X + 5e4, 1e4 * term.target - 3e5, term.weight, Squared())
    plain, scaled = (
        adapt(small(scale=True, steps=80, dtype="float64"), NUMBERS).fit([t], seed=0)
        for t in (term, large)
    )
    expected = 1e4 * plain.predict(term.X) - 3e5
    np.testing.assert_allclose(scaled.predict(large.X), expected, rtol=1e-6)


def test_images_are_scaled_by_channel(rng):
    X = rng.normal(size=(5, 2, 4, 4)) * np.array([3.0, 50.0])[None, :, None, None]
    term = Rows(X, rng.normal(size=(5, 1)), np.ones(5), Squared())
    node = adapt(TorchModel(MLP((4,)), scale=True, steps=1), NUMBERS).fit([term], seed=0)
    spread = node.estimator.trained().scaling.spread
    np.testing.assert_allclose(spread.ravel().numpy(), X.std(axis=(0, 2, 3)), rtol=1e-5)


def test_clipping_bounds_a_step(rng):
    module = nn.Linear(3, 1)
    settings = {"optimizer": "sgd", "lr": 1.0, "steps": 1, "clip": 0.01, "batched": False}
    fitted = adapt(TorchModel(module, **settings), NUMBERS).fit([rows_of(rng)], seed=0)
    moved = [
        (a - b).detach().ravel()
        for a, b in zip(fitted.estimator.module_.parameters(), module.parameters(), strict=True)
    ]
    assert float(torch.cat(moved).norm()) == pytest.approx(0.01, rel=1e-3)


# Networks and estimators


def test_rows_of_any_shape_pass_through_a_network(rng):
    graph = Graph.complete(["a", "b", "c"])
    network = Network(graph, "classification", public=rng.normal(size=(9, 1, 6, 6)))

    def net():
        return nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 3))

    for label in graph.labels:
        X, y = rng.normal(size=(8, 1, 6, 6)), np.array(["x", "y", "z"])[rng.integers(3, size=8)]
        y[:3] = ["x", "y", "z"]
        network.add(label, X, y, TorchModel(net, steps=3), validation=(X[:2], y[:2]))
    result = FedRelax(rounds=2, tol=0).solve(network)
    answer = result.models["a"].predict_proba(rng.normal(size=(4, 1, 6, 6)))
    assert answer.shape == (4, 3)
    np.testing.assert_allclose(answer.sum(axis=1), 1.0)
    assert set(result.models["b"].predict(rng.normal(size=(4, 1, 6, 6)))) <= {"x", "y", "z"}


@pytest.mark.parametrize(("alpha", "wiring"), [("auto", "fixed"), (0.3, "rewire")])
def test_estimators_take_images_and_choose_alpha_for_nets(rng, alpha, wiring):
    X, nodes = rng.normal(size=(40, 1, 3, 3)), np.repeat(list("abcd"), 10)
    y = X[:, 0, 0, 0] + 0.1 * rng.normal(size=40)
    model = FedRelaxRegressor(
        TorchModel(MLP((4,)), steps=3), alpha=alpha, rounds=3, wiring=wiring, public_rows=20
    )
    model.fit(X, y, nodes=nodes)
    assert model.predict(X, nodes=nodes).shape == (40,)
    assert isinstance(model.models_["a"], TorchModel)


def test_a_bare_module_is_a_model(rng):
    X, nodes = rng.normal(size=(30, 3)), np.repeat(list("abc"), 10)
    model = FedRelaxClassifier(nn.Linear(3, 2), rounds=2, alpha=0.1).fit(
        X, X[:, 0] > 0, nodes=nodes
    )
    assert isinstance(model.models_["a"], TorchModel)
    assert model.score(X, X[:, 0] > 0, nodes=nodes) > 0.6


@pytest.mark.parametrize("make", [mlp, linear])
def test_the_ready_nets_learn_raw_tables(rng, make):
    X = rng.normal(size=(60, 3)) * [1, 100, 1e4] + [0, 50, -1e5]
    y = 1e3 * (X[:, 0] + X[:, 1] / 100) + 1e5
    nodes = np.repeat(list("abc"), 20)
    model = FedRelaxRegressor(make(False), rounds=3, alpha=0.1).fit(X, y, nodes=nodes)
    assert model.score(X, y, nodes=nodes) > 0.9
    kind = y > np.median(y)
    judge = FedRelaxClassifier(make(True), rounds=3, alpha=0.1).fit(X, kind, nodes=nodes)
    assert judge.score(X, kind, nodes=nodes) > 0.9


def test_several_outputs(rng):
    network = regression_network(rng, TorchModel(MLP((8,)), steps=20), outputs=2)
    result = FedRelax(rounds=2).solve(network)
    assert result.models[network.graph.labels[0]].predict(np.zeros((3, 3))).shape == (3, 2)


def test_a_description_is_cloned_and_a_fitted_one_pickled(rng):
    model = clone(TorchModel(MLP((3,)), lr=0.5))
    assert (model.module, model.lr) == (MLP((3,)), 0.5)
    network = regression_network(rng, TorchModel(MLP((4,)), steps=3))
    fitted = next(iter(FedRelax(rounds=1).solve(network).models.values()))
    copied = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(copied.predict(np.eye(3)), fitted.predict(np.eye(3)))
    with pytest.raises(FedRelaxError, match="not trained"):
        clone(fitted).predict(np.eye(3))


# Bad input, before any training


class Forbidden(nn.Linear):
    """Fails the test if it is ever trained."""

    def train(self, mode=True):
        assert not mode
        return super().train(mode)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (Forbidden(3, 5), ["Forbidden", r"\(1, 5\)", r"\(1, 3\)", "no node has seen"]),
        (Forbidden(3, 2), ["Forbidden", r"\(1, 2\)", r"\(1, 3\)", "'ash', 'birch', 'cedar'"]),
        (Forbidden(7, 3), ["Forbidden", r"rows of shape \(3,\)"]),
        (lambda depth: None, ["depth", r"\(input_shape, n_outputs\)"]),
        (lambda: 3, ["returned an object of type int"]),
        (lambda: nn.ReLU(), ["nothing to train"]),
        ("mlp", ["neither an nn.Module"]),
    ],
)
def test_a_module_that_does_not_fit_is_named_before_training(rng, module, words):
    network = classification_network(rng, TorchModel(module))
    with pytest.raises(FedRelaxError) as caught:
        FedRelax(rounds=1).solve(network)
    assert not isinstance(caught.value, NodeFitError)
    assert str(caught.value).startswith(f"node {network.graph.labels[0]!r}: ")
    for word in words:
        assert caught.match(word)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"optimizer": "adm"}, "did you mean 'adam'"),
        ({"steps": 5, "epochs": 2}, "give one of the two"),
        ({"steps": 0}, "at least 1"),
        ({"first": -1}, "at least 0"),
        ({"lr": 0}, "number above 0"),
        ({"clip": float("nan")}, "number above 0"),
        ({"dtype": "float16"}, "float32 or float64"),
        ({"device": "toaster"}, "use 'cpu' or 'auto'"),
        ({"batch_size": 2.5}, "whole number"),
    ],
)
def test_settings_are_checked_before_training(rng, settings, words):
    network = regression_network(rng, TorchModel(MLP(), **settings))
    with pytest.raises(FedRelaxError, match=words):
        FedRelax().solve(network)


@pytest.mark.parametrize("batched", [True, False])
def test_a_loss_that_is_no_number_names_the_node_and_what_to_try(rng, batched):
    def model(i):
        net = nn.Linear(3, 1)
        if i == 2:
            net.weight.data[:] = 1e30  # Its square is more than a float32 can hold.
        return TorchModel(net, "sgd", batched=batched)

    network = regression_network(rng, model)
    with pytest.raises(NodeFitError) as caught:
        FedRelax().solve(network)
    for word in (f"node {network.graph.labels[2]!r}", "became", "smaller lr", "scale=True", "clip"):
        assert word in str(caught.value)


def test_without_torch_the_extra_is_named():
    code = (
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'torch':\n"
        "            raise ModuleNotFoundError('No module named torch', name='torch')\n"
        "sys.meta_path.insert(0, Missing())\n"
        "from fedrelax import FedRelaxError\n"
        "try:\n    from fedrelax import TorchModel\n"
        "except FedRelaxError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "torch is not installed; pip install 'fedrelax[torch]' adds it\n"


def test_the_node_is_what_the_registry_makes():
    assert isinstance(adapt(TorchModel(MLP()), NUMBERS), TorchNode)
    assert adapt(nn.Linear(3, 1), NUMBERS).name == "Linear"
