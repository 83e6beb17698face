"""FedRelax for networks of least-squares models: the same rounds, all nodes at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.linear import (
    ExactUpdate,
    GradientRounds,
    RowResiduals,
    estimate_bytes,
    require_memory,
)
from fedrelax.linear.memory import Method
from fedrelax.network import Network
from fedrelax.runtime import Callback, Stopping, run
from fedrelax.solvers.base import Result, Solver
from fedrelax.solvers.checks import check_choice, check_number, check_rounds
from fedrelax.solvers.edges import EdgeValues, kept_graph
from fedrelax.solvers.fedrelax import FedRelax
from fedrelax.solvers.linear_checks import Unsuited, reason_in_models
from fedrelax.solvers.linear_engine import (
    AcceleratedEngine,
    ArrayEngine,
    ExactEngine,
    Exchange,
    GradientEngine,
)
from fedrelax.solvers.linear_measure import Measures, train_alone
from fedrelax.solvers.linear_models import FittedModels
from fedrelax.solvers.linear_network import Coordinates, LinearNetwork
from fedrelax.solvers.linear_safety import check_safe
from fedrelax.typing import FloatArray
from fedrelax.wiring import Wiring


@dataclass
class LinearFedRelax(Solver):
    """``FedRelax`` when every model is ``LinearRegression``, ``Ridge`` or ``LinearModel``.

    alpha, rounds, tol, patience, objective, order, damping, weighting, first_exchange : as in
        ``FedRelax``, with the same numbers in every round.
    update : "exact" (argmin), or one step per round by "gradient" or "rmsprop", as in the authors'
        experiments: ``v <- smoothing v + (1 - smoothing) g^2``, ``w <- w - rate g / (sqrt(v) + eps)``.
    rate, smoothing, epsilon : constants of these steps; the defaults are the paper's.
    initial : "local" training, or weights drawn "uniform" from +-1/sqrt(features).
    accelerate : go straight to the fixed point, by conjugate gradients (symmetric systems) or an
        accelerated iteration, until the relative residual is at most ``tol``; the history holds
        round 0 and the last.
    """

    alpha: float = 0.1
    rounds: int = 20
    tol: float = 1e-4
    patience: int | None = None
    objective: str = "paper"
    order: str = "simultaneous"
    damping: float = 0.0
    weighting: str = "mean"
    first_exchange: str = "models"
    update: str = "exact"
    rate: float = 0.01
    smoothing: float = 0.99
    epsilon: float = 1e-8
    initial: str = "local"
    accelerate: bool = False
    wiring: Wiring | None = None
    random_state: int | None = 0

    @classmethod
    def like(cls, settings: FedRelax) -> LinearFedRelax:
        """Return the linear solver with the general one's settings."""
        own = {field.name for field in fields(cls)}
        shared = [field.name for field in fields(settings) if field.name in own]
        return cls(**{name: getattr(settings, name) for name in shared})

    def check(self, network: Network) -> None:
        """Check settings, then every node's model."""
        check_rounds(self, network)
        check_choice("update", self.update, ("exact", "gradient", "rmsprop"))
        check_choice("initial", self.initial, ("local", "uniform"))
        check_number("rate", self.rate, least=0.0)
        check_number("smoothing", self.smoothing, least=0.0, below=1.0)
        check_number("epsilon", self.epsilon, least=0.0)
        if network.kind != "regression":
            raise Unsuited(f"the task is {network.kind}")
        if self.accelerate:
            self._check_plain("accelerate=True", "patience", "order", "damping", "update", "wiring")
            check_number("tol", self.tol, least=np.finfo(float).tiny)
        elif self.update != "exact":
            self._check_plain(f"update={self.update!r}", "order", "damping")
        reason = reason_in_models(network)
        if reason is not None:
            raise Unsuited(reason)

    def _check_plain(self, because: str, *names: str) -> None:
        usual = LinearFedRelax()
        for name in names:
            if getattr(self, name) != getattr(usual, name):
                raise FedRelaxError(
                    f"{because} goes only with {name}={getattr(usual, name)!r}, "
                    f"not {name}={getattr(self, name)!r}"
                )

    def _solve(self, network: Network, callbacks: Sequence[Callback]) -> Result:
        stacked = LinearNetwork.of(network)
        coordinates, alone, engine = self.prepare(stacked)
        rounds = min(1, int(self.rounds)) if self.accelerate else int(self.rounds)
        tol = 0.0 if self.accelerate else float(self.tol)
        outcome = run(engine, Stopping(rounds, tol, self.patience), callbacks, self.wiring)
        n_rounds, reason = outcome.n_rounds, outcome.reason
        if isinstance(engine, AcceleratedEngine) and engine.solution is not None:
            n_rounds = engine.solution.rounds
            reason = "residual below tol" if engine.solution.converged else reason

        def models(W: FloatArray, raw: bool) -> FittedModels:
            weights = W if raw else coordinates.back(W)
            return FittedModels(stacked.labels, stacked.models, stacked.task, weights)

        return Result(
            local_models=models(engine.W, raw=False),
            alone=models(alone, raw=True),
            task=stacked.task,
            graph=stacked.graph,
            discrepancies=EdgeValues(stacked.graph, engine.discrepancies(engine.given)),
            kept=kept_graph(stacked.graph, engine.edges, self.wiring),
            history=outcome.history,
            n_rounds=n_rounds,
            reason=reason,
            losses=("squared", "squared"),
            engine="linear",
        )

    def prepare(self, network: LinearNetwork) -> tuple[Coordinates, FloatArray, ArrayEngine]:
        """Return coordinates, the raw weights of every node alone, and an engine ready to run."""
        self._check_memory(network)
        standard = Coordinates.standard(network.own.X, network.intercept)
        problem = network.problem(standard, self.weighting)
        residuals = _residuals(network, standard)
        alone, apart = train_alone(network, standard, problem, residuals, self.weighting)
        weights, coordinates = standard.back(alone), standard
        if self.update != "exact":
            coordinates = Coordinates.raw(len(standard.scale), network.intercept)
            problem = network.problem(coordinates, self.weighting)
            residuals = _residuals(network, coordinates)
        reference = alone if self.update == "exact" else weights
        measures = Measures(network, coordinates, problem, residuals, reference, self.weighting)
        start = reference
        if self.initial == "uniform":
            start = coordinates.forth(self._uniform(network))
        factor = float(self.alpha) * (1.0 if self.objective == "gtvmin" else 0.5)
        exchange = Exchange(float(self.damping), self.first_exchange == "zeros")
        system: Literal["paper", "symmetric"] = "paper"
        if self.objective == "gtvmin":
            system = "symmetric"
        common = (network.labels, measures, start, factor, exchange)
        if self.update != "exact":
            rounds = GradientRounds(
                problem,
                float(self.alpha),
                start,
                rule="plain" if self.update == "gradient" else "rmsprop",
                rate=self.rate,
                smoothing=self.smoothing,
                epsilon=self.epsilon,
                first_exchange="zeros" if self.first_exchange == "zeros" else "models",
                system=system,
            )
            return coordinates, weights, GradientEngine(*common, rounds)
        exact = ExactUpdate(
            problem,
            float(self.alpha),
            system=system,
            minimum_norm=coordinates.least(network.minimum_norm),
            fused=self.accelerate,
        )
        check_safe(network, coordinates, apart, exact, self.weighting)
        if self.accelerate:
            engine = AcceleratedEngine(*common, exact, float(self.tol), int(self.rounds))
            return coordinates, weights, engine
        sequential = self.order == "sequential"
        return coordinates, weights, ExactEngine(*common, exact, sequential)

    def _uniform(self, network: LinearNetwork) -> FloatArray:
        bound = 1 / np.sqrt(network.own.X.shape[1])
        shape = (len(network.labels), network.n_weights, network.task.n_outputs)
        return np.random.default_rng(self.random_state).uniform(-bound, bound, shape)

    def _check_memory(self, network: LinearNetwork) -> None:
        """Refuse a problem that will not fit before any of it is built."""
        n, d, q = len(network.labels), network.n_weights, network.task.n_outputs
        common = network.public_offsets is None
        method: Method = "rounds" if self.update == "exact" else "gradient"
        if self.accelerate:
            method = "conjugate" if common or self.objective == "gtvmin" else "accelerated"
        needed = estimate_bytes(
            n,
            d,
            q,
            network.graph.n_edges,
            public="common" if common else "per-node",
            m=int(network.own.counts.max()),
            m_pub=None if common else int(network.public_counts.max()),
            method=method,
        )
        needed += (
            8 * n * d * d * (1 if common else 2) + network.own.X.nbytes + network.public.nbytes
        )
        try:
            require_memory(needed, n=n, d=d, common=common, dtype=np.float32)
        except FedRelaxError as error:
            raise Unsuited(str(error)) from None


def _residuals(network: LinearNetwork, coordinates: Coordinates) -> RowResiduals:
    own = network.own
    return RowResiduals(coordinates.rows(own.X), own.y, own.offsets, intercept=network.intercept)
