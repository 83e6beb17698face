"""Losses: values, derivatives, and the identities that the solver uses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrelax import FedRelaxError
from fedrelax.losses import Absolute, Huber, Log, Squared, Weighted, get_loss, requirement

ALL = [Squared(), Absolute(), Huber(0.7), Log()]
seeds = st.integers(0, 2**32 - 1)


def a_case(loss, seed, rows=6, outputs=3):
    rng = np.random.default_rng(seed)
    if loss.name == "log":
        return rng.dirichlet(np.ones(outputs), rows), rng.dirichlet(np.ones(outputs), rows)
    return rng.normal(size=(rows, outputs)), rng.normal(size=(rows, outputs))


@pytest.mark.parametrize("loss", ALL, ids=repr)
@given(seeds)
def test_zero_where_equal_and_never_negative(loss, seed):
    target, prediction = a_case(loss, seed)
    assert loss.per_row(target, target) == pytest.approx(0, abs=1e-12)
    assert (loss.per_row(target, prediction) >= -1e-12).all()


@pytest.mark.parametrize("loss", ALL, ids=repr)
@given(seeds)
def test_gradient_is_the_derivative(loss, seed):
    target, prediction = a_case(loss, seed)
    direction = np.random.default_rng(seed + 1).normal(size=prediction.shape)
    h = 1e-7
    if (
        np.abs(np.abs(target - prediction) - 0.7).min() < 1e-4
        or np.abs(target - prediction).min() < 1e-4
    ):
        return  # Near a kink the difference quotient says nothing.
    if loss.name == "log" and prediction.min() < 1e-3:
        return
    up = loss.per_row(target, prediction + h * direction)
    down = loss.per_row(target, prediction - h * direction)
    slope = (loss.gradient(target, prediction) * direction).sum(axis=1)
    assert (up - down) / (2 * h) == pytest.approx(slope, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("loss", [loss for loss in ALL if loss.collapses], ids=repr)
@given(seeds)
def test_collapse_differs_by_a_constant(loss, seed):
    """sum_j a_j L(t_j, p) - deg L(mean, p) must not depend on p."""
    rng = np.random.default_rng(seed)
    targets = [a_case(loss, seed + k)[0] for k in range(4)]
    weights = rng.uniform(0.1, 2, size=4)
    mean = np.average(targets, axis=0, weights=weights)
    gaps = []
    for k in range(2):
        p = a_case(loss, seed + 10 + k)[1]
        whole = sum(a * loss.per_row(t, p) for a, t in zip(weights, targets, strict=True))
        gaps.append(whole - weights.sum() * loss.per_row(mean, p))
    assert gaps[0] == pytest.approx(gaps[1], abs=1e-9)


@pytest.mark.parametrize("loss", [loss for loss in ALL if loss.symmetric], ids=repr)
def test_symmetric(loss):
    target, prediction = a_case(loss, 0)
    assert loss.per_row(target, prediction) == pytest.approx(loss.per_row(prediction, target))


def test_log_is_the_log_loss_on_hard_labels():
    prediction = np.array([[0.2, 0.8]])
    assert Log().mean(np.array([[0.0, 1.0]]), prediction) == pytest.approx(-np.log(0.8))


def test_huber_joins_smoothly_and_becomes_linear():
    huber = Huber(0.5)
    assert huber.mean(np.zeros((1, 1)), np.full((1, 1), 0.5)) == pytest.approx(0.125)
    assert huber.mean(np.zeros((1, 1)), np.full((1, 1), 2.5)) == pytest.approx(0.5 * (2.5 - 0.25))


def test_what_a_pair_asks_for():
    assert requirement(Squared(), Squared()) == "weighted rows"
    assert requirement(Huber(1.0), Huber(2.0)) == "gradients"
    assert requirement(Absolute(), Squared()) == "gradients"


def test_a_weight_of_rows_leaves_the_loss_what_it_is():
    weighted = Weighted(Huber(0.7), lambda X: X[:, 0])
    assert weighted.plain == Huber(0.7)
    assert (weighted.name, weighted.symmetric, weighted.collapses) == (
        "weighted huber",
        True,
        False,
    )
    assert requirement(Huber(0.7), weighted) == "weighted rows"
    assert requirement(Squared(), weighted) == "gradients"
    with pytest.raises(FedRelaxError, match="depends on the rows"):
        weighted.mean(np.zeros((1, 1)), np.ones((1, 1)))


@pytest.mark.parametrize(
    ("by", "sentence"),
    [
        (lambda X: X, r"must return 3 finite weights.*shape \(3, 2\)"),
        (lambda X: X[:, 0], "from -1 to 1"),
        (lambda X: np.full(3, np.nan), "finite weights"),
        (lambda X: np.zeros(3), "every public row a weight of 0"),
    ],
)
def test_weights_that_are_none(by, sentence):
    X = np.column_stack([[-1.0, 0.0, 1.0], np.zeros(3)])
    with pytest.raises(FedRelaxError, match=sentence):
        Weighted(Squared(), by).weights(X)


def test_weighted_of_what_is_no_loss():
    with pytest.raises(FedRelaxError, match="loss must be a"):
        Weighted("squared", len)
    with pytest.raises(FedRelaxError, match="by must be a function"):
        Weighted(Squared(), 2.0)
    with pytest.raises(FedRelaxError, match="pass it as discrepancy="):
        get_loss(Weighted(Squared(), len), "regression")


def test_names():
    assert get_loss(None, "classification").name == "log"
    with pytest.raises(FedRelaxError, match="did you mean 'squared'"):
        get_loss("sqared", "regression")
    with pytest.raises(FedRelaxError, match="does not apply to classification; use log, squared"):
        get_loss("absolute", "classification", "discrepancy")
    with pytest.raises(FedRelaxError, match="delta must be a positive"):
        Huber(-1)
