"""What is left open, and how it is decided: the one decision that ``fit`` and ``compare`` share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fedrelax.models import adapt
from fedrelax.network import Network
from fedrelax.pooling.network import PooledNetwork
from fedrelax.runtime import Callback, Keeper
from fedrelax.selection.budget import Budget
from fedrelax.selection.candidates import Alphas, Wirings, candidates_for, is_open, update_for
from fedrelax.selection.choice import Choice
from fedrelax.selection.default import Default, choose_default, pooled_for_penalty
from fedrelax.selection.search import choose
from fedrelax.selection.trials import Tell, lighter
from fedrelax.solvers import FedRelax, PartialPooling, Result, Solver
from fedrelax.typing import Label, Model


@dataclass(frozen=True)
class Plan:
    """What was decided for a network: how it is solved, and with which models."""

    solver: Solver
    choice: Choice | None = None
    default: Default | None = None
    """What was found, if settings and models were found together."""
    model: Model = None
    """A linear model with the penalty found, for all nodes, if only that was found."""
    pooled: PooledNetwork | None = None
    """What it was found from."""
    alone: tuple[Label, ...] = ()
    """Nodes that keep the model trained on their own rows."""

    @property
    def pooled_numbers(self) -> int:
        """How many numbers each node said to each other node in the rounds of partial pooling."""
        pooled = self.pooled if self.default is None else self.default.pooled
        return 0 if pooled is None else pooled.numbers

    def solve(self, network: Network, callbacks: Sequence[Callback] = ()) -> Result:
        """Train the network that the plan was made for, or the one given to ``again``."""
        if self.default is not None:
            result = self.default.solve(network, callbacks)
        else:
            made = network if self.model is None else network.with_models(self.model)
            result = self.solver.solve(made, callbacks)
        return result.with_alone([label for label in self.alone if label in result.alone])

    def again(self, network: Network) -> Plan:
        """Return the same plan for a network with other rows."""
        if self.default is None:
            return self
        default = self.default.again(network)
        return replace(self, default=default, solver=default.solver)


@dataclass(frozen=True)
class Search:
    """What is left open.

    alpha, wiring : a value, or what to choose among, as in the estimators.
    levels : levels that are tried besides that of the settings.
    finds_all : find every setting from the rows where the network allows it, as ``estimator="auto"``
        does; ``quick`` as there.
    asked : whether the user has asked for a choice among wirings: then one is taken if it lowers the
        loss at all.
    apart : whether rows of several nodes belong together, and folds keep them together.
    alone : nodes that keep the model trained on their own rows.
    seconds : how long it may take; None for as long as it takes.
    """

    alpha: Alphas = "auto"
    wiring: Wirings = "fixed"
    levels: tuple[float, ...] = ()
    finds_all: bool = False
    quick: bool = False
    asked: bool = False
    apart: bool = False
    alone: tuple[Label, ...] = ()
    seconds: float | None = None

    def needs_folds(self, network: Network) -> bool:
        """Tell whether anything is judged on held-out rows."""
        if self._finds_all_of(network):
            return len(network) > 1 and int(network.own_rows.counts.max()) > 1
        return is_open(self.alpha, self.wiring)

    def _finds_all_of(self, network: Network) -> bool:
        return self.finds_all and PartialPooling.unsupported_reason(network) is None

    def plan(
        self,
        network: Network,
        folds: Sequence[Network],
        settings: FedRelax,
        *,
        seed: int = 0,
        tell: Tell | None = None,
        keeper: Keeper | None = None,
    ) -> Plan:
        """Decide what is open; ``folds`` train on some of the network's rows and validate on others.

        ``keeper`` saves trials, so that a search that was stopped does not repeat them.
        """
        budget = None if self.seconds is None else Budget(self.seconds)
        if self._finds_all_of(network):
            default = choose_default(
                network,
                folds,
                settings,
                self.wiring,
                apart=self.apart,
                asked=self.asked,
                quick=self.quick,
                seed=seed,
                tell=tell,
                keeper=keeper,
                budget=budget,
            )
            return Plan(default.solver, default.choice, default, alone=self.alone)
        if settings.update == "auto":
            models = (adapt(given, network.task) for given in network.distinct_models.values())
            settings = replace(settings, update=update_for(self.alpha, models))
        if not is_open(self.alpha, self.wiring):
            return Plan(settings, alone=self.alone)
        pooled, model = pooled_for_penalty(network, seed) if self.finds_all else None, None
        if pooled is not None:
            model = pooled.model(float(network.own_rows.counts.mean()))
            network = network.with_models(model)
            folds = [fold.with_models(model) for fold in folds]
        levels = (
            self.levels if settings.update != "difference" else ()
        )  # a difference keeps its level
        tried = candidates_for(network, settings, self.alpha, self.wiring)
        folds, words, heavier = lighter(folds, self.quick)
        choice = choose(
            folds, settings, tried, levels=levels, tell=tell, keeper=keeper, budget=budget,
            heavier=heavier,
        )  # fmt: skip
        if words:
            choice = choice.but(words)
        alone = tuple(dict.fromkeys((*self.alone, *choice.alone)))
        return Plan(choice.settings(settings), choice, model=model, pooled=pooled, alone=alone)
