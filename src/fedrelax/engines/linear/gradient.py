"""Gradient steps of all nodes at once, plain and RMSprop, and their engine: the paper's Algorithm 2."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fedrelax.engines.base import coupling_factor
from fedrelax.engines.linear.checks import reason_in_models, reason_in_rows
from fedrelax.engines.linear.engine import ArrayEngine, system_of
from fedrelax.engines.linear.preparation import Prepared
from fedrelax.errors import FedRelaxError
from fedrelax.linear.fixed_point import NeighbourTerms, System
from fedrelax.linear.problem import LinearProblem
from fedrelax.network import Network
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
        self._u, self._work = np.zeros_like(like), np.empty_like(like)

    @property
    def memory(self) -> AnyArray:
        """What the next step depends on besides models and gradients."""
        return self._u

    def __call__(self, W: AnyArray, half: AnyArray) -> None:
        """Move the models by one step; ``half`` is g / 2 and is overwritten."""
        u, work = self._u, self._work
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

    With one common public set, no d x d matrix per node is formed: ``alpha (L W) Q``, with the graph's
    Laplacian L, does the coupling, and ``H_i`` may stay in row form.
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
        if rule not in ("rmsprop", "plain"):
            raise FedRelaxError(f"rule: expected 'rmsprop' or 'plain', found {rule!r}")
        if first_exchange not in ("models", "zeros"):
            raise FedRelaxError(
                f"first_exchange: expected 'models' or 'zeros', found {first_exchange!r}"
            )
        self.problem = problem
        self.rate = rate
        self.rounds = 0
        self._silent = first_exchange == "zeros"
        self.W = problem.start(initial)
        self._half, self._work = np.empty_like(self.W), np.empty_like(self.W)
        self._rmsprop = None
        if rule == "rmsprop":
            self._rmsprop = RMSprop(self.W, rate, smoothing, epsilon)
        self._join(NeighbourTerms(problem, alpha, system))
        self._has_ridge = bool(problem.ridge.any())
        self._ridge = problem.ridge[:, :, None]

    def _join(self, coupling: NeighbourTerms) -> None:
        problem = self.problem = coupling.problem
        self.coupling = coupling
        self._matrix = None if problem.public is None else coupling.node_matrices()
        self._degree = problem.degree[:, None, None]

    def rewire(self, edges: SparseMatrix) -> None:
        """Continue on another graph, keeping models and the step rule's memory."""
        old = self.coupling
        self._join(NeighbourTerms(self.problem.on(edges), old.alpha, old.system))

    def state(self) -> dict[str, Any]:
        """Return models, the step rule's memory, and whether the first exchange is still to come."""
        memory = None if self._rmsprop is None else self._rmsprop.memory
        return {"models": self.W, "memory": memory, "silent": self._silent}

    def resume(self, state: dict[str, Any]) -> None:
        """Restore that state."""
        np.copyto(self.W, state["models"])
        if self._rmsprop is not None:
            np.copyto(self._rmsprop.memory, state["memory"])
        self._silent = bool(state["silent"])

    def _half_gradient(self) -> AnyArray:
        """Return ``g / 2``."""
        problem, W, out, work = self.problem, self.W, self._half, self._work
        silent, self._silent = self._silent, False
        if self._matrix is not None:
            if silent:
                np.copyto(out, problem.moment)
            else:
                self.coupling(W, out, problem.moment)
            np.matmul(self._matrix, W, out=work)
            return np.subtract(work, out, out=out)
        np.multiply(self._degree, W, out=work)
        if not silent:
            work -= self.coupling.exchange(W, out)
        self.coupling.on_public(work, out)
        out += problem.own.apply(W, work)
        if self._has_ridge:
            out += np.multiply(self._ridge, W, out=work)
        out -= problem.moment
        return out

    def step(self) -> None:
        """Run one round."""
        half = self._half_gradient()
        if self._rmsprop is not None:
            self._rmsprop(self.W, half)
        else:
            half *= 2 * self.rate
            self.W -= half
        self.rounds += 1

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

    def __init__(
        self, prepared: Prepared, rounds: GradientRounds, factor: float, zeros_first: bool
    ) -> None:
        super().__init__(prepared, rounds.models, factor, zeros_first=zeros_first)
        self._rounds = rounds

    @classmethod
    def refusal(cls, network: Network, settings: Any) -> str | None:
        """Support models that minimise squared error exactly, on rows of features."""
        if network.kind != "regression":
            return f"the task is {network.kind}"
        return reason_in_models(network.distinct_models) or reason_in_rows(network)

    @classmethod
    def of(cls, network: Network, settings: Any) -> GradientEngine:
        """Return the engine with the settings of ``solvers.GradientFedRelax``."""
        prepared = Prepared.of(network, settings.weighting, system_of(settings)).raw()
        start = prepared.alone
        if settings.initial == "uniform":
            bound = len(prepared.coordinates.scale) ** -0.5
            rng = np.random.default_rng(settings.random_state)
            start = rng.uniform(-bound, bound, start.shape)
        zeros_first = settings.first_exchange == "zeros"
        rounds = GradientRounds(
            prepared.problem,
            float(settings.alpha),
            start,
            rule="plain" if settings.step == "plain" else "rmsprop",
            rate=settings.rate,
            smoothing=settings.smoothing,
            epsilon=settings.epsilon,
            first_exchange="zeros" if zeros_first else "models",
            system=system_of(settings),
        )
        return cls(prepared, rounds, coupling_factor(settings), zeros_first)

    def rewire(self, edges: SparseMatrix) -> None:
        """Continue on another graph; the step rule keeps its memory."""
        super().rewire(edges)
        self._rounds.rewire(edges)

    def state(self) -> dict[str, Any]:
        """Return the state, with the memory of the step rule."""
        return {**super().state(), "steps": self._rounds.state()}

    def resume(self, state: Any, round: int) -> None:
        """Restore the models and the step rule's memory."""
        super().resume(state, round)
        self._rounds.resume(state["steps"])

    def update(self, round: int) -> int:
        """Take one step."""
        self._rounds.step()
        self.W = self._rounds.models
        return 1
