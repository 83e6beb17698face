"""How much privacy Gaussian noise gives, and how much noise a guarantee needs.

A release adds N(0, sigma^2 I) to numbers that differ by at most ``sensitivity`` (in Euclidean norm) between
two neighbouring datasets. It is (epsilon, delta)-differentially private if no event becomes more likely by
more than a factor e^epsilon, up to delta, when one dataset is replaced by the other. By Gaussian
differential privacy (Balle and Wang 2018, Dong, Roth and Su 2022), k releases amount to one of
mu = sqrt(k) sensitivity / sigma, and exactly

    delta(epsilon) = Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr

from fedrelax.errors import FedRelaxError
from fedrelax.validation import check_count

TIGHT = {"xtol": 1e-13, "rtol": 1e-13}


@dataclass(frozen=True)
class GaussianMechanism:
    """A number of releases, each with Gaussian noise of standard deviation ``sigma``.

    >>> round(GaussianMechanism(sigma=10, releases=100).epsilon(1e-5), 3)
    4.377
    >>> round(GaussianMechanism.for_budget(4.377, 1e-5, releases=100).sigma, 2)
    10.0
    """

    sigma: float
    sensitivity: float = 1.0
    releases: int = 1

    def __post_init__(self) -> None:
        _positive("sigma", self.sigma)
        _positive("sensitivity", self.sensitivity)
        check_count("releases", self.releases, least=1)

    @classmethod
    def for_budget(
        cls, epsilon: float, delta: float, sensitivity: float = 1.0, releases: int = 1
    ) -> GaussianMechanism:
        """Return the mechanism with the least noise that keeps all releases within (epsilon, delta)."""
        _positive("epsilon", epsilon)
        _check_delta(delta)
        low = high = max(float(epsilon), 1e-3)
        while _excess(epsilon, low, delta) > 0:
            low /= 2
        while _excess(epsilon, high, delta) < 0:
            high *= 2
        ends = math.log(low), math.log(high)
        mu = math.exp(brentq(lambda log: _excess(epsilon, math.exp(log), delta), *ends, **TIGHT))
        return cls(math.sqrt(releases) * sensitivity / mu, sensitivity, releases)

    @property
    def mu(self) -> float:
        """All releases together make two datasets as hard to tell apart as N(0, 1) and N(mu, 1)."""
        return math.sqrt(self.releases) * self.sensitivity / self.sigma

    def delta(self, epsilon: float) -> float:
        """Return the delta for an epsilon."""
        return math.exp(_log_delta(float(epsilon), self.mu))

    def epsilon(self, delta: float) -> float:
        """Return the epsilon for a delta."""
        _check_delta(delta)
        if _excess(0.0, self.mu, delta) <= 0:
            return 0.0
        rho = 0.5 * self.mu**2
        most = rho + 2.0 * math.sqrt(-rho * math.log(delta))  # Bun and Steinke's bound (2016)
        return float(brentq(_excess, 0.0, most, args=(self.mu, delta), **TIGHT))


def _log_delta(epsilon: float, mu: float) -> float:
    """Return log delta(epsilon), as log Phi(a) + log(1 - e^epsilon Phi(b) / Phi(a))."""
    near, far = log_ndtr(mu / 2 - epsilon / mu), log_ndtr(-mu / 2 - epsilon / mu)
    log_ratio = min(float(epsilon + far - near), -np.finfo(float).tiny)  # rounding may reach 0
    return float(near + math.log(-math.expm1(log_ratio)))


def _excess(epsilon: float, mu: float, delta: float) -> float:
    """Return log delta(epsilon) - log delta."""
    return _log_delta(epsilon, mu) - math.log(delta)


def _positive(name: str, value: float) -> None:
    if isinstance(value, bool) or not (np.isfinite(value) and value > 0):
        raise FedRelaxError(f"{name}={value!r} must be a finite number above 0")


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise FedRelaxError(f"delta={delta!r} must be a number between 0 and 1")
