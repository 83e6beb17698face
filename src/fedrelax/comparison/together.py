"""FedRelax itself as one of the ways that are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from fedrelax.baselines import Baseline, Run
from fedrelax.errors import FedRelaxError
from fedrelax.estimators import FedRelaxClassifier, FedRelaxRegressor
from fedrelax.network import Network
from fedrelax.selection import Plan, Search, is_open
from fedrelax.selection.candidates import Alphas, Wirings, given
from fedrelax.solvers import FedRelax
from fedrelax.wiring import Wiring, wiring_name

Estimator = FedRelaxRegressor | FedRelaxClassifier


@dataclass(frozen=True)
class Together(Baseline):
    """h_i <- argmin L_i(h) + alpha sum_j A_ij d(i, j), over the network's graph.

    alpha, wiring : given, or what to choose among, as in the estimators.
    rounds : the maximum number; None takes as many as suit the models.
    solver : all other settings, such as ``tol`` and ``objective``.
    search : what is to be chosen, where that is more than alpha and wiring.
    plan : what was chosen, once it is.
    """

    name = "together"

    alpha: Alphas = "auto"
    rounds: int | None = None
    wiring: Wirings = "fixed"
    solver: FedRelax = field(default_factory=FedRelax, repr=False)
    search: Search | None = field(default=None, repr=False)
    plan: Plan | None = field(default=None, repr=False)

    @classmethod
    def of(cls, estimator: Estimator, alpha: Alphas | None = None) -> Together:
        """Return this way with the estimator's settings; without an alpha, it is chosen."""
        if alpha is not None or estimator.alpha != "auto":
            estimator = clone(estimator).set_params(alpha="auto" if alpha is None else alpha)
        solver = estimator.settings()
        return cls(estimator.alpha, solver.rounds, estimator.wirings, solver, estimator.search())

    @property
    def open(self) -> Search:
        """What is to be chosen."""
        return Search(self.alpha, self.wiring) if self.search is None else self.search

    def kept_apart(self, apart: bool) -> Together:
        """Return this way, told whether folds hold out the same days (patients, ...) at all nodes."""
        return replace(self, search=replace(self.open, apart=apart))

    def choose(
        self, network: Network, folds: Sequence[Network], *, seed: int, n_jobs: int | None
    ) -> Together:
        """Choose as the estimators do, so that ``fit`` gives what was compared."""
        plan = self.open.plan(network, folds, self._settings(seed, n_jobs), seed=seed)
        choice = plan.choice
        if choice is None:
            return replace(self, plan=plan)
        still = choice.to_rest or plan.whole is not None
        rounds = None if still else choice.rounds
        return replace(self, alpha=choice.alpha, rounds=rounds, wiring=choice.wiring, plan=plan)

    def _settings(self, seed: int, n_jobs: int | None) -> FedRelax:
        fixed = given(self.alpha, self.wiring)
        return replace(
            self.solver,
            alpha=fixed.alpha,
            wiring=fixed.wiring,
            rounds=self.rounds,
            n_jobs=n_jobs,
            random_state=seed,
        )

    def run(self, network: Network, *, seed: int = 0, n_jobs: int | None = None) -> Run:
        """Run the rounds."""
        plan = self.plan
        if plan is None:
            if is_open(self.alpha, self.wiring):
                raise FedRelaxError(
                    f"FedRelax has alpha={self.alpha!r} and wiring={self.wiring!r}, which are still to "
                    "be chosen; give one of each, or call choose first"
                )
            plan = Plan(self._settings(seed, n_jobs), alone=self.open.alone)
        result = plan.again(network).solve(network)
        curve = result.history["validation_loss"]
        return Run(result.local_models, np.empty(0) if np.isnan(curve).all() else curve)

    def settings(self) -> dict[str, Any]:
        """Return what validation has chosen."""
        found: dict[str, Any] = {"alpha": self.alpha, "rounds": self.rounds}
        if self.plan is not None and self.plan.choice is not None and self.plan.choice.level != 1.0:
            found["level"] = self.plan.choice.level
        if self.wiring is None or isinstance(self.wiring, Wiring):
            found["wiring"] = wiring_name(self.wiring)
        return found
