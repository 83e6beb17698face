"""FedRelax for any model, Algorithm 1 of the paper, and by gradient steps for linear ones, Algorithm 2."""

from __future__ import annotations

from dataclasses import dataclass

from fedrelax.engines import NAMES, Engine, UnsupportedNetworkError, engine_for, prepare
from fedrelax.engines.linear.gradient import GradientEngine
from fedrelax.losses import Loss, Squared
from fedrelax.models import adapt
from fedrelax.network import Network
from fedrelax.runtime import RoundSettings, Settings
from fedrelax.solvers.base import Solver
from fedrelax.validation import check_choice, check_number


@dataclass(frozen=True)
class FedRelax(Settings, Solver):
    """Every round, each node refits its model to its own rows and its neighbours' predictions.

    Node i minimises  L_i(h) + alpha sum_j A_ij d(i, j),  with L_i the mean loss over its own rows
    and d(i, j) the mean discrepancy to the predictions of neighbour j on j's public rows.

    Its settings are those of ``runtime.Settings``.
    """

    def check(self, network: Network) -> None:
        """Check the settings."""
        check_choice("engine", self.engine, NAMES)
        super().check(network)

    def prepare(self, network: Network) -> Engine:
        """Return the engine of the given name, or the first that serves this network."""
        return prepare(self.engine, network, self)

    def settles(self, network: Network) -> bool:
        """Tell whether rounds are cheap and lead to one point, wherever they start."""
        return engine_for(self.engine, network, self).settles

    def rounds_for(self, network: Network) -> int:
        """Return the most rounds: as given, or as many as suit the models."""
        if self.rounds is not None:
            return self.rounds
        kind, few = engine_for(self.engine, network, self), False
        if self.update == "difference":
            models = network.distinct_models.values()
            few = not all(adapt(model, network.task).settles for model in models)
        return kind.few_rounds if few else kind.usual_rounds


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
        return GradientEngine(network, self)

    def losses(self, kind: str) -> tuple[Loss, Loss]:
        """Return squared error for both."""
        return Squared(), Squared()
