"""The estimators: FedRelax in scikit-learn's grammar."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from fedrelax.errors import FedRelaxError, did_you_mean, listing
from fedrelax.graph import Graph
from fedrelax.models.registry import is_net
from fedrelax.network import Network
from fedrelax.public import draw_public
from fedrelax.runtime import Callback
from fedrelax.selection import FOLDS, LEVELS, Candidate, Choice, Plan, Search, Whole, fold_rows
from fedrelax.selection.candidates import Alphas, Levels, Wirings, given
from fedrelax.solvers import FedRelax, Result
from fedrelax.solvers.checks import (
    check_alone,
    check_callbacks,
    check_flag,
    check_number,
    check_running,
)
from fedrelax.splits import RowGroups, as_seed, group_rows
from fedrelax.typing import AnyArray, FloatArray, Label
from fedrelax.views import Looks
from fedrelax.wiring import Discover, Wiring
from fedrelax.wiring.discover import SMALL

PUBLIC_STREAM, FOLD_STREAM = 1, 3
"""Keep the draws of public rows and of folds apart from that of validation rows under one seed."""

OWN = ("alpha", "level", "wiring", "rounds", "n_jobs", "random_state")
"""Settings of a solver that the estimators have arguments of their own for."""

Models = Any | Mapping[Label, Any] | Callable[[Label], Any]


class _FedRelaxEstimator(Looks, BaseEstimator):  # type: ignore[misc]
    """What regressor and classifier share; see ``FedRelaxRegressor`` for the parameters."""

    _kind: str

    def __init__(
        self,
        estimator: Models | None = "auto",
        graph: Graph | None = None,
        alpha: Alphas = "auto",
        level: Levels = "auto",
        wiring: Wirings = None,
        public: str | AnyArray | Mapping[Label, AnyArray] = "blend",
        public_rows: int = 200,
        rounds: int | None = None,
        folds: int = FOLDS,
        validation_share: float = 0.0,
        alone: Sequence[Label] = (),
        solver: FedRelax | None = None,
        quick: bool = False,
        callbacks: Sequence[Callback] = (),
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.graph = graph
        self.alpha = alpha
        self.level = level
        self.wiring = wiring
        self.public = public
        self.public_rows = public_rows
        self.rounds = rounds
        self.folds = folds
        self.validation_share = validation_share
        self.alone = alone
        self.solver = solver
        self.quick = quick
        self.callbacks = callbacks
        self.n_jobs = n_jobs
        self.random_state = random_state

    # Fit

    def fit(self, X: Any, y: Any, nodes: Any = None, groups: Any = None, times: Any = None) -> Self:
        """Train one model per node.

        ``nodes`` is one label per row, or the name of a column of the DataFrame ``X`` (which is
        then not a feature). Without it all rows belong to one node, which learns alone.

        Where something is chosen, rows are held out at random. ``groups``, one value per row, holds out
        the rows of one value together, at all nodes: days, patients, batches that several nodes have
        in common. ``times``, one value per row, holds out what comes later.
        """
        check_number("validation_share", self.validation_share, least=0.0, below=1.0)
        check_callbacks(self.callbacks)
        check_alone(self.alone)
        check_flag("quick", self.quick)
        seed = as_seed(self.random_state)
        settings = self.settings(seed)
        check_running(settings)
        X, y, rows = self._checked(X, y, nodes)
        apart = one_of(groups, times, len(X))
        unknown = [label for label in self.alone if label not in rows]
        if unknown:
            hint = did_you_mean(unknown[0], rows)
            raise FedRelaxError(f"alone: node {listing(unknown)} has no rows{hint}")
        train, held = rows.held_out(self.validation_share, np.random.default_rng(seed))
        self.plan_: Any = None
        network, search = self.network_of(X, y, train, held, seed), self.search(bool(apart))
        settings.check(network)
        folds: list[Network] = []
        if search.needs_folds(network):
            rng = np.random.default_rng([seed, FOLD_STREAM])
            parts = fold_rows(train, self.folds, rng, **apart)
            folds = [self.network_of(X, y, *part, seed) for part in parts]
        plan = search.plan(network, folds, settings, seed=seed, tell=self._tell)
        return self._follow(plan, network, rows)

    def refitted(self, X: Any, y: Any, nodes: Any = None) -> Self:
        """Return an estimator trained on other rows with the settings that were chosen here.

        As a search does that refits on all rows once its best settings are measured.
        """
        check_is_fitted(self, "result_")
        made: Self = clone(self)
        X, y, rows = made._checked(X, y, nodes if nodes is not None else self.node_column_)
        seed = as_seed(self.random_state)
        train, held = rows.held_out(self.validation_share, np.random.default_rng(seed))
        network = made.network_of(X, y, train, held, seed)
        return made._follow(self.plan_.again(network), network, rows)

    def _follow(self, plan: Plan, network: Network, rows: Mapping[Label, AnyArray]) -> Self:
        """Train as was decided."""
        self.plan_ = plan
        result = plan.solve(network, tuple(self.callbacks))
        chosen = given(self.alpha, self.wirings, self.level)
        if plan.choice is not None:
            chosen = plan.choice.chosen
        return self._adopt(result, self._graph_for(list(rows)), plan.choice, chosen)

    @property
    def whole_(self) -> Whole | None:
        """What was found where settings and models were found together, else None."""
        whole: Whole | None = self.plan_.whole
        return whole

    def _checked(self, X: Any, y: Any, nodes: Any) -> tuple[FloatArray, AnyArray, RowGroups]:
        """Return checked rows, targets and the row numbers of every node."""
        X, nodes, self.node_column_ = split_off_nodes(X, nodes)
        X, y = validate_data(
            self,
            X,
            y,
            dtype=float,
            multi_output=True,
            y_numeric=self._kind == "regression",
            allow_nd=True,
        )
        y = self._check_target(y)
        return X, y, group_rows(self._one_node(len(X)) if nodes is None else nodes, len(X))

    @property
    def wirings(self) -> Wirings:
        """The wiring or wirings; by default they are open where alpha is."""
        if self.wiring is not None:
            return self.wiring
        return "auto" if self.alpha == "auto" and not self.quick else "fixed"

    @property
    def finds_all(self) -> bool:
        """Whether penalty, coupling, level and curves are to be found, where the network allows it."""
        models = isinstance(self.estimator, str) and self.estimator == "auto"
        fixed = self.wirings in ("fixed", "auto") and self.rounds is None and self.level == "auto"
        return models and fixed and self.solver is None and self.alpha == "auto"

    def _tell(self, done: int, total: int) -> bool | str | None:
        told = [callback.choosing(done, total) for callback in self.callbacks]
        return next((answer for answer in told if answer), None)

    def search(self, apart: bool = False) -> Search:
        """Return what is open; ``apart`` tells whether folds keep rows of several nodes together."""
        return Search(
            self.alpha,
            self.wirings,
            self.levels,
            finds_all=self.finds_all,
            quick=self.quick,
            apart=apart,
            alone=tuple(self.alone),
        )

    @property
    def levels(self) -> tuple[float, ...]:
        """The shares of the level that are tried besides 1."""
        return LEVELS if self.level == "auto" and self.alpha == "auto" and not self.quick else ()

    def settings(self, seed: int = 0) -> FedRelax:
        """Return the solver's settings; where alpha or wiring is open, they stand as 0 and fixed."""
        solver, usual = FedRelax() if self.solver is None else self.solver, FedRelax()
        if not isinstance(solver, FedRelax):
            raise FedRelaxError(
                f"solver={solver!r} must be a fedrelax.FedRelax with the settings that the estimator "
                "has no argument for, such as FedRelax(objective='gtvmin')"
            )
        for name in OWN:
            if getattr(solver, name) != getattr(usual, name):
                raise FedRelaxError(
                    f"solver={type(solver).__name__}({name}={getattr(solver, name)!r}): the estimator "
                    f"has its own {name}; give it there"
                )
        fixed = given(self.alpha, self.wirings, self.level)
        return replace(
            solver,
            alpha=fixed.alpha,
            wiring=fixed.wiring,
            level=fixed.level,
            rounds=self.rounds,
            n_jobs=self.n_jobs,
            random_state=seed,
        )

    def network_of(
        self,
        X: FloatArray,
        y: AnyArray,
        rows: Mapping[Label, AnyArray],
        held: Mapping[Label, AnyArray],
        seed: int = 0,
    ) -> Network:
        """Return the network to train: row numbers by node, held-out ones beside."""
        graph, groups = self._graph_for(list(rows)), RowGroups.of(rows)
        public: Any = self.public
        if isinstance(public, str):
            rng = np.random.default_rng([seed, PUBLIC_STREAM])
            public = draw_public(public, [groups.take(X)], self.public_rows, rng)
        elif isinstance(public, Mapping):
            missing = [label for label in rows if label not in public]
            if missing:
                raise FedRelaxError(f"public has no rows for node {listing(missing)}")
        return Network.from_rows(
            graph,
            self._kind,
            X,
            y,
            groups,
            self.models_for(list(rows)),
            public=public,
            held=RowGroups.of(held, groups.labels),
        )

    def models_for(self, labels: list[Label]) -> dict[Label, Any]:
        """Return the unfitted model of every node."""
        given = self.estimator
        if isinstance(given, str) and given == "auto":
            plan = getattr(self, "plan_", None)
            given = None if plan is None else plan.model
        if given is None:
            given = self._default_model()
        if isinstance(given, Mapping):
            missing = [label for label in labels if label not in given]
            if missing:
                raise FedRelaxError(f"the dict of models has none for node {listing(missing)}")
            return {label: given[label] for label in labels}
        if callable(given) and not hasattr(given, "fit") and not is_net(given):
            return {label: given(label) for label in labels}
        return dict.fromkeys(labels, given)

    def _default_model(self) -> Any:
        raise NotImplementedError

    def _check_target(self, y: AnyArray) -> AnyArray:
        return y

    def _one_node(self, rows: int) -> list[Label]:
        """Return one and the same node for all rows."""
        if self.graph is not None and len(self.graph) > 1:
            raise FedRelaxError(
                f"the graph has {len(self.graph)} nodes, but fit got no nodes; pass one label "
                "per row: fit(X, y, nodes=...)"
            )
        return [self.graph.labels[0] if self.graph is not None else 0] * rows

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
        unknown = []
        if tuple(labels) != self.graph.labels:
            unknown = [label for label in labels if label not in self.graph]
        if unknown:
            hint = did_you_mean(unknown[0], self.graph.labels)
            raise FedRelaxError(
                f"nodes {listing(unknown)} have rows but are not in the graph{hint}"
            )
        return self.graph

    # Fitted state

    def _adopt(
        self, result: Result, graph: Graph, choice: Choice | None, chosen: Candidate
    ) -> Self:
        """Take over a result: the one place that sets what ``fit`` has learned."""
        self.result_, self.choice_ = result, choice
        self.whole_graph_, self.graph_ = graph, result.graph
        self.alpha_, self.wiring_ = float(chosen.alpha), chosen.wiring or "fixed"
        self.level_ = float(chosen.level)
        self.history_, self.n_rounds_ = result.history, result.n_rounds
        self.models_ = result.models
        return self

    @classmethod
    def from_result(
        cls,
        result: Result,
        graph: Graph,
        *,
        alpha: float,
        wiring: Wiring | None,
        n_features: int,
        feature_names: Sequence[str] | None = None,
        node_column: str | None = None,
    ) -> Self:
        """Return an estimator that predicts by a result, as if it had been fitted here."""
        made = cls(graph=graph, alpha=alpha, wiring=wiring or "fixed", rounds=result.n_rounds)
        made.n_features_in_ = n_features
        if feature_names is not None:
            made.feature_names_in_ = np.asarray(feature_names, dtype=object)
        made.node_column_ = node_column
        made.plan_ = Plan(FedRelax(alpha=alpha, wiring=wiring))
        return made._adopt(result, graph, None, Candidate(alpha, wiring))

    # Predict

    def answers(self, X: Any, nodes: Any = None) -> FloatArray:
        """Return what each row's node says: (rows, outputs) numbers, or class probabilities."""
        check_is_fitted(self, "result_")
        if nodes is None:
            nodes = self.node_column_
        X, nodes, _ = split_off_nodes(X, nodes)
        X = validate_data(self, X, reset=False, dtype=float, allow_nd=True)
        if nodes is None:
            if len(self.models_) > 1:
                raise FedRelaxError(
                    f"the network has {len(self.models_)} nodes; say which one each row belongs "
                    "to: predict(X, nodes=...)"
                )
            nodes = [next(iter(self.models_))] * len(X)
        answer = np.empty((len(X), self.result_.task.n_outputs))
        for label, index in group_rows(nodes, len(X)).items():
            answer[index] = self._answers_of(label, X[index])
        return answer

    def _answers_of(self, label: Label, X: FloatArray) -> FloatArray:
        models = self.result_.local_models
        if label in models:
            answer: FloatArray = models[label].predict(X)
            return answer
        if label not in self.whole_graph_:
            hint = did_you_mean(label, self.whole_graph_.labels)
            raise FedRelaxError(
                f"node {label!r} is neither in the training data nor in the graph{hint}; add it to "
                "the graph to predict with the mean of its neighbours"
            )
        near = {j: a for j, a in self.whole_graph_.neighbours(label).items() if j in models}
        if not near:
            raise FedRelaxError(
                f"node {label!r} had no rows, and none of its neighbours in the graph has a model"
            )
        answers = [models[j].predict(X) for j in near]
        return np.asarray(np.average(answers, axis=0, weights=list(near.values())))


class FedRelaxRegressor(RegressorMixin, _FedRelaxEstimator):  # type: ignore[misc]
    """One regression model per node, trained together over a graph.

    By default everything is found from the rows: model, penalty, coupling, level, wiring. With an
    ``alpha`` of your own it is the paper's method, with your models and your graph.

    Parameters
    ----------
    estimator : "auto" (default), a scikit-learn regressor or a ``TorchModel`` for every node, a dict
        node -> model, or a function of the node's label. "auto" with ``alpha="auto"`` finds linear models
        with or without curves, and forests or boosting at nodes that have the rows to tell: see
        ``solvers.WholeNetwork`` and ``selection.kinds``. Classes on a graph, and very large networks on
        one, get a linear model with the penalty found, and exchange predictions. Where that does not serve
        either (several outputs, public rows of each node's own, rounds or a solver that is given), and
        with an alpha that is given, "auto" is ``Ridge()``, and so is None.
    graph : a ``Graph`` over the nodes. Default: every node is joined to every other.
    alpha : how much neighbours count, from 0 (each alone) upwards; several numbers, or "auto" (default)
        for the usual ones, are chosen among, together with the rounds, on folds of the training rows.
    level : the share of that which also holds for the level, from 0 (only the shape is learned from
        others) to 1, the paper's form. "auto" (default) chooses it with alpha, and is 1 if alpha is given.
    wiring : "fixed" keeps the graph. "rewire" lets every node keep those neighbours whose predictions
        agree with its own; "reweight" lets the others count for less; "discover" finds neighbours where
        no graph is given. Or a ``fedrelax.wiring`` object; several, or "auto", are chosen among. Default:
        "auto" where alpha is, else "fixed".
    public : how public rows are drawn ("blend", "gaussian", "marginals", "uniform", "standard",
        "bootstrap": see ``fedrelax.public`` for what each reveals), or the rows themselves: one
        array for all, or a dict node -> array.
    public_rows : how many are drawn.
    rounds : the most of them. Default: 20, and 200 for linear least squares, where a round costs next
        to nothing.
    folds : parts into which every node's rows are dealt where something is to be chosen; three of them
        are held out in turn.
    validation_share : hold out a share of each node's rows; with ``solver=FedRelax(patience=...)`` the
        models of the round with the least validation loss are kept.
    alone : nodes that keep the model trained on their own rows; others still learn from them. "auto"
        adds nodes that have enough rows to tell that they do better so.
    solver : a ``FedRelax`` with the settings that are rarely changed: losses, objective, order, damping,
        weighting, distillation, tolerance, patience, engine.
    quick : try less where something is chosen: no wiring, no level, no curves, no other kinds of models.
    callbacks : ``fedrelax.runtime.Callback`` objects.
    n_jobs, random_state : the number of workers never changes a result, the seed does.

    Attributes
    ----------
    models_ : dict node -> plain fitted estimator.
    graph_, history_, n_rounds_ : the graph among nodes with data, the numbers of each round, and
        the round whose models are kept. ``whole_graph_`` has the nodes without data, too.
    alpha_, level_, wiring_ : the values that were used; ``choice_`` : how they were chosen, None if
        given; ``choice_.reason`` says why, ``choice_.better`` what would be better in one place.
    result_ : all of it, with the discrepancy of each edge, and the edges that were kept.
    plot : pictures of it, such as ``model.plot.graph()``; see ``fedrelax.report.plots``.

    >>> rng = np.random.default_rng(0)
    >>> X, city = rng.normal(size=(60, 2)), np.repeat(["Oslo", "Bergen", "Bodø"], 20)
    >>> y = X @ [1.0, 2.0]
    >>> graph = Graph.from_edges([("Oslo", "Bergen"), ("Bergen", "Bodø")])
    >>> model = FedRelaxRegressor(graph=graph, alpha=0.5).fit(X, y, nodes=city)
    >>> model.models_["Oslo"]
    Ridge()
    >>> bool(model.score(X, y, nodes=city) > 0.95)
    True
    """

    _kind = "regression"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _default_model(self) -> Any:
        return Ridge()

    def predict(self, X: Any, nodes: Any = None) -> FloatArray:
        """Predict each row by the model of its node.

        A node without a model that is in the graph gets the weighted mean of its neighbours'
        predictions. ``nodes`` as in ``fit``.
        """
        answers = self.answers(X, nodes)
        return self.result_.task.decode(answers)

    def score(self, X: Any, y: Any, nodes: Any = None, sample_weight: Any = None) -> float:
        """Return R^2 over all rows."""
        from sklearn.metrics import r2_score

        return float(r2_score(y, self.predict(X, nodes=nodes), sample_weight=sample_weight))


class FedRelaxClassifier(ClassifierMixin, _FedRelaxEstimator):  # type: ignore[misc]
    """One classifier per node, trained together over a graph; see ``FedRelaxRegressor``.

    A node may lack classes that others have seen: the labels are the union over all nodes.
    Where "auto" does not serve, the model is ``LogisticRegression()``.
    """

    _kind = "classification"

    def _default_model(self) -> Any:
        return LogisticRegression(max_iter=1000)

    def _check_target(self, y: AnyArray) -> AnyArray:
        check_classification_targets(y)
        return np.asarray(column_or_1d(y, warn=True))

    @property
    def classes_(self) -> AnyArray:
        """All classes, sorted."""
        check_is_fitted(self, "result_")
        classes = self.result_.task.classes
        assert classes is not None
        return classes

    def predict_proba(self, X: Any, nodes: Any = None) -> FloatArray:
        """Return class probabilities (0 and 1 from a model that only gives labels)."""
        return self.answers(X, nodes)

    def predict(self, X: Any, nodes: Any = None) -> AnyArray:
        """Return the most likely class of each row at its node."""
        answers = self.answers(X, nodes)
        return self.result_.task.decode(answers)

    def score(self, X: Any, y: Any, nodes: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy over all rows."""
        from sklearn.metrics import accuracy_score

        return float(accuracy_score(y, self.predict(X, nodes=nodes), sample_weight=sample_weight))


def one_of(groups: Any, times: Any, rows: int) -> dict[str, AnyArray]:
    """Return the one that was given, checked, by its name; else none."""
    import pandas as pd

    if groups is not None and times is not None:
        raise FedRelaxError("groups and times are both given; folds can follow one of them")
    for name, values in (("groups", groups), ("times", times)):
        if values is None:
            continue
        found = np.asarray(values)
        if found.shape != (rows,):
            raise FedRelaxError(f"{name} has shape {found.shape}, but X has {rows} rows")
        missing = pd.isna(found)
        if missing.any():
            raise FedRelaxError(
                f"{name} has a missing value in row {int(np.argmax(missing))}; every row needs one"
            )
        if found.dtype.kind == "O":
            found = found.astype(str)
        return {name: found}
    return {}


def split_off_nodes(X: Any, nodes: Any) -> tuple[Any, Any, str | None]:
    """Return features, one label per row (or None) and the name of the node column, if any."""
    if not isinstance(nodes, str):
        return X, nodes, None
    if not hasattr(X, "columns"):
        raise FedRelaxError(f"nodes={nodes!r} names a column, but X is not a DataFrame")
    if nodes not in X.columns:
        hint = did_you_mean(nodes, X.columns)
        raise FedRelaxError(f"nodes={nodes!r} is not a column of X{hint}")
    return X.drop(columns=nodes), X[nodes].to_numpy(), nodes
