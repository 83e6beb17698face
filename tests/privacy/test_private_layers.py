"""Noise around the exchange: its size, its promise, and what is refused."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

from fedrelax import FedRelax, FedRelaxError, FedRelaxRegressor, SoftmaxModel
from fedrelax.privacy import GaussianMechanism, PrivateStatistics
from fedrelax.privacy.statistics import Scaling, _moments, _noisy, _sensitivity, on_simplex
from fedrelax.runtime import Layer, Message
from fedrelax.runtime.exchange import Wrapped
from fedrelax.wiring import Rewire
from tests.conftest import classification_network, regression_network


class Recorded(Layer):
    """Remembers what passes."""

    def __init__(self):
        self.seen: list[Message] = []

    def around(self, inner, network, settings):
        layer = self

        class Recording(Wrapped):
            def post(self, messages):
                kept = list(messages)
                layer.seen += kept
                super().post(kept)

        return Recording(inner)


def network_of(**changes):
    return regression_network(np.random.default_rng(0), Ridge(), **changes)


def solver(**changes):
    return FedRelax(**{"alpha": 0.5, "rounds": 3, "tol": 0, **changes})


def test_noise_has_the_size_that_the_budget_asks_for():
    square, cross = np.zeros((200, 200)), np.zeros((200, 1))
    sigma = PrivateStatistics(epsilon=1.0, range=(-9, 9)).noise(network_of()).sigma
    assert sigma == GaussianMechanism.for_budget(1.0, 1e-5, np.sqrt(4.5)).sigma
    square, cross = _noisy(square, cross, sigma, np.random.default_rng(0))
    assert np.array_equal(square, square.T)
    assert square[np.triu_indices(200, 1)].std() == pytest.approx(sigma / np.sqrt(2), rel=0.03)
    assert np.diag(square).std() == pytest.approx(sigma, rel=0.15)
    assert cross.std() == pytest.approx(sigma, rel=0.15)


def test_the_noise_is_that_of_the_seed_and_differs_by_node():
    network = network_of()
    one, again, other = (
        PrivateStatistics(epsilon=1.0, range=(-9, 9), random_state=seed).answers(network)
        for seed in (1, 1, 2)
    )
    for label in network.labels:
        assert np.array_equal(one[label], again[label])
        assert not np.allclose(one[label], other[label])


def test_probabilities_are_the_nearest():
    rng = np.random.default_rng(0)
    values = rng.normal(0, 9, (15, 3))
    near = on_simplex(values)
    assert near.min() >= 0
    assert near.sum(axis=1) == pytest.approx(1.0)
    gap = np.linalg.norm(near - values, axis=1)
    for other in rng.dirichlet(np.ones(3), 100):
        assert (gap <= np.linalg.norm(other - values, axis=1) + 1e-9).all()


def test_the_moments_move_by_no_more_than_stated():
    """Over random pairs of rows and targets, and the pair that is worst by the formula."""
    rng = np.random.default_rng(0)
    scaling = Scaling.of(rng.normal(size=(50, 4)))
    square, reached = 4.5, 0.0
    rows = scaling.rows(rng.normal(0, 5, (2, 4000, 4)).reshape(-1, 4)).reshape(2, 4000, -1)
    for u, w in zip(*rows, strict=True):
        one, other = _moments(u[None], np.ones((1, 1))), _moments(w[None], -np.ones((1, 1)))
        gap = sum(np.square(a - b).sum() for a, b in zip(one, other, strict=True))
        reached = max(reached, gap)
    assert 0.97 * square < reached <= square + 1e-9
    assert _sensitivity(False) ** 2 == pytest.approx(square)
    assert _sensitivity(True) == 2.0


def test_statistics_with_little_noise_are_the_neighbourhoods_ridge_regression():
    network = network_of()
    private = PrivateStatistics(epsilon=1e12, range=(-50.0, 50.0))
    answers = private.answers(network)
    label = network.labels[0]
    near = network.graph.neighbours(label)
    most = max(near.values())
    X = np.concatenate([network.nodes[j].X for j in (label, *near)])
    y = np.concatenate([network.nodes[j].y for j in (label, *near)])
    weight = [np.full(len(network.nodes[j].X), a / most) for j, a in {label: most, **near}.items()]
    length = Scaling.of(network.public.common)
    assert np.linalg.norm(length.rows(X), axis=1).max() <= 1 + 1e-12
    clipped = length.rows(X)[:, :-1] * np.sqrt(2)
    public = length.rows(network.public.common)[:, :-1] * np.sqrt(2)
    same = Ridge(alpha=1e-9).fit(clipped, y, sample_weight=np.concatenate(weight))
    assert answers[label][:, 0] == pytest.approx(same.predict(public), abs=1e-3)


@pytest.mark.parametrize("model", [Ridge(), DecisionTreeRegressor(max_depth=2)])
def test_the_released_answers_are_all_that_neighbours_hear(model):
    network = regression_network(np.random.default_rng(0), model)
    after = Recorded()
    private = PrivateStatistics(epsilon=5.0, range=(-10.0, 10.0))
    result = solver(exchange=[private, after]).solve(network)
    released = PrivateStatistics(epsilon=5.0, range=(-10.0, 10.0)).answers(network)
    for message in after.seen:
        assert np.array_equal(message.predictions, released[message.sender])
    assert "one row replaced" in result.around[0]


def test_classes_hear_probabilities():
    network = classification_network(np.random.default_rng(0), SoftmaxModel(0.1))
    after = Recorded()
    solver(exchange=[PrivateStatistics(epsilon=5.0), after]).solve(network)
    told = np.array([message.predictions for message in after.seen])
    assert told.min() >= 0
    assert told.sum(axis=2) == pytest.approx(1.0)


def test_a_budget_is_spent_once():
    network = network_of()
    private = PrivateStatistics(epsilon=1.0, range=(-9, 9))
    one = solver(exchange=private)
    one.solve(network)
    with pytest.raises(FedRelaxError, match="has been spent in an earlier run"):
        one.solve(network)
    assert copy.deepcopy(private) is private
    with pytest.raises(FedRelaxError, match="cannot be copied to another process"):
        pickle.dumps(private)


def test_a_search_cannot_spend_it_unseen():
    rng = np.random.default_rng(0)
    X, y, nodes = rng.normal(size=(60, 2)), rng.normal(size=60), np.repeat(range(4), 15)
    private = PrivateStatistics(epsilon=1.0, range=(-9, 9))
    made = FedRelaxRegressor(
        Ridge(), solver=FedRelax(exchange=private, tol=0), alpha=(0.1, 1.0), rounds=2
    )
    with pytest.raises(FedRelaxError, match="as a search over alpha does"):
        made.fit(X, y, nodes=nodes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tol": 1e-3}, "tol=0.001 takes decisions.* by rows without noise"),
        ({"tol": None}, "use tol=0"),
        ({"wiring": Rewire()}, "use wiring=None"),
        ({"engine": "linear"}, "the linear engine does not apply: it sends no messages"),
    ],
)
def test_what_would_tell_more_is_refused(changes, words):
    private = PrivateStatistics(epsilon=1.0, range=(-9, 9))
    with pytest.raises(FedRelaxError, match=words):
        solver(**{"exchange": private, **changes}).solve(network_of())


def test_a_range_is_asked_for_and_other_objects_are_refused():
    with pytest.raises(FedRelaxError, match="range=None: numbers need the smallest"):
        solver(exchange=PrivateStatistics(epsilon=1.0)).solve(network_of())
    with pytest.raises(FedRelaxError, match="exchange='noise' must be None, a layer"):
        solver(exchange="noise").solve(network_of())
    with pytest.raises(FedRelaxError, match="needs one common set of public rows"):
        solver(exchange=PrivateStatistics(epsilon=1.0, range=(-9, 9))).solve(
            network_of(common=False)
        )
