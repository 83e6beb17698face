"""Ways to take neighbours' answers: closed forms, and what a minority of liars can do."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeClassifier

from fedrelax import FedRelax, FedRelaxError, LinearModel, SoftmaxModel
from fedrelax.combining import (
    WAYS,
    Clipped,
    Combine,
    Huber,
    Mean,
    Median,
    Nearest,
    Trimmed,
    as_combine,
    usable,
)
from tests.conftest import classification_network, random_graph, regression_network

SPAN = (np.array([-1.0]), np.array([1.0]))
ROBUST = [Median(), Trimmed(0.3), Huber(), Nearest(), Clipped()]


def column(*numbers: float) -> np.ndarray:
    return np.array(numbers, dtype=float)[:, None, None]


def combined(way: Combine, answers: np.ndarray, weights=None, own: float = 0.0):
    weights = np.ones(len(answers)) if weights is None else np.array(weights, dtype=float)
    target, weight = way(answers, weights, np.full(answers.shape[1:], own), SPAN)
    return target[0, 0], weight[0]


def test_closed_forms():
    answers = column(5.0, 1.0, 2.0, 100.0)
    assert combined(Mean(), answers, [1, 1, 2, 0.5]) == pytest.approx((60 / 4.5, 4.5))
    assert combined(Median(), answers) == (3.5, 4.0)
    assert combined(Median(), answers, [1, 3, 1, 1]) == (
        1.5,
        6.0,
    )  # a tie: half of the weight is at 1
    assert combined(Median(), answers, [1, 3.1, 1, 1]) == pytest.approx((1.0, 6.1))
    assert combined(Trimmed(0.25), answers) == (3.5, 4.0)
    assert combined(Trimmed(0.125), answers) == pytest.approx(((0.5 + 2 + 5 + 50) / 3, 4.0))
    assert combined(Clipped(margin=0.5), answers) == pytest.approx(((1 + 2 + 2 + 2) / 4, 4.0))
    assert combined(Nearest(0.25, 1.0), answers, own=1.6) == (2.0, 4.0)
    assert combined(Nearest(0.25, 2.3), answers, own=1.6) == (1.5, 4.0)  # 0.36 is within 2.3 * 0.16
    target, weight = combined(Huber(times=1.0), answers)  # the median distance is 3.5
    assert weight == pytest.approx(3.5 / 5 + 1 + 1 + 3.5 / 100)
    assert target == pytest.approx((3.5 + 1 + 2 + 3.5) / weight)


def test_the_median_is_that_of_numpy():
    answers = np.random.default_rng(0).normal(size=(7, 20, 3))
    for count in (6, 7):
        target, _ = Median()(answers[:count], np.full(count, 0.3), answers[0], SPAN)
        assert target == pytest.approx(np.median(answers[:count], axis=0))


@pytest.mark.parametrize("way", ROBUST, ids=lambda way: way.name)
def test_a_minority_cannot_go_far(way):
    honest = np.linspace(-1, 1, 9)
    for lie in (1e3, -1e6, 1e12):
        target, _ = combined(way, column(*honest, lie, lie, lie))
        assert abs(target) <= 1.5
    assert abs(combined(Mean(), column(*honest, 1e3))[0]) > 50


@pytest.mark.parametrize("name", [name for name in WAYS if name != "mean"])
def test_every_way_serves_numbers_and_classes(name):
    numbers = regression_network(np.random.default_rng(0), Ridge())
    classes = classification_network(np.random.default_rng(0), DecisionTreeClassifier(max_depth=2))
    for network in (numbers, classes):
        result = FedRelax(alpha=0.5, rounds=3, combine=name).solve(network)
        assert result.engine == "sites"
        assert np.isfinite(result.history["objective"]).all()


def test_where_all_agree_every_way_is_the_mean():
    """With two nodes each has one neighbour, and there is nothing to weigh up."""
    graph = random_graph(np.random.default_rng(1), 2)
    network = regression_network(np.random.default_rng(0), LinearModel(ridge=0.1), graph=graph)
    mean = FedRelax(alpha=0.5, rounds=5, tol=0, engine="sites").solve(network)
    for way in (Median(), Trimmed(), Nearest(), Clipped(margin=1e6)):
        other = FedRelax(alpha=0.5, rounds=5, tol=0, combine=way).solve(network)
        assert other.models[0].coef_ == pytest.approx(mean.models[0].coef_, abs=1e-9)


def test_level_is_taken_out_before_answers_are_compared():
    """A neighbour that differs in level alone is no liar where levels are one's own."""
    network = regression_network(np.random.default_rng(0), LinearModel(ridge=0.1), n=6)
    mean = FedRelax(alpha=0.5, rounds=4, level=0.0, engine="sites").solve(network)
    median = FedRelax(alpha=0.5, rounds=4, level=0.0, combine="median").solve(network)
    public = network.public.common
    gap = [mean.models[i].predict(public) - median.models[i].predict(public) for i in range(6)]
    assert np.mean(gap) == pytest.approx(0.0, abs=0.3)


def test_what_may_be_taken_in():
    good = np.array([[0.25, 0.75]])
    assert usable(good, (1, 2), True) is good
    assert usable(good, (2, 2), True) is None
    for bad in (np.nan, np.inf, -np.inf, 1e200):
        assert usable(np.array([[0.5, bad]]), (1, 2), False) is None
        assert usable(np.array([[0.5, bad]]), (1, 2), True) is None
    assert usable(np.array([[3.0, -1.0]]), (1, 2), True).tolist() == [[1.0, 0.0]]
    assert usable(np.array([[3.0, -1.0]]), (1, 2), False).tolist() == [[3.0, -1.0]]
    assert usable(np.array([[-3.0, -1.0]]), (1, 2), True) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"combine": "medain"}, "combine='medain' must be one of .*; did you mean 'median'?"),
        ({"combine": 3}, "combine=3 must be one of"),
        (
            {"combine": "median", "engine": "linear"},
            "it always takes the neighbours' mean, but combine='median'",
        ),
    ],
)
def test_what_is_refused(changes, words):
    with pytest.raises(FedRelaxError, match=words):
        FedRelax(**changes).solve(regression_network(np.random.default_rng(0), Ridge()))


def test_rows_of_each_nodes_own_cannot_be_compared():
    network = regression_network(np.random.default_rng(0), Ridge(), common=False)
    with pytest.raises(
        FedRelaxError, match="combine='median' compares the neighbours' answers on the same"
    ):
        FedRelax(combine="median").solve(network)
    assert FedRelax(combine="clipped", rounds=2).solve(network).n_rounds == 2


def test_settings_of_ways_are_checked():
    for make in (
        lambda: Trimmed(0.5),
        lambda: Nearest(times=0.5),
        lambda: Huber(-1),
        lambda: Clipped(-1),
    ):
        with pytest.raises(FedRelaxError, match="must be"):
            make()
    assert as_combine("huber") == Huber()


def test_soft_labels_stay_probabilities():
    network = classification_network(np.random.default_rng(0), SoftmaxModel(0.1), n=6)
    result = FedRelax(alpha=1.0, rounds=4, combine="median").solve(network)
    for model in result.local_models.values():
        assert model.predict(network.public.common).sum(axis=1) == pytest.approx(1.0)
