"""Gradient steps of all nodes at once, plain and RMSprop, and their engine: the paper's Algorithm 2."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fedrelax.engines.base import of_shape
from fedrelax.engines.linear.engine import ArrayEngine, system_of
from fedrelax.linear.fixed_point import NeighbourTerms, System
from fedrelax.linear.problem import LinearProblem
from fedrelax.network import Network
from fedrelax.runtime import Coupling
from fedrelax.typing import AnyArray, SparseMatrix


class RMSprop:
    """``v <- c v + (1-c) g^2``, ``w <- w - rate g / (sqrt(v) + eps)``, in place, v starting at zero."""

    def __init__(
        self, like: AnyArray, rate: float = 0.01, smoothing: float = 0.99, epsilon: float = 1e-8
    ) -> None:
        self.smoothing = smoothing
        root = (1 - smoothing) ** 0.5
        self._rate, self._epsilon = rate / root, epsilon / (2 * root)
        # v is stored as u = v / (4 (1 - c)), which saves one pass over all numbers.
        self.memory, self._work = np.zeros_like(like), np.empty_like(like)

    def __call__(self, W: AnyArray, half: AnyArray) -> None:
        """Move the models by one step; ``half`` is g / 2 and is overwritten."""
        u, work = self.memory, self._work
        np.multiply(half, half, out=work)
        u *= self.smoothing
        u += work
        np.sqrt(u, out=work)
        work += self._epsilon
        half /= work
        half *= self._rate
        W -= half


class GradientRounds:
    """One gradient step per node and round, from the neighbours' models of the last round.

    paper: ``g_i = 2 [(H_i + R_i + alpha S_i) w_i - b_i - alpha sum_j A_ij Q_j w_j]``;
    symmetric: the gradient of GTVMin.

    rule "plain": ``w <- w - rate g``. rule "rmsprop": ``v <- c v + (1-c) g^2``,
    ``w <- w - rate g / (sqrt(v) + eps)``, v starting at zero. ``first_exchange`` "zeros" takes the
    neighbours' predictions as zero in round one, as the authors' code does; "models" takes the
    initial models' predictions, as the paper says.
    """

    def __init__(
        self,
        problem: LinearProblem,
        alpha: float,
        initial: npt.ArrayLike | None = None,
        *,
        rule: Literal["rmsprop", "plain"] = "rmsprop",
        rate: float = 0.01,
        smoothing: float = 0.99,
        epsilon: float = 1e-8,
        first_exchange: Literal["models", "zeros"] = "models",
        system: System = "paper",
    ) -> None:
        self.rate = rate
        self.silent = first_exchange == "zeros"
        self.W = problem.start(initial)
        self._work = np.empty_like(self.W)
        self.rmsprop = None
        if rule == "rmsprop":
            self.rmsprop = RMSprop(self.W, rate, smoothing, epsilon)
        self._join(NeighbourTerms(problem, alpha, system))

    def _join(self, coupling: NeighbourTerms) -> None:
        self.coupling, self._matrices = coupling, coupling.node_matrices()

    def rewire(self, edges: SparseMatrix) -> None:
        """Continue on another graph, keeping models and the step rule's memory."""
        old = self.coupling
        self._join(NeighbourTerms(old.problem.on(edges), old.alpha, old.system))

    def _half_gradient(self) -> AnyArray:
        """Return ``g / 2``."""
        right = moment = self.coupling.problem.moment
        if not self.silent:
            right = self.coupling(self.W, self._work, moment)
        self.silent = False
        half: AnyArray = self._matrices @ self.W
        return np.subtract(half, right, out=half)

    def step(self) -> None:
        """Run one round."""
        half = self._half_gradient()
        if self.rmsprop is not None:
            self.rmsprop(self.W, half)
        else:
            half *= 2 * self.rate
            self.W -= half

    def gradient(self) -> AnyArray:
        """Return the gradient at the current models."""
        return 2 * self._half_gradient()

    @property
    def models(self) -> AnyArray:
        """All models (n, d, q)."""
        return self.W.copy()


class GradientEngine(ArrayEngine):
    """One gradient step per node and round, plain or RMSprop: the paper's Algorithm 2."""

    name = "gradient"

    def __init__(self, network: Network, settings: Any) -> None:
        prepared = self.prepared(network, settings).raw()
        start = prepared.alone
        if settings.initial == "uniform":
            bound = len(prepared.coordinates.scale) ** -0.5
            rng = np.random.default_rng(settings.random_state)
            start = rng.uniform(-bound, bound, start.shape)
        self._rounds = GradientRounds(
            prepared.problem,
            float(settings.alpha),
            start,
            rule=settings.step,
            rate=settings.rate,
            smoothing=settings.smoothing,
            epsilon=settings.epsilon,
            first_exchange=settings.first_exchange,
            system=system_of(settings),
        )
        coupling = Coupling(
            settings.alpha, objective=settings.objective, weighting=settings.weighting
        )
        super().__init__(prepared, self._rounds.models, coupling, settings.first_exchange)

    @classmethod
    def unsupported_reason(cls, network: Network, settings: Any) -> str | None:
        """Support models that minimise squared error exactly, on rows of features."""
        if network.kind != cls.task:
            return f"the task is {network.kind}"
        return cls.unsupported_network(network, settings)

    @classmethod
    def of(cls, network: Network, settings: Any) -> GradientEngine:
        """Return the engine with the settings of ``solvers.GradientFedRelax``."""
        return cls(network, settings)

    def rewire(self, edges: SparseMatrix) -> None:
        """Continue on another graph; the step rule keeps its memory."""
        super().rewire(edges)
        self._rounds.rewire(edges)

    def state(self) -> dict[str, Any]:
        """Return the state, with the memory of the step rule."""
        rule = self._rounds.rmsprop
        return {**super().state(), "memory": None if rule is None else rule.memory}

    def resume(self, state: Any, round: int) -> None:
        """Restore the models and the step rule's memory."""
        super().resume(state, round)
        rounds = self._rounds
        rounds.W, rounds.silent = self.models.copy(), self._zeros_first and round == 0
        if rounds.rmsprop is not None:
            rounds.rmsprop.memory = of_shape(state["memory"], self.models.shape, "memory").copy()

    def refit(self) -> AnyArray:
        """Return the models after one step."""
        self._rounds.step()
        return self._rounds.models
