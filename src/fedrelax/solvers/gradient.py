"""FedRelax by gradient steps: Algorithm 2 of the paper, for linear models."""

from __future__ import annotations

from dataclasses import dataclass

from fedrelax.engines import UnsupportedNetworkError
from fedrelax.engines.linear.gradient import GradientEngine
from fedrelax.losses import Loss, Squared
from fedrelax.network import Network
from fedrelax.runtime import RoundSettings
from fedrelax.solvers.base import Solver
from fedrelax.validation import check_choice, check_number


@dataclass(frozen=True)
class GradientFedRelax(RoundSettings, Solver):
    """Every round, each node takes one gradient step on its own objective, in its own features.

    The models must be ``LinearRegression``, ``Ridge`` or ``LinearModel`` with squared error.

    alpha, rounds, tol, patience, objective, weighting, first_exchange, wiring : as in ``FedRelax``.
    step : "rmsprop" as in the authors' experiments, ``v <- smoothing v + (1 - smoothing) g^2``,
        ``w <- w - rate g / (sqrt(v) + epsilon)``, or "plain", ``w <- w - rate g``.
    rate, smoothing, epsilon : constants of these steps; the defaults are the paper's.
    initial : "local" training, or weights drawn "uniform" from +-1/sqrt(features).
    """

    rounds: int | None = 20
    step: str = "rmsprop"
    rate: float = 0.01
    smoothing: float = 0.99
    epsilon: float = 1e-8
    initial: str = "local"

    def check(self, network: Network) -> None:
        """Check the settings."""
        super().check(network)
        check_choice("step", self.step, ("rmsprop", "plain"))
        check_choice("initial", self.initial, ("local", "uniform"))
        check_number("rate", self.rate, least=0.0)
        check_number("smoothing", self.smoothing, least=0.0, below=1.0)
        check_number("epsilon", self.epsilon, least=0.0)

    def prepare(self, network: Network) -> GradientEngine:
        """Return an engine ready to run."""
        reason = GradientEngine.unsupported_reason(network, self)
        if reason is not None:
            raise UnsupportedNetworkError(GradientEngine.name, reason)
        return GradientEngine.of(network, self)

    def losses(self, kind: str) -> tuple[Loss, Loss]:
        """Return squared error for both."""
        return Squared(), Squared()
