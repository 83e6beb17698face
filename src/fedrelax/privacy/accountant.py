"""How much privacy Gaussian noise gives, and how much noise a guarantee needs.

A release adds N(0, sigma^2 I) to numbers that differ by at most ``sensitivity`` (in Euclidean norm) between
two neighbouring datasets. It is (epsilon, delta)-differentially private if no event becomes more likely by
more than a factor e^epsilon, up to delta, when one dataset is replaced by the other.

Exact (Gaussian differential privacy; Balle and Wang 2018, Dong, Roth and Su 2022): k releases amount to
one with mu = sqrt(k) sensitivity / sigma, and

    delta(epsilon) = Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2).

By zero-concentrated differential privacy (Bun and Steinke 2016): rho = k sensitivity^2 / (2 sigma^2), and
epsilon = rho + 2 sqrt(rho ln(1/delta)), an upper bound, for comparison with other accountants.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr

from fedrelax.errors import FedRelaxError
from fedrelax.network import Network
from fedrelax.runtime import Settings
from fedrelax.runtime.exchange import Layer, Promise
from fedrelax.validation import check_count

LOG_ROOT = 0.5 * math.log(2 * math.pi)
TIGHT = {"xtol": 1e-13, "rtol": 1e-13}


@dataclass(frozen=True)
class GaussianMechanism:
    """A number of releases, each with Gaussian noise of standard deviation ``sigma``.

    >>> mechanism = GaussianMechanism(sigma=10, releases=100)
    >>> round(mechanism.epsilon(1e-5), 3), round(mechanism.epsilon_zcdp_simple(1e-5), 3)
    (4.377, 5.299)
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

    @property
    def rho(self) -> float:
        """The parameter of zero-concentrated differential privacy."""
        return 0.5 * self.mu**2

    def delta(self, epsilon: float) -> float:
        """Return the exact delta for an epsilon."""
        return math.exp(_log_delta(float(epsilon), self.mu))

    def epsilon(self, delta: float) -> float:
        """Return the exact epsilon for a delta."""
        most = self.epsilon_zcdp_simple(delta)
        if _log_delta(0.0, self.mu) <= math.log(delta):
            return 0.0
        return float(brentq(lambda epsilon: _excess(epsilon, self.mu, delta), 0.0, most, **TIGHT))

    def epsilon_zcdp_simple(self, delta: float) -> float:
        """Return rho + 2 sqrt(rho ln(1/delta))."""
        _check_delta(delta)
        return self.rho + 2.0 * math.sqrt(-self.rho * math.log(delta))


def _log_delta(epsilon: float, mu: float) -> float:
    """Return log delta(epsilon).

    With t = epsilon/mu - mu/2, phi(t + mu) e^epsilon = phi(t), so delta = phi(t) (R(t) - R(t + mu)) with
    Mills' ratio R: nothing overflows, and no two nearly equal numbers are subtracted.
    """
    t = epsilon / mu - mu / 2
    log_density = -0.5 * t * t - LOG_ROOT
    if t > -5.0:
        gap = _mills(t) - _mills(t + mu)
        return log_density + math.log(gap) if gap > 0 else -math.inf
    less = math.exp(log_density + math.log(_mills(t + mu)) - log_ndtr(-t))
    return float(log_ndtr(-t) + math.log1p(-less))


def _mills(t: float) -> float:
    """Return Mills' ratio Phi(-t) / phi(t); t is never far below zero."""
    return math.sqrt(math.pi / 2) * float(erfcx(t / math.sqrt(2)))


def _excess(epsilon: float, mu: float, delta: float) -> float:
    """Return log delta(epsilon) - log delta, finite everywhere."""
    return max(_log_delta(epsilon, mu), -1e300) - math.log(delta)


def _positive(name: str, value: float) -> None:
    if isinstance(value, bool) or not (np.isfinite(value) and value > 0):
        raise FedRelaxError(f"{name}={value!r} must be a finite number above 0")


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise FedRelaxError(f"delta={delta!r} must be a number between 0 and 1")


@dataclass(kw_only=True, eq=False)
class Budget(Layer):
    """A layer for a single run: a second run on the same rows would reveal more than was promised.

    Copies of an estimator share this object, and it cannot be sent to other processes, so a search
    over alpha cannot spend it unnoticed: choose alpha without it, or on public data.

    The promise covers what leaves a node through the exchange. Others also learn when a run stopped,
    whom a node listens to and which round was best, so settings that decide these by the rows are refused.
    """

    protects: ClassVar[str]

    range: tuple[float, float] | None = None
    """The smallest and the largest number that a node may use. It must not be taken from the rows."""
    delta: float = 1e-5
    random_state: int | None = 0
    """The seed of the noise. Anyone who knows it can remove the noise: use None outside experiments."""
    spent: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if self.range is not None and not -math.inf < self.range[0] < self.range[1] < math.inf:
            raise FedRelaxError(f"range={self.range!r} must be two finite numbers, low < high")

    @property
    def limits(self) -> tuple[float, float]:
        """The range, which numbers need and classes do not."""
        if self.range is None:
            raise FedRelaxError(
                "range=None: numbers need the smallest and the largest value, such as range=(-30, 30); "
                "take it from what is known beforehand, not from the rows"
            )
        return self.range

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise FedRelaxError(
            f"{type(self).__name__} holds a budget that can be spent once, so it cannot be copied to "
            "another process or file; use n_jobs=1 and give alpha as a number"
        )

    @abstractmethod
    def noise(self, network: Network) -> GaussianMechanism:
        """Return the noise on everything that leaves a node."""

    def promise(self, network: Network, settings: Settings) -> Promise:
        """Return the promise that holds for every node."""
        says = self.describe(network, settings)
        epsilon = self.noise(network).epsilon(self.delta)
        return Promise(epsilon, self.delta, self.protects, says)

    def check(self, network: Network, settings: Settings) -> None:
        """Refuse a second run, and settings that take decisions by the rows without noise."""
        name = type(self).__name__
        if not network.task.is_classification:
            _ = self.limits
        if self.spent:
            raise FedRelaxError(
                f"exchange: the budget of this {name} has been spent in an earlier run; make a new one, "
                "and add up the epsilons of both"
            )
        unseen = "by rows without noise"
        if settings.patience is not None:
            raise FedRelaxError(
                f"patience={settings.patience!r}: the best round would be chosen {unseen}, as in a search "
                f"over alpha; with {name} use patience=None and a single alpha"
            )
        if settings.tol != 0:
            raise FedRelaxError(
                f"tol={settings.tol!r}: the last round would be chosen {unseen}; with {name} use tol=0"
            )
        if settings.wiring is not None:
            raise FedRelaxError(
                f"wiring={settings.wiring.name!r}: whom a node keeps would be chosen {unseen}; with "
                f"{name} use wiring=None"
            )
