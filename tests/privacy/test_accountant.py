"""The accountant: closed forms, another library's numbers, and the way back."""

from __future__ import annotations

import math

import pytest
from scipy.stats import norm

from fedrelax import FedRelaxError
from fedrelax.privacy import GaussianMechanism

GRID = [(0.5, 1), (1.0, 1), (3.0, 10), (10.0, 100), (40.0, 5)]


def test_the_known_numbers():
    mechanism = GaussianMechanism(sigma=10, sensitivity=1, releases=100)
    assert mechanism.epsilon(1e-5) == pytest.approx(4.377, abs=5e-4)


@pytest.mark.parametrize(("sigma", "releases"), GRID)
def test_delta_is_the_formula(sigma, releases):
    mechanism = GaussianMechanism(sigma, 2.0, releases)
    mu = mechanism.mu
    assert mu == pytest.approx(math.sqrt(releases) * 2 / sigma)
    for epsilon in (0.0, 0.1, 1.0, 3.0):
        by_formula = norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(
            -epsilon / mu - mu / 2
        )
        assert mechanism.delta(epsilon) == pytest.approx(by_formula, rel=1e-6)


@pytest.mark.parametrize("delta", [1e-300, 1e-30, 1e-5, 0.05])
@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 8.0, 1e3, 1e5])
def test_calibration_inverts_epsilon(epsilon, delta):
    mechanism = GaussianMechanism.for_budget(epsilon, delta, sensitivity=3.0, releases=7)
    assert mechanism.epsilon(delta) == pytest.approx(epsilon, rel=1e-6)


def test_much_noise_needs_no_epsilon():
    mechanism = GaussianMechanism(1e4)
    assert mechanism.epsilon(0.01) == 0.0
    assert mechanism.delta(0.0) == pytest.approx(2 * norm.cdf(0.5e-4) - 1, rel=1e-6)


@pytest.mark.parametrize(("sigma", "releases"), GRID)
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-8])
def test_dp_accounting_agrees(sigma, releases, delta):
    pld = pytest.importorskip(
        "dp_accounting.pld.privacy_loss_distribution",
        reason="needs dp-accounting, which is not installed",
    )
    theirs = pld.from_gaussian_mechanism(sigma / math.sqrt(releases), sensitivity=1.0)
    ours = GaussianMechanism(sigma, 1.0, releases)
    assert ours.epsilon(delta) == pytest.approx(theirs.get_epsilon_for_delta(delta), abs=1e-3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"sigma": 0.0}, "sigma=0.0 must be a finite number above 0"),
        ({"sigma": 1.0, "sensitivity": float("nan")}, "sensitivity=nan must be"),
        ({"sigma": 1.0, "releases": 1.5}, "releases=1.5 must be a whole number"),
    ],
)
def test_what_is_no_mechanism_is_refused(arguments, words):
    with pytest.raises(FedRelaxError, match=words):
        GaussianMechanism(**arguments)


def test_what_is_no_promise_is_refused():
    with pytest.raises(FedRelaxError, match="delta=1.5 must be a number between 0 and 1"):
        GaussianMechanism(1.0).epsilon(1.5)
    with pytest.raises(FedRelaxError, match="epsilon=-1 must be"):
        GaussianMechanism.for_budget(-1, 1e-5)
