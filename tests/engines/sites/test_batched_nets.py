"""Nets of one architecture train at once, and nobody can tell from the results."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.linear_model import Ridge

pytest.importorskip("torch", reason="nets need torch: pip install 'fedrelax[torch]'")

import torch
from torch import nn

from fedrelax import FedRelax, FedRelaxWarning, Graph, LinearModel, Network, TorchModel
from fedrelax.losses import Squared
from fedrelax.models import Rows, Task, adapt
from fedrelax.models.torch import MLP, TorchNode, unsupported_reason
from fedrelax.wiring import Rewire
from tests.conftest import classification_network, regression_network

NUMBERS = Task("regression", 1)


@pytest.fixture
def batches(monkeypatch):
    """Count the nodes of every batched fit."""
    counted: list[int] = []
    fit_many = TorchNode.fit_many.__func__

    def counting(cls, models, problems, **rest):
        counted.append(len(models))
        return fit_many(cls, models, problems, **rest)

    monkeypatch.setattr(TorchNode, "fit_many", classmethod(counting))
    return counted


def answers(network, **settings):
    result = FedRelax(engine="sites", **{"rounds": 3, "tol": 0.0, "alpha": 0.3, **settings}).solve(
        network
    )
    X = np.random.default_rng(9).normal(size=(7, *network.nodes[0].X.shape[1:]))
    found = np.stack([model.predict(X) for model in result.local_models.values()])
    return found, result.history["objective"]


def both_ways(make, batches, **settings):
    """Return the largest difference between all at once and one by one."""
    together, history = answers(make(True), **settings)
    assert batches == [len(together)] * len(history)  # One batch per round, with every node in it.
    batches.clear()
    alone, other = answers(make(False), **settings)
    assert batches == []
    np.testing.assert_allclose(history, other, rtol=1e-9)
    return np.abs(together - alone).max()


def exact(**settings):
    return {"module": MLP((8,)), "steps": 6, "dtype": "float64", **settings}


STEPS = {
    "adam": {},
    "scaled": {"scale": True},
    "clipped sgd": {"optimizer": "sgd", "clip": 0.1, "options": {"momentum": 0.9}},
    "afresh": {"optimizer": "rmsprop", "warm_start": False},
    "first": {"first": 2},
    "weight decay": {"optimizer": torch.optim.AdamW, "options": {"weight_decay": 0.1}},
}
SOLVERS = {
    "paper": {},
    "symmetric": {"objective": "gtvmin"},
    "two losses": {"loss": "huber", "discrepancy": "squared"},
    "not collapsed": {"loss": "absolute"},
    "memory": {"damping": 0.3, "first_exchange": "zeros"},
}


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("common", [True, False], ids=["common", "per node"])
def test_numbers_are_the_same_all_at_once(batches, steps, common):
    def make(batched):
        model = TorchModel(**exact(**steps, batched=batched))
        return regression_network(np.random.default_rng(0), model, common=common)

    assert both_ways(make, batches) < 1e-10


@pytest.mark.parametrize("settings", SOLVERS.values(), ids=SOLVERS)
@pytest.mark.parametrize("common", [True, False], ids=["common", "per node"])
def test_every_solver_setting_is_the_same_all_at_once(batches, settings, common):
    def make(batched):
        model = TorchModel(**exact(batched=batched))
        return regression_network(np.random.default_rng(0), model, common=common)

    assert both_ways(make, batches, **settings) < 1e-10


@pytest.mark.parametrize("losses", [{}, {"loss": "squared"}, {"discrepancy": "squared"}])
def test_classes_are_the_same_all_at_once(batches, losses):
    def make(batched):
        model = TorchModel(**exact(batched=batched))
        return classification_network(np.random.default_rng(0), model)

    assert both_ways(make, batches, **losses) < 1e-10


def test_single_precision_is_the_same_to_1e_4(batches):
    def make(batched):
        model = TorchModel(MLP((32,)), steps=10, batched=batched)
        return regression_network(np.random.default_rng(0), model, n=12)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        together, alone = (answers(make(batched))[0] for batched in (True, False))
    assert np.abs(together - alone).max() < 1e-4
    assert np.abs(together).max() > 0.1


class Gate(nn.Module):
    """A module of one's own, with a branch, a reshaping and weights that are not trained."""

    def __init__(self, slope):
        super().__init__()
        self.inner, self.gate, self.slope = nn.Linear(3, 6), nn.Linear(3, 6), slope
        self.last = nn.Linear(6, 1)
        self.last.weight.requires_grad_(False)

    def forward(self, X):
        hidden = torch.sigmoid(self.gate(X)) * torch.tanh(self.slope * self.inner(X))
        return self.last(hidden).squeeze(-1)


def network_of(models, shape=(3,), common=True):
    """Nodes with models of choice, each joined to every other."""
    rng = np.random.default_rng(1)
    network = Network(Graph.complete(range(len(models))), public=rng.normal(size=(11, *shape)))
    for i, model in enumerate(models):
        X = rng.normal(size=(4 + i, *shape))
        network.add(i, X, X.reshape(len(X), -1)[:, 0], model, validation=(X[:2], np.ones(2)))
    return network


def test_any_module_that_pytorch_can_batch_is_the_same(batches):
    def make(batched):
        return network_of([TorchModel(**exact(module=lambda: Gate(0.5), batched=batched))] * 4)

    assert both_ways(make, batches) < 1e-10


def test_convolutions_are_the_same(batches):
    def conv():
        return nn.Sequential(
            nn.Conv2d(2, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 1)
        )

    def make(batched):
        return network_of([TorchModel(**exact(module=conv, batched=batched))] * 4, (2, 6, 6))

    assert both_ways(make, batches) < 1e-10


def test_batches_form_among_other_kinds_of_nodes(batches):
    """Two architectures, two settings, two linear models: who is alike trains together."""
    wide, narrow = TorchModel(**exact(module=MLP((9,)))), TorchModel(**exact())
    slower = TorchModel(**exact(lr=0.001))
    kinds = [wide, Ridge(), narrow, wide, narrow, slower, LinearModel(), wide]
    found, history = answers(network_of(kinds))
    assert batches == [3, 2] * len(history)
    alone = [
        TorchModel(**{**kind.get_params(deep=False), "batched": False})
        if isinstance(kind, TorchModel)
        else kind
        for kind in kinds
    ]
    expected, _ = answers(network_of(alone))
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_modules_with_different_constants_do_not_share_a_batch(batches):
    gates = [TorchModel(**exact(module=Gate(slope))) for slope in (0.5, 2.0)]
    answers(network_of([*gates, *gates]), rounds=1)
    assert batches == [2, 2, 2, 2]


@pytest.mark.slow
def test_a_result_is_the_same_on_any_number_of_workers(batches):
    def make():
        kinds = [TorchModel(MLP((4,)), steps=3), TorchModel(MLP((4,)), steps=3), Ridge()]
        return network_of([*kinds, TorchModel(MLP((4,)), epochs=1, batch_size=3)])

    one, two = (answers(make(), n_jobs=jobs)[0] for jobs in (1, 2))
    assert np.array_equal(one, two)


def test_patience_goes_back_to_the_best_round_and_wiring_changes_the_graph(batches):
    def make(batched):
        return network_of([TorchModel(**exact(batched=batched, lr=0.1))] * 6)

    settings = {"rounds": 12, "patience": 2}
    together, _ = answers(make(True), **settings)
    alone, _ = answers(make(False), **settings)
    np.testing.assert_allclose(together, alone, atol=1e-9)
    together, _ = answers(make(True), rounds=12, wiring=Rewire())
    alone, _ = answers(make(False), rounds=12, wiring=Rewire())
    np.testing.assert_allclose(together, alone, atol=1e-9)


def test_one_node_after_the_other_has_no_batches(batches):
    answers(network_of([TorchModel(**exact())] * 4), order="sequential")
    assert batches == [4]  # Only the first fit, alone, is everybody's at once.


REASONS = [
    (MLP(), {"batched": False}, "batched=False"),
    (MLP(), {"batch_size": 4}, "batch_size=4"),
    (MLP(), {"optimizer": torch.optim.LBFGS}, "LBFGS"),
    (lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)), {}, "statistics"),
    (lambda: nn.Sequential(nn.Linear(3, 4), nn.Dropout(), nn.Linear(4, 1)), {}, "random"),
]


@pytest.mark.parametrize(("module", "settings", "words"), REASONS, ids=[r[2] for r in REASONS])
def test_what_cannot_be_batched_says_why_and_trains_one_by_one(batches, module, settings, words):
    model = TorchModel(module, **{"steps": 3, **settings})
    assert words in unsupported_reason(model, np.zeros((2, 3)), NUMBERS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answers(network_of([model] * 4), rounds=1)
    assert batches == []


def test_what_can_be_batched_has_no_reason():
    assert unsupported_reason(TorchModel(MLP()), np.zeros((2, 3)), NUMBERS) is None


class Fragile(nn.Module):
    """Cannot be batched, but only with many rows."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 1)

    def forward(self, X):
        if len(X) > 3 and bool((self.layer.weight > -1e9).all()):
            return self.layer(X) + 1.0
        return self.layer(X)


def test_a_batch_that_fails_is_trained_one_by_one_with_a_warning(batches):
    with pytest.warns(FedRelaxWarning, match="4 nodes with Fragile could not be trained at once"):
        found, _ = answers(network_of([TorchModel(**exact(module=Fragile))] * 4), rounds=1)
    alone = TorchModel(**exact(module=Fragile, batched=False))
    np.testing.assert_array_equal(found, answers(network_of([alone] * 4), rounds=1)[0])


def test_training_goes_on_by_oneself_where_the_batch_stopped():
    """The weights and the optimiser's state of one node are its own when taken out of the stack."""
    model = TorchModel(**exact(clip=0.5))
    problems = [
        [Rows(node.X, node.y[:, None], np.ones(len(node.y)), Squared())]
        for node in network_of([model] * 2)
    ]
    nodes = [adapt(model, NUMBERS) for _ in problems]
    together = TorchNode.fit_many(nodes, problems, seeds=[1, 2], continued=False)
    for seed, node, problem in zip((1, 2), together, problems, strict=True):
        alone = adapt(model, NUMBERS).fit(problem, seed=seed).fit(problem, seed=seed)
        went_on = node.fit(problem, seed=seed)
        np.testing.assert_allclose(
            went_on.predict(problem[0].X), alone.predict(problem[0].X), atol=1e-12
        )
