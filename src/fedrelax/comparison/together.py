"""FedRelax itself as one of the ways that are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fedrelax.baselines import Baseline, Run
from fedrelax.errors import FedRelaxError
from fedrelax.estimators import FedRelaxClassifier, FedRelaxRegressor
from fedrelax.network import Network
from fedrelax.selection import usual_alphas
from fedrelax.solvers import FedRelax, solve_by_engine

KEPT = (
    *("loss", "discrepancy", "tol", "objective", "order", "damping", "weighting"),
    *("distillation", "continued"),
)
"""The settings that an estimator hands to its solver and that no comparison chooses."""


@dataclass(frozen=True)
class Together(Baseline):
    """h_i <- argmin L_i(h) + alpha sum_j A_ij d(i, j), over the network's graph.

    alpha : how much neighbours count; None lets validation choose among ``usual_alphas``, of which
        the first is 0: every node alone.
    solver : all other settings, such as ``tol`` and ``objective``.
    """

    name = "FedRelax"

    alpha: float | None = None
    rounds: int = 20
    solver: FedRelax = field(default_factory=FedRelax, repr=False)
    engine: str = "auto"

    @classmethod
    def of(
        cls, estimator: FedRelaxRegressor | FedRelaxClassifier, alpha: float | None = None
    ) -> Together:
        """Return this way with the estimator's settings; its own alpha is not one of them."""
        solver = FedRelax(**{name: getattr(estimator, name) for name in KEPT})
        return cls(alpha, estimator.rounds, solver, estimator.engine)

    def candidates(self, network: Network) -> Sequence[Together]:
        """Return one per alpha, from alone to strongly coupled."""
        if self.alpha is not None:
            return [self]
        return [replace(self, alpha=alpha) for alpha in usual_alphas(network.graph)]

    def run(self, network: Network, *, seed: int = 0, n_jobs: int | None = None) -> Run:
        """Run the rounds."""
        if self.alpha is None:
            raise FedRelaxError(
                "FedRelax has no alpha yet; give a number, or run one of candidates(network)"
            )
        solver = replace(
            self.solver,
            alpha=self.alpha,
            rounds=self.rounds,
            patience=None,
            n_jobs=n_jobs,
            random_state=seed,
        )
        result = solve_by_engine(self.engine, solver, network)
        curve = result.history["validation_loss"]
        return Run(result.local_models, np.empty(0) if np.isnan(curve).all() else curve)

    def settings(self) -> dict[str, Any]:
        """Return what validation chooses."""
        return {"alpha": self.alpha, "rounds": self.rounds}
