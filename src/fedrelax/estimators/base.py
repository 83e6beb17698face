"""What the regressor and the classifier share: fit, predict, and the fitted attributes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from fedrelax.errors import FedRelaxError, FedRelaxWarning, did_you_mean, named
from fedrelax.estimators.living import UNKNOWN, FittedNetwork
from fedrelax.estimators.rows import one_of
from fedrelax.graph import Graph
from fedrelax.living.network import Origin
from fedrelax.models import Task, adapt
from fedrelax.models.difference import suits
from fedrelax.models.viewed import form_in
from fedrelax.network import Network
from fedrelax.network.rows import Lookup, distinct
from fedrelax.public import (
    BOOSTING_ROWS,
    DRAWS,
    PublicRows,
    allow_boosting,
    draw_public,
    draw_shared,
    filled,
    public_count,
)
from fedrelax.runtime import Callback
from fedrelax.runtime.callbacks import keeper_in
from fedrelax.runtime.site import seeds_of
from fedrelax.runtime.workers import check_backend, using_backend
from fedrelax.schema import Preparation, Schema
from fedrelax.schema.transformer import table_pipeline
from fedrelax.selection import FOLDS, LEVELS, Candidate, Choice, Default, Plan, Search, fold_rows
from fedrelax.selection.budget import QUICK_SECONDS, SECONDS
from fedrelax.selection.candidates import Alphas, Levels, Wirings, given, update_for
from fedrelax.solvers import FedRelax, Result
from fedrelax.solvers.pooling import check_default
from fedrelax.splits import FOLD_STREAM, RowGroups, as_seed
from fedrelax.typing import AnyArray, FloatArray, Label, Model
from fedrelax.validation import (
    check_callbacks,
    check_choice,
    check_flag,
    check_number,
    check_sequence,
)
from fedrelax.views import Looks
from fedrelax.wiring import Discover, Wiring
from fedrelax.wiring.discover import SMALL

PUBLIC_STREAM = 1
"""Keep the draws of public rows, folds and validation rows independent under one seed."""

LINEAR_ROWS, QUICK_ROWS = 200, 500
"""Public rows that are drawn for lines, and for differences of other models with ``quick``."""
OWN = ("alpha", "level", "wiring", "rounds", "n_jobs", "random_state")
"""Solver settings for which the estimators have their own arguments."""
PROBLEM = ("loss", "discrepancy", "objective", "weighting", "distillation", "continued", "engine")
"""Solver settings that ask for the paper's update: they say what a refit minimises, or how."""

Models = Any | Mapping[Label, Any] | Callable[[Label], Any]


@dataclass(eq=False, repr=False)
class FedRelaxEstimator(FittedNetwork, Looks, BaseEstimator):  # type: ignore[misc]
    """What the regressor and the classifier share; see ``FedRelaxRegressor`` for the parameters."""

    estimator: Models | None = "auto"
    graph: Graph | None = None
    alpha: Alphas = "auto"
    level: Levels = "auto"
    wiring: Wirings = None
    public: str | AnyArray | Mapping[Label, AnyArray] = "blend"
    public_rows: int | None = None
    rounds: int | None = None
    folds: int = FOLDS
    validation_share: float = 0.0
    alone: Sequence[Label] = ()
    solver: FedRelax | None = None
    schema: Schema | str | Path | None = None
    unknown: str = "consensus"
    quick: bool = False
    minutes: float | None = None
    callbacks: Sequence[Callback] = ()
    n_jobs: int | None = None
    backend: str | None = None
    address: str | None = None
    random_state: Any = 0

    # Fit

    def fit(self, X: Any, y: Any, nodes: Any = None, groups: Any = None, times: Any = None) -> Self:
        """Train one model per node.

        ``nodes`` is one label per row, or the name of a column of the DataFrame ``X`` (which is
        then not a feature). Without it, all rows belong to one node, which learns alone.

        Settings left open are chosen on folds, which hold out rows at random. ``groups``, one value per
        row, holds out rows with the same value together, at all nodes: days, patients or batches that
        several nodes share. ``times``, one value per row, trains on earlier rows and holds out later ones.
        """
        check_number("validation_share", self.validation_share, least=0.0, below=1.0)
        check_callbacks(self.callbacks)
        check_sequence("alone", self.alone, "nodes")
        check_choice("unknown", self.unknown, UNKNOWN)
        check_flag("quick", self.quick)
        if self.minutes is not None:
            check_number("minutes", self.minutes, least=0.0)
        check_backend(self.backend, self.address)
        seed = as_seed(self.random_state)
        settings = self.settings(seed)
        settings.check_values()
        X, y, rows = self._checked(X, y, nodes)
        apart = one_of(groups, times, len(X))
        unknown = [label for label in self.alone if label not in rows]
        if unknown:
            hint = did_you_mean(unknown[0], rows)
            raise FedRelaxError(f"alone: {named('node', unknown, 'has')} no rows{hint}")
        train, held = rows.held_out(self.validation_share, np.random.default_rng(seed))
        self.plan_: Any = None
        network, search = self.network_of(X, y, train, held, seed), self.search(bool(apart))
        settings.check(network)
        if self.alpha == "auto" and (self.estimator is None or isinstance(self.estimator, str)):
            check_default(network)
        folds: list[Network] = []
        if search.needs_folds(network):
            folds = self.folds_of(network, X, y, train, seed, **apart)
        keeper = keeper_in(self.callbacks)
        if keeper is not None and self.random_state is None:
            raise FedRelaxError(
                "random_state=None draws a new seed every time, so this run cannot be checkpointed; give a "
                "number"
            )
        with using_backend(self.backend, self.address):
            plan = search.plan(network, folds, settings, seed=seed, tell=self._tell, keeper=keeper)
            if plan.choice is not None and plan.choice.left_out:
                warnings.warn(
                    f"the search has {search.seconds:.3g} s, so {plan.choice.left_out}; with another "
                    "machine the result may differ; give it more time with, say, minutes=10",
                    FedRelaxWarning,
                    stacklevel=2,
                )
            return self._follow(plan, network, rows, seed)

    def refitted(self, X: Any, y: Any, nodes: Any = None) -> Self:
        """Return a new estimator trained on other rows with the settings chosen here.

        Like scikit-learn's searches, which refit on all rows once the best settings are known.
        """
        check_is_fitted(self, "result_")
        made: Self = clone(self)
        X, y, rows = made._checked(X, y, nodes if nodes is not None else self.node_column_)
        seed = as_seed(self.random_state)
        train, held = rows.held_out(self.validation_share, np.random.default_rng(seed))
        network = made.network_of(X, y, train, held, seed)
        with using_backend(self.backend, self.address):
            return made._follow(self.plan_.again(network), network, rows, seed)

    def _follow(
        self, plan: Plan, network: Network, rows: Mapping[Label, AnyArray], seed: int
    ) -> Self:
        """Train according to the plan and keep the result."""
        self.plan_, self.public_rows_ = plan, len(network.public.of(network.labels[0]))
        result = plan.solve(network, tuple(self.callbacks))
        choice, asked = plan.choice, given(self.alpha, self.wirings, self.level)
        chosen = asked if choice is None else choice.chosen
        self._adopt(result, self._graph_for(list(rows)), choice, chosen)
        self._origin = Origin.of(plan.solver, network, self.level_, seed)
        return self

    @property
    def default_(self) -> Default | None:
        """What the default chose, with its models; None if a model or alpha was given."""
        default: Default | None = self.plan_.default
        return default

    @property
    def update_(self) -> str | None:
        """How nodes learned from each other: "refit" or "difference"; None if in neither way."""
        solver = self.plan_.solver
        if not isinstance(solver, FedRelax) or self.alpha_ == 0:
            return None
        return "refit" if solver.update == "auto" else solver.update

    @property
    def wirings(self) -> Wirings:
        """The wiring or wirings; by default "auto" if alpha is and ``quick`` is not set, else fixed."""
        if self.wiring is not None:
            return self.wiring
        return "auto" if self.alpha == "auto" and not self.quick else "fixed"

    @property
    def finds_all(self) -> bool:
        """Whether to find penalty, coupling, level and curves from the rows where the network allows."""
        models = isinstance(self.estimator, str) and self.estimator == "auto"
        fixed = self.wirings in ("fixed", "auto") and self.rounds is None and self.level == "auto"
        return models and fixed and self.solver is None and self.alpha == "auto"

    def _tell(self, done: int, total: int) -> bool | str | None:
        answers = [callback.choosing(done, total) for callback in self.callbacks]
        return next((answer for answer in answers if answer), None)

    def search(self, apart: bool = False) -> Search:
        """Return what is to be chosen; ``apart``: folds hold out rows of several nodes together."""
        levels = self.level == "auto" and self.alpha == "auto" and not self.quick
        seconds: float | None = QUICK_SECONDS if self.quick else SECONDS
        if self.minutes is not None:
            seconds = 60.0 * self.minutes
        elif keeper_in(self.callbacks) is not None:
            seconds = None
        return Search(
            self.alpha,
            self.wirings,
            LEVELS if levels else (),
            finds_all=self.finds_all,
            quick=self.quick,
            asked=self.wiring == "auto",
            apart=apart,
            alone=tuple(self.alone),
            seconds=seconds,
        )

    def settings(self, seed: int = 0) -> FedRelax:
        """Return the solver's settings; alpha and wiring are 0 and fixed if they are yet to be chosen.

        So is the update, "auto", where models are named and nothing asks for the paper's.
        """
        solver, usual = FedRelax() if self.solver is None else self.solver, FedRelax()
        if not isinstance(solver, FedRelax):
            raise FedRelaxError(
                f"solver={solver!r} must be a fedrelax.FedRelax with settings that the estimator has no "
                "argument for, such as FedRelax(objective='gtvmin')"
            )
        for name in OWN:
            if getattr(solver, name) != getattr(usual, name):
                raise FedRelaxError(
                    f"solver={type(solver).__name__}({name}={getattr(solver, name)!r}): the estimator "
                    f"has its own {name}; pass it there"
                )
        is_named = self.estimator is not None and not isinstance(self.estimator, str)
        plain = all(getattr(solver, name) == getattr(usual, name) for name in PROBLEM)
        update = solver.update
        if update == "auto" and not (is_named and plain and self.level == "auto"):
            update = "refit"
        fixed = given(self.alpha, self.wirings, self.level)
        own: dict[str, Any] = {"rounds": self.rounds, "n_jobs": self.n_jobs, "random_state": seed}
        return replace(solver, update=update, **vars(fixed), **own)

    def network_of(
        self,
        X: FloatArray,
        y: AnyArray,
        rows: Mapping[Label, AnyArray],
        held: Mapping[Label, AnyArray],
        seed: int = 0,
        public: PublicRows | None = None,
    ) -> Network:
        """Return the network to train; ``rows`` and ``held`` are each node's row numbers.

        Without ``public`` rows, they are drawn, or as given.
        """
        graph, groups = self._graph_for(list(rows)), RowGroups.of(rows)
        models = self._views(self.models_for(list(rows)))
        return Network.from_rows(
            graph,
            self._kind,
            X,
            y,
            groups,
            models,
            public=public or self._public_for(X, groups, models, seed),
            held=RowGroups.of(held, groups.labels),
            preparation=self.preparation_,
        )

    def folds_of(
        self,
        network: Network,
        X: FloatArray,
        y: AnyArray,
        rows: Mapping[Label, AnyArray],
        seed: int,
        **apart: AnyArray,
    ) -> list[Network]:
        """Return networks that train on some of the rows of ``network`` and hold out others.

        By default nodes deal their rows and share public rows as sites do.
        """
        public, seeds = None, None
        if self.finds_all and isinstance(self.public, str):
            public, seeds = network.public, seeds_of(seed, len(rows)).tolist()
        rng = np.random.default_rng([seed, FOLD_STREAM])
        parts = fold_rows(rows, self.folds, rng, **apart, seeds=seeds)
        return [self.network_of(X, y, *part, seed, public=public) for part in parts]

    def _public_for(
        self, X: FloatArray, rows: RowGroups, models: Mapping[Label, Model], seed: int
    ) -> Any:
        """Return the public rows: drawn from the nodes' rows, or as given."""
        public, ready = self.public, self.preparation_
        if isinstance(public, str):
            X = rows.take(X)
            rng = np.random.default_rng([seed, PUBLIC_STREAM])
            pieces = None if ready is None else ready.pieces
            apart = ready is not None and ready.lacks
            if self.finds_all and self.public_rows is None and not apart and public in DRAWS:
                own = np.split(X, rows.offsets[1:-1])
                count = public_count(np.diff(rows.offsets), boosting=not self.quick)
                return draw_shared(public, own, count, seeds_of(seed, len(own)).tolist(), pieces)
            drawn = draw_public(public, [X], self._public_count(rows, models), rng, pieces)
            if ready is not None and ready.lacks and not ready.encoded:
                lacking = sorted({k for columns in ready.lacks.values() for k in columns})
                drawn = filled(drawn, X, lacking, rng)
            return drawn
        if isinstance(public, Mapping):
            return {j: self._public_rows_of(public[j]) for j in models if j in public}
        return self._public_rows_of(public)

    def _public_count(self, rows: RowGroups, models: Mapping[Label, Model]) -> int:
        """Return how many public rows to draw: as given, or as many as the models need."""
        if self.public_rows is not None:
            return self.public_rows
        update = self.settings().update
        if update == "difference" or (update == "auto" and update_for(self.alpha) == "difference"):
            task = Task(self._kind, 2, np.arange(2) if self._kind == "classification" else None)
            adapted = []
            for label, model in distinct(models, models.values()).items():
                try:
                    adapted.append(adapt(model, task))
                except FedRelaxError as error:
                    raise FedRelaxError(f"node {label!r}: {error}") from None
            if not suits(adapted):
                return LINEAR_ROWS
            return QUICK_ROWS if self.quick else BOOSTING_ROWS
        boosted = self.finds_all and not self.quick and allow_boosting(np.diff(rows.offsets))
        return BOOSTING_ROWS if boosted else LINEAR_ROWS

    def _public_rows_of(self, given: Any) -> Any:
        """Return the given public rows in the form in which nodes share rows."""
        if self.preparation_ is None:
            return given
        return self.preparation_.rows(self._coded_later(given, ()), {})

    def _graph_for(self, labels: list[Label]) -> Graph:
        if self.graph is None:
            wiring = self.wirings
            found = wiring in ("auto", "discover") or isinstance(wiring, Discover)
            if found and len(labels) > SMALL:
                return Graph.from_edges([], labels=labels)
            return Graph.complete(labels)
        if not isinstance(self.graph, Graph):
            raise FedRelaxError(
                f"graph is a {type(self.graph).__name__}; make a fedrelax.Graph of it with "
                "Graph.from_matrix, from_edges, from_networkx or from_coordinates"
            )
        unknown = self.graph.lacks(labels)
        if unknown:
            hint = did_you_mean(unknown[0], self.graph.labels)
            raise FedRelaxError(
                f"the graph has no {named('node', unknown)}, which the rows name{hint}"
            )
        return self.graph

    # Fitted state

    def _adopt(
        self, result: Result, graph: Graph, choice: Choice | None, chosen: Candidate
    ) -> Self:
        """Adopt a result: the one place that sets the fitted attributes."""
        self._result, self._whole_graph, self.choice_ = result, graph, choice
        self._origin = self._living = self._seen = None
        self.alpha_, self.wiring_ = float(chosen.alpha), chosen.wiring or "fixed"
        self.level_ = float(chosen.level)
        self.history_, self.n_rounds_ = result.history, result.n_rounds
        return self

    @property
    def models_(self) -> Mapping[Label, Any]:
        """The fitted models by node; after a table with text, dates or gaps, each takes a DataFrame."""
        check_is_fitted(self, "result_")
        models, ready = self.result_.models, self.preparation_
        if ready is None or ready.is_plain:
            return models
        local = self.result_.local_models
        return Lookup(
            models,
            lambda label: table_pipeline(models[label], ready, label, form_in(local[label])),
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags

    @classmethod
    def from_result(
        cls,
        result: Result,
        graph: Graph,
        *,
        alpha: float,
        wiring: Wiring | None,
        update: str | None,
        n_features: int,
        feature_names: Sequence[str] | None = None,
        node_column: str | None = None,
        preparation: Preparation | None = None,
        origin: Origin | None = None,
    ) -> Self:
        """Return an estimator that predicts from a result, as if it had been fitted here.

        With ``origin``, nodes can still join, learn and leave: see ``plug_in``.
        """
        made = cls(graph=graph, alpha=alpha, wiring=wiring or "fixed", rounds=result.n_rounds)
        made.n_features_in_ = n_features
        if feature_names is not None:
            made.feature_names_in_ = np.asarray(feature_names, dtype=object)
        made.node_column_, made.preparation_ = node_column, preparation
        solver = FedRelax(alpha=alpha, wiring=wiring, update=update or "refit")
        made.plan_, made.public_rows_ = Plan(solver), LINEAR_ROWS
        made._adopt(result, graph, None, Candidate(alpha, wiring))
        made._origin = origin
        return made
