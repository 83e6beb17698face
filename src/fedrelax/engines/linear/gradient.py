"""Gradient steps of all nodes at once, plain and RMSprop, and their engine: the paper's Algorithm 2."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fedrelax.engines.base import of_shape
from fedrelax.engines.linear.engine import ArrayEngine
from fedrelax.engines.linear.network import Coordinates
from fedrelax.linear.fixed_point import NeighbourTerms, System
from fedrelax.linear.problem import LinearProblem
from fedrelax.network import Network
from fedrelax.runtime import Coupling
from fedrelax.typing import AnyArray, FloatArray, SparseMatrix


class RMSprop:
    """``v <- c v + (1-c) g^2``, ``w <- w - rate g / (sqrt(v) + eps)``, v starting at zero."""

    def __init__(
        self, like: AnyArray, rate: float = 0.01, smoothing: float = 0.99, epsilon: float = 1e-8
    ) -> None:
        self.rate, self.smoothing, self.epsilon = rate, smoothing, epsilon
        self.memory = np.zeros_like(like)

    def __call__(self, gradient: AnyArray) -> FloatArray:
        """Return what is to be subtracted from the models."""
        self.memory = self.smoothing * self.memory + (1 - self.smoothing) * gradient**2
        return np.asarray(self.rate * gradient / (np.sqrt(self.memory) + self.epsilon))


class GradientRounds:
    """One gradient step per node and round, from the neighbours' models of the last round.

    paper: ``g_i = 2 [(H_i + R_i + alpha S_i) w_i - b_i - alpha sum_j A_ij Q_j w_j]``;
    symmetric: the gradient of GTVMin.

    rule "plain": ``w <- w - rate g``; "rmsprop": see ``RMSprop``. ``first_exchange`` "zeros" takes the
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
        self.rate, self.silent = rate, first_exchange == "zeros"
        self.models = problem.start(initial)
        """All models (n, d, q); replaced, never modified in place."""
        self.rmsprop: RMSprop | None = None
        if rule == "rmsprop":
            self.rmsprop = RMSprop(self.models, rate, smoothing, epsilon)
        self._join(NeighbourTerms(problem, alpha, system))

    def _join(self, coupling: NeighbourTerms) -> None:
        self.coupling, self._matrices = coupling, coupling.node_matrices()

    def rewire(self, edges: SparseMatrix) -> None:
        """Continue on another graph, keeping models and the step rule's memory."""
        old = self.coupling
        self._join(NeighbourTerms(old.problem.on(edges), old.alpha, old.system))

    def gradient(self) -> FloatArray:
        """Return the gradient at the current models."""
        right = self.coupling.problem.moment
        if not self.silent:
            right = right + self.coupling(self.models)
        return np.asarray(2.0 * (self._matrices @ self.models - right))

    def step(self) -> None:
        """Run one round."""
        gradient = self.gradient()
        self.silent = False
        step = self.rate * gradient if self.rmsprop is None else self.rmsprop(gradient)
        self.models = self.models - step


class GradientEngine(ArrayEngine):
    """One gradient step per node and round, plain or RMSprop: the paper's Algorithm 2."""

    name = "gradient"

    def __init__(self, network: Network, settings: Any) -> None:
        super().__init__(network, Coupling(settings.alpha, objective=settings.objective))
        # Gradient steps are defined in the user's features.
        start = self.alone = self.weights_of(self.alone)
        features = self.coordinates.scale.size
        self._take(Coordinates(np.zeros(features), np.ones(features), self.network.intercept))
        if settings.initial == "uniform":
            bound = features**-0.5
            rng = np.random.default_rng(settings.random_state)
            start = rng.uniform(-bound, bound, start.shape)
        named = ("rate", "smoothing", "epsilon", "first_exchange")
        self._rounds = GradientRounds(
            self.problem,
            float(settings.alpha),
            start,
            rule=settings.step,
            system=settings.system,
            **{name: getattr(settings, name) for name in named},
        )
        self.models = self._rounds.models

    @classmethod
    def unsupported_reason(cls, network: Network, settings: Any) -> str | None:
        """Support models that minimise squared error exactly, on rows of features."""
        if network.kind != cls.task:
            return f"the task is {network.kind}"
        if settings.weighting != "mean":
            return f"gradient steps need weighting='mean', not {settings.weighting!r}"
        return cls.unsupported_network(network, settings)

    def share(self, round: int) -> None:
        """Let every node send its model, or in round 0 zero if asked for."""
        super().share(round)
        if self._rounds.silent:
            self.messages = np.zeros_like(self.sent)

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
        rounds.models, rounds.silent = self.models, rounds.silent and round == 0
        if rounds.rmsprop is not None:
            rounds.rmsprop.memory = of_shape(state["memory"], self.models.shape, "memory")

    def refit(self) -> AnyArray:
        """Return the models after one step."""
        self._rounds.step()
        return self._rounds.models
