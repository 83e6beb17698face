"""Which ways are compared, and FedRelax as one of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from sklearn.base import clone

from fedrelax.baselines import (
    BASELINES,
    Alone,
    Baseline,
    Federation,
    MixedModel,
    Pooled,
    PooledNode,
    Run,
)
from fedrelax.engines import SiteEngine
from fedrelax.errors import FedRelaxError, did_you_mean
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

    def choose(
        self, network: Network, folds: Sequence[Network], *, seed: int, n_jobs: int | None
    ) -> Together:
        """Choose as the estimators do, so that ``fit`` gives what was compared."""
        plan = self.open.plan(network, folds, self._settings(seed, n_jobs), seed=seed)
        choice = plan.choice
        if choice is None:
            return replace(self, plan=plan)
        still = choice.to_rest or plan.default is not None
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
        return Run.of(plan.again(network).solve(network))

    def settings(self) -> dict[str, object]:
        """Return what validation has chosen."""
        settings: dict[str, object] = {"alpha": self.alpha, "rounds": self.rounds}
        if self.plan is not None and self.plan.choice is not None and self.plan.choice.level != 1.0:
            settings["level"] = self.plan.choice.level
        if self.plan is not None and isinstance(self.plan.solver, FedRelax):
            settings["update"] = self.plan.solver.update
        if self.wiring is None or isinstance(self.wiring, Wiring):
            settings["wiring"] = wiring_name(self.wiring)
        default = None if self.plan is None else self.plan.default
        if default is not None and default.is_one_model:
            settings["one_model"] = True
        return settings


PENALTIES = (1.0, 1e-4, 1e-3, 1e-2, 0.1, 10.0, 100.0)
"""Factors of the usual penalty that ways which choose theirs try."""


def usual_ways(
    estimator: FedRelaxRegressor | FedRelaxClassifier, alpha: float | None = None
) -> list[Baseline]:
    """Return all ways; FedRelax has the estimator's settings, and the given alpha or a chosen one.

    Where FedRelax chooses its penalty, so do each node alone and pooled, and there is a line for what a
    federation would give.
    """
    rounds = SiteEngine.usual_rounds if estimator.rounds is None else estimator.rounds
    usual = {name: kind.usual(rounds) for name, kind in BASELINES.items()}
    if not estimator.finds_all:  # sites that name their models do not learn by partial pooling
        del usual[Federation.name]
    usual |= {way.name: way for way in simple_ways(estimator)}
    first = [usual.pop(kind.name) for kind in (Alone, Pooled, PooledNode, MixedModel)]
    every = (*first, Together.of(estimator, alpha), *usual.values())
    return [way for way in every if way is not None]


def simple_ways(estimator: FedRelaxRegressor | FedRelaxClassifier) -> tuple[Alone, Pooled]:
    """Return each node alone and pooled: with penalties to choose among if the estimator finds its own."""
    factors = PENALTIES if estimator.finds_all else ()
    return Alone(factors=factors), Pooled(factors=factors)


def ways_by_name(names: Iterable[str], ways: Sequence[Baseline]) -> list[Baseline]:
    """Return those of ``ways`` with these names; lower case, and hyphens for spaces, will do.

    >>> from fedrelax.baselines import FedMD, NetworkLasso
    >>> [way.name for way in ways_by_name(["fedmd", "network-lasso"], [FedMD(), NetworkLasso()])]
    ['FedMD', 'network Lasso']
    """
    by_name = {way.name.lower().replace(" ", "-"): way for way in ways}
    plain = dict.fromkeys(name.lower().replace(" ", "-") for name in names)
    for name in plain:
        if name not in by_name:
            hint = did_you_mean(name, by_name) or f"; known: {', '.join(by_name)}"
            raise FedRelaxError(f"the way {name!r} is not known{hint}")
    return [by_name[name] for name in plain]


def with_the_needed(ways: Iterable[Baseline], needed: Iterable[Baseline]) -> list[Baseline]:
    """Return the ways, after those of ``needed`` that are missing; refuse a name that occurs twice."""
    ways = list(ways)
    names = [way.name for way in ways]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise FedRelaxError(f"two ways are called {twice[0]!r}; give each a name of its own")
    return [way for way in needed if way.name not in names] + ways
