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
from fedrelax.selection import Whole, candidates_for, choose, choose_whole, is_open, model_for
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
    levels : shares of the level that are tried besides that of ``solver``.
    finds_all : find every setting from the rows where the network allows it, as ``estimator="auto"``
        does; ``quick`` as there.
    apart : whether rows of several nodes belong together, and folds keep them so.
    whole, model : what was found for the network, or a linear model with the penalty found, once it
        was chosen.
    """

    name = "together"

    alpha: Alphas = "auto"
    rounds: int | None = None
    wiring: Wirings = "fixed"
    solver: FedRelax = field(default_factory=FedRelax, repr=False)
    alone: tuple[Label, ...] = ()
    levels: tuple[float, ...] = ()
    finds_all: bool = False
    quick: bool = False
    apart: bool = False
    whole: Whole | None = field(default=None, repr=False)
    model: Any = field(default=None, repr=False)

    @classmethod
    def of(cls, estimator: Estimator, alpha: Alphas | None = None) -> Together:
        """Return this way with the estimator's settings; without an alpha, it is chosen."""
        if alpha is not None or estimator.alpha != "auto":
            estimator = clone(estimator).set_params(alpha="auto" if alpha is None else alpha)
        solver, alone = estimator.settings(), tuple(estimator.alone)
        return cls(
            alpha=estimator.alpha,
            rounds=solver.rounds,
            wiring=estimator.wirings,
            solver=solver,
            alone=alone,
            levels=estimator.levels,
            finds_all=estimator.finds_all,
            quick=estimator.quick,
        )

    def choose(
        self, network: Network, folds: Sequence[Network], *, seed: int, n_jobs: int | None
    ) -> Together:
        """Choose as the estimators do, so that ``fit`` gives what was compared."""
        settings = replace(self.solver, rounds=self.rounds, n_jobs=n_jobs, random_state=seed)
        if self.finds_all and WholeNetwork.refusal(network) is None:
            whole = choose_whole(
                network,
                folds,
                settings,
                self.wiring,
                apart=self.apart,
                quick=self.quick,
                seed=seed,
            )
            return replace(self, alpha=whole.choice.alpha, wiring=whole.choice.wiring, whole=whole)
        if not is_open(self.alpha, self.wiring):
            return self
        model = model_for(network, seed) if self.finds_all else None
        if model is not None:
            network = network.with_models(model)
            folds = [fold.with_models(model) for fold in folds]
        tried = candidates_for(network, settings, self.alpha, self.wiring)
        choice = choose(folds, settings, tried, levels=self.levels)
        return replace(
            self,
            alpha=choice.alpha,
            rounds=None if choice.to_rest else choice.rounds,
            wiring=choice.wiring,
            solver=replace(self.solver, level=choice.level),
            model=model,
            alone=tuple(dict.fromkeys((*self.alone, *choice.alone))),
        )

    def run(self, network: Network, *, seed: int = 0, n_jobs: int | None = None) -> Run:
        """Run the rounds."""
        if self.whole is not None:
            whole = self.whole.again(network)
            result = whole.solve(network).with_alone(self.alone)
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
        if self.model is not None:
            network = network.with_models(self.model)
        result = solver.solve(network).with_alone(self.alone)
        curve = result.history["validation_loss"]
        return Run(result.local_models, np.empty(0) if np.isnan(curve).all() else curve)

    def settings(self) -> dict[str, Any]:
        """Return what validation chooses."""
        found: dict[str, Any] = {"alpha": self.alpha, "rounds": self.rounds}
        if self.solver.level != 1.0:
            found["level"] = self.solver.level
        if self.wiring is None or isinstance(self.wiring, Wiring):
            found["wiring"] = wiring_name(self.wiring)
        return found
