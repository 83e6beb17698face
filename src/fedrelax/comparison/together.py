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
from fedrelax.selection import PATIENCE, Line, search, usual_alphas, wiring_name
from fedrelax.solvers import Result
from fedrelax.typing import Label
from fedrelax.wiring import Wiring

Estimator = FedRelaxRegressor | FedRelaxClassifier


@dataclass(frozen=True)
class Together(Baseline):
    """h_i <- argmin L_i(h) + alpha sum_j A_ij d(i, j), over the network's graph.

    alpha : how much neighbours count; None lets validation choose among ``usual_alphas``, of which
        the first is 0: every node alone.
    rounds : None takes the estimator's.
    estimator : all other settings, such as ``tol``, ``objective`` and the wirings to choose among.
    wiring : the one that was chosen; None is the fixed graph.
    alone : nodes that were found to do better alone.
    """

    name = "FedRelax"

    alpha: float | None = None
    rounds: int | None = None
    estimator: Estimator = field(default_factory=FedRelaxRegressor, repr=False)
    wiring: Wiring | None = None
    alone: tuple[Label, ...] = ()

    @classmethod
    def of(cls, estimator: Estimator, alpha: float | None = None) -> Together:
        """Return this way with the estimator's settings; its own alpha is not one of them."""
        return cls(alpha, None, estimator)

    def candidates(self, network: Network) -> Sequence[Together]:
        """Return one per wiring and alpha, from alone to strongly coupled."""
        labels = list(network.nodes)
        rounds = self.estimator.most_rounds(labels) if self.rounds is None else self.rounds
        alphas = usual_alphas(network.graph) if self.alpha is None else (self.alpha,)
        return [
            replace(self, alpha=alpha, rounds=rounds, wiring=wiring and wiring.paced(rounds))
            for wiring in self.estimator.wirings_for(labels)
            for alpha in alphas
            if alpha > 0 or wiring is None
        ]

    def choose(
        self, network: Network, folds: Sequence[Network], *, seed: int, n_jobs: int | None
    ) -> Together:
        """Choose as the estimator's "auto" does, so that ``fit`` gives what was compared."""
        candidates = self.candidates(network)
        if len(candidates) == 1:
            return candidates[0]
        labels, counts = list(network.nodes), []
        for fold in folds:
            held = (node.validation for node in fold)
            counts.append(np.array([0 if rows is None else len(rows[1]) for rows in held]))

        early = not self.estimator.is_linear(labels)

        def solve(fold: int, line: Line) -> Result:
            way = replace(candidates[0], wiring=line[0], alpha=line[1])
            patience = PATIENCE if early else None
            return way.solve(folds[fold], seed=seed, n_jobs=n_jobs, patience=patience)

        choice = search(
            [(candidate.wiring, candidate.alpha or 0.0) for candidate in candidates],
            labels,
            counts,
            solve,
            rounds=candidates[0].rounds or 0,
            early=early,
        )
        chosen = replace(self, alpha=choice.alpha, rounds=choice.rounds, wiring=choice.wiring)
        return replace(chosen, alone=choice.alone)

    def run(self, network: Network, *, seed: int = 0, n_jobs: int | None = None) -> Run:
        """Run the rounds."""
        result = self.solve(network, seed=seed, n_jobs=n_jobs).with_alone(self.alone)
        curve = result.history["validation_loss"]
        return Run(result.local_models, np.empty(0) if np.isnan(curve).all() else curve)

    def solve(
        self, network: Network, *, seed: int, n_jobs: int | None, patience: int | None = None
    ) -> Result:
        """Return the solver's own result."""
        if self.alpha is None:
            raise FedRelaxError(
                "FedRelax has no alpha yet; give a number, or run one of candidates(network)"
            )
        settings = self.estimator.solver(list(network.nodes))
        solver = replace(
            settings,
            alpha=self.alpha,
            rounds=settings.rounds if self.rounds is None else self.rounds,
            wiring=self.wiring,
            patience=patience,
            n_jobs=n_jobs,
            random_state=seed,
        )
        return solver.solve(network)

    def settings(self) -> dict[str, Any]:
        """Return what validation chooses."""
        found: dict[str, Any] = {"alpha": self.alpha, "rounds": self.rounds}
        if self.estimator.wiring != "fixed":
            found["wiring"] = wiring_name(self.wiring)
        return found
