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
from fedrelax.selection import candidates, choose, is_open
from fedrelax.selection.candidates import Alphas, Wirings, given
from fedrelax.solvers import FedRelax, WholeNetwork
from fedrelax.typing import Label
from fedrelax.wiring import Wiring, wiring_name

Estimator = FedRelaxRegressor | FedRelaxClassifier


@dataclass(frozen=True)
class Together(Baseline):
    """h_i <- argmin L_i(h) + alpha sum_j A_ij d(i, j), over the network's graph.

    alpha, wiring : given, or what to choose among, as in the estimators.
    rounds : the most of them; None takes as many as suit the models.
    solver : all other settings, such as ``tol`` and ``objective``.
    alone : nodes that were found to do better alone.
    finds_all : find every setting from the rows where the network allows it, as ``estimator="auto"`` does.
    """

    name = "together"

    alpha: Alphas = "auto"
    rounds: int | None = None
    wiring: Wirings = "fixed"
    solver: FedRelax = field(default_factory=FedRelax, repr=False)
    alone: tuple[Label, ...] = ()
    finds_all: bool = False

    @classmethod
    def of(cls, estimator: Estimator, alpha: Alphas | None = None) -> Together:
        """Return this way with the estimator's settings; without an alpha, it is chosen."""
        alpha = "auto" if alpha is None else alpha
        solver, alone = estimator.settings(), tuple(estimator.alone)
        finds_all = estimator.finds_all and alpha == "auto"
        return cls(alpha, solver.rounds, estimator.wiring, solver, alone, finds_all)

    def choose(
        self, network: Network, folds: Sequence[Network], *, seed: int, n_jobs: int | None
    ) -> Together:
        """Choose as the estimators do, so that ``fit`` gives what was compared."""
        if self._whole(network) or not is_open(self.alpha, self.wiring):
            return self
        settings = replace(self.solver, rounds=self.rounds, n_jobs=n_jobs, random_state=seed)
        rounds = settings.rounds_for(network)
        tried = candidates(network, self.alpha, self.wiring, rounds=rounds)
        choice = choose(folds, settings, tried)
        return replace(
            self,
            alpha=choice.alpha,
            rounds=None if choice.to_rest else choice.rounds,
            wiring=choice.wiring,
            alone=tuple(dict.fromkeys((*self.alone, *choice.alone))),
        )

    def _whole(self, network: Network) -> bool:
        return self.finds_all and WholeNetwork.refusal(network) is None

    def run(self, network: Network, *, seed: int = 0, n_jobs: int | None = None) -> Run:
        """Run the rounds."""
        if self._whole(network):
            result = WholeNetwork().solve(network).with_alone(self.alone)
            return Run(result.local_models, result.history["validation_loss"][-1:])
        if is_open(self.alpha, self.wiring):
            raise FedRelaxError(
                f"FedRelax has alpha={self.alpha!r} and wiring={self.wiring!r}, which are still to be "
                "chosen; give one of each, or call choose first"
            )
        fixed = given(self.alpha, self.wiring)
        solver = replace(
            self.solver,
            alpha=fixed.alpha,
            wiring=fixed.wiring,
            rounds=self.rounds,
            n_jobs=n_jobs,
            random_state=seed,
        )
        result = solver.solve(network).with_alone(self.alone)
        curve = result.history["validation_loss"]
        return Run(result.local_models, np.empty(0) if np.isnan(curve).all() else curve)

    def settings(self) -> dict[str, Any]:
        """Return what validation chooses."""
        found: dict[str, Any] = {"alpha": self.alpha, "rounds": self.rounds}
        if self.wiring is None or isinstance(self.wiring, Wiring):
            found["wiring"] = wiring_name(self.wiring)
        return found
