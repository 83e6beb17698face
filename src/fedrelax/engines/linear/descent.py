"""The engine of gradient steps, for ``solvers.GradientFedRelax``."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrelax.engines.base import coupling_factor
from fedrelax.engines.linear.checks import reason_in_models, reason_in_rows
from fedrelax.engines.linear.engine import ArrayEngine, system_of
from fedrelax.engines.linear.gradient import GradientRounds
from fedrelax.engines.linear.preparation import Prepared
from fedrelax.network import Network


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

    def rewire(self, edges: Any) -> None:
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
