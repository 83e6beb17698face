"""The estimators: FedRelax in scikit-learn's grammar."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from fedrelax.engines import Engine, LinearEngine
from fedrelax.errors import FedRelaxError, did_you_mean, listing
from fedrelax.graph import Graph
from fedrelax.losses import Loss
from fedrelax.models.registry import is_net
from fedrelax.network import Network
from fedrelax.public import draw_public
from fedrelax.runtime import Callback, Distillation
from fedrelax.selection import STRENGTHS, Choice, choose, usual_alphas
from fedrelax.solvers import FedRelax, Result
from fedrelax.solvers.checks import check_number
from fedrelax.splits import RowGroups, group_rows
from fedrelax.typing import AnyArray, FloatArray, Label
from fedrelax.views import Looks
from fedrelax.wiring import Discover, Rewire, Wiring, as_wiring
from fedrelax.wiring.discover import SMALL

PUBLIC_STREAM = 1
"""Keeps the draw of public rows apart from that of validation rows under one seed."""

FEW_ROUNDS, MANY_ROUNDS = Engine.usual_rounds, LinearEngine.usual_rounds
"""The most rounds where none are given: of any models, and of linear ones, which are cheap."""

Models = Any | Mapping[Label, Any] | Callable[[Label], Any]


class _FedRelaxEstimator(Looks, BaseEstimator):  # type: ignore[misc]
    """What regressor and classifier share; see ``FedRelaxRegressor`` for the parameters."""

    _kind: str

    def __init__(
        self,
        estimator: Models | None = None,
        graph: Graph | None = None,
        alpha: float | str = 0.1,
        public: str | AnyArray | Mapping[Label, AnyArray] = "blend",
        public_rows: int = 200,
        loss: str | Loss | None = None,
        discrepancy: str | Loss | None = None,
        rounds: int | None = None,
        tol: float | None = None,
        wiring: str | Wiring = "fixed",
        objective: str = "paper",
        order: str = "simultaneous",
        damping: float = 0.0,
        weighting: str = "mean",
        distillation: Distillation | None = None,
        continued: bool = False,
        alone: Sequence[Label] = (),
        validation_share: float = 0.0,
        patience: int | None = None,
        callbacks: Sequence[Callback] = (),
        engine: str = "auto",
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.graph = graph
        self.alpha = alpha
        self.public = public
        self.public_rows = public_rows
        self.loss = loss
        self.discrepancy = discrepancy
        self.rounds = rounds
        self.tol = tol
        self.wiring = wiring
        self.objective = objective
        self.order = order
        self.damping = damping
        self.weighting = weighting
        self.distillation = distillation
        self.continued = continued
        self.alone = alone
        self.validation_share = validation_share
        self.patience = patience
        self.callbacks = callbacks
        self.engine = engine
        self.n_jobs = n_jobs
        self.random_state = random_state

    # Fit

    def fit(self, X: Any, y: Any, nodes: Any = None) -> Self:
        """Train one model per node.

        ``nodes`` is one label per row, or the name of a column of the DataFrame ``X`` (which is
        then not a feature). Without it all rows belong to one node, which learns alone.
        """
        check_number("validation_share", self.validation_share, least=0.0, below=1.0)
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
        if nodes is None:
            if self.graph is not None and len(self.graph) > 1:
                raise FedRelaxError(
                    f"the graph has {len(self.graph)} nodes, but fit got no nodes; pass one label "
                    "per row: fit(X, y, nodes=...)"
                )
            nodes = [self.graph.labels[0] if self.graph is not None else 0] * len(X)
        rng = np.random.default_rng(self._seed())
        train, held = group_rows(nodes, len(X)).held_out(self.validation_share, rng)
        trial = self
        if self.alpha == "auto" or self.wiring == "auto":
            own = np.sort(train.order)
            labels = label_rows(train)
            self.choice_ = choose(self, X[own], y[own], [labels[row] for row in own.tolist()])
            trial = clone(self).set_params(**settings_of(self.choice_))
            trial.callbacks = self.callbacks
        result = trial.solve(X, y, train, held)
        self.alpha_, self.wiring_ = float(trial.alpha), trial.wiring
        self.result_: Result = result
        self.graph_, self.history_ = result.graph, result.history
        self.models_, self.n_rounds_ = result.models, result.n_rounds
        self._whole_graph = self._graph_for(list(train))
        return self

    def solve(
        self,
        X: FloatArray,
        y: AnyArray,
        train: Mapping[Label, AnyArray],
        held: Mapping[Label, AnyArray],
    ) -> Result:
        """Train on the row numbers ``train[node]`` and measure on ``held[node]`` in every round.

        This is ``fit`` without its input checks and without a trace on the estimator; choosing
        settings by validation stands on it.
        """
        network = self.network_of(X, y, train, held)
        unknown = [label for label in self.alone if label not in train]
        if unknown:
            hint = did_you_mean(unknown[0], train)
            raise FedRelaxError(f"alone: node {listing(unknown)} has no rows{hint}")
        solver, callbacks = self.solver(list(train)), tuple(self.callbacks)
        return solver.solve(network, callbacks).with_alone(self.alone)

    def solver(self, labels: Sequence[Label]) -> FedRelax:
        """Return the solver with this estimator's settings; an "auto" alpha stands as 0."""
        names = ("loss", "discrepancy", "tol", "patience", "objective", "order", "damping")
        more = ("weighting", "distillation", "continued", "n_jobs", "engine")
        settings = {name: getattr(self, name) for name in names + more}
        if isinstance(self.alpha, str) and self.alpha != "auto":
            raise FedRelaxError(
                f"alpha={self.alpha!r} must be a finite number of at least 0, or 'auto'"
            )
        return FedRelax(
            **settings,
            alpha=0.0 if isinstance(self.alpha, str) else self.alpha,
            rounds=self.rounds,
            wiring=None if self.wiring == "auto" else as_wiring(self.wiring),
            random_state=self._seed(),
        )

    def most_rounds(self, labels: Sequence[Label]) -> int:
        """Return the most rounds that may be run one by one."""
        if self.rounds is not None:
            return self.rounds
        return MANY_ROUNDS if self.is_linear(list(labels)) else FEW_ROUNDS

    def is_linear(self, labels: list[Label]) -> bool:
        """Tell whether all models are linear least squares: rounds are cheap, and lead to one point."""
        settings = FedRelax(
            loss=self.loss, discrepancy=self.discrepancy, distillation=self.distillation
        )
        reason = LinearEngine.refusal_of(self._kind, self.models_for(labels), settings)
        return self.engine in ("auto", "linear") and reason is None

    def wirings_for(
        self, labels: Sequence[Label], wirings: Sequence[str | Wiring] | None = None
    ) -> list[Wiring | None]:
        """Return the wirings to choose among; None is the fixed graph."""
        if wirings is not None:
            return [as_wiring(wiring) for wiring in wirings]
        if self.wiring != "auto":
            return [as_wiring(self.wiring)]
        if self.graph is not None:
            return [None, Rewire()]
        return [Discover()] if len(labels) > SMALL else [None, Discover()]

    def alphas_for(self, labels: Sequence[Label]) -> tuple[float, ...]:
        """Return alphas to try, in proportion to the graph's mean degree."""
        graph = self._graph_for(list(labels)).subgraph(list(labels))
        if self.graph is None and len(labels) > SMALL:
            return tuple(strength / Discover().candidates for strength in STRENGTHS)
        return usual_alphas(graph)

    def _check_target(self, y: AnyArray) -> AnyArray:
        return y

    @property
    def _discovers(self) -> bool:
        return self.wiring in ("auto", "discover") or isinstance(self.wiring, Discover)

    def _graph_for(self, labels: list[Label]) -> Graph:
        if self.graph is None:
            if self._discovers and len(labels) > SMALL:
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

    def _seed(self) -> int:
        """Return a whole number from ``random_state``, which may be None or a generator."""
        from sklearn.utils import check_random_state

        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31))

    def network_of(
        self,
        X: FloatArray,
        y: AnyArray,
        rows: Mapping[Label, AnyArray],
        held: Mapping[Label, AnyArray],
    ) -> Network:
        """Return the network that ``solve`` trains: row numbers by node, held-out ones beside."""
        graph, groups = self._graph_for(list(rows)), RowGroups.of(rows)
        public: Any = self.public
        if isinstance(public, str):
            rng = np.random.default_rng([self._seed(), PUBLIC_STREAM])
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
        given = self._default_model() if self.estimator is None else self.estimator
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

    # Predict

    def _predictions(self, X: Any, nodes: Any) -> FloatArray:
        """Return the (rows, outputs) predictions of each row's node."""
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
            answer[index] = self._predict_node(label, X[index])
        return answer

    def _predict_node(self, label: Label, X: FloatArray) -> FloatArray:
        models = self.result_.local_models
        if label in models:
            return models[label].predict(X)
        if label not in self._whole_graph:
            hint = did_you_mean(label, self._whole_graph.labels)
            raise FedRelaxError(
                f"node {label!r} is neither in the training data nor in the graph{hint}; add it to "
                "the graph to predict with the mean of its neighbours"
            )
        near = {j: a for j, a in self._whole_graph.neighbours(label).items() if j in models}
        if not near:
            raise FedRelaxError(
                f"node {label!r} had no rows, and none of its neighbours in the graph has a model"
            )
        answers = [models[j].predict(X) for j in near]
        return np.asarray(np.average(answers, axis=0, weights=list(near.values())))


class FedRelaxRegressor(RegressorMixin, _FedRelaxEstimator):  # type: ignore[misc]
    """One regression model per node, trained together over a graph.

    Parameters
    ----------
    estimator : a scikit-learn regressor or a ``TorchModel`` for every node, or a dict node -> model,
        or a function of the node's label. Default: ``Ridge()``.
    graph : a ``Graph`` over the nodes. Default: every node is joined to every other.
    alpha : how much neighbours count, from 0 (each alone) upwards; "auto" chooses it, and the rounds,
        by cross-validation on the training rows.
    public : how public rows are drawn ("blend", "gaussian", "marginals", "uniform", "standard",
        "bootstrap": see ``fedrelax.public`` for what each reveals), or the rows themselves: one
        array for all, or a dict node -> array.
    public_rows : how many are drawn.
    loss, discrepancy : names or ``fedrelax.losses`` objects. Default: squared error for numbers,
        log loss for classes, and the same across edges; every model then trains by its own criterion.
        With a loss named here, a model that is known to minimise another one is refused.
    rounds, tol : stop after so many rounds, or when predictions change by less than ``tol`` (default
        1e-4). Without a number of rounds: at most 20, and linear least squares goes straight to where
        the rounds lead, to a relative residual of ``tol`` (default 1e-8); see ``solvers.FedRelax``.
    wiring : "fixed" keeps the graph. "rewire" lets every node keep those neighbours whose predictions
        agree with its own; "reweight" lets the others count for less; "discover" finds neighbours where
        no graph is given. "auto" chooses on the training rows. Or a ``fedrelax.wiring`` object.
    validation_share, patience : hold out a share of each node's rows, keep the models of the round
        with the least validation loss, stop after ``patience`` rounds without a better one.
    objective, order, damping, weighting, distillation, continued : see ``solvers.FedRelax``.
    alone : nodes that keep the model trained on their own rows; others still learn from them. "auto"
        adds nodes that have enough rows to tell that they do better so.
    callbacks : ``fedrelax.runtime.Callback`` objects.
    engine : "auto" computes all nodes at once where every model is linear least squares ("linear"), or a
        ``SoftmaxModel`` on one common public set ("softmax"), and node by node otherwise ("sites"). A
        name takes that one, or says why not. The result is the same.
    n_jobs, random_state : the number of workers never changes a result, the seed does.

    Attributes
    ----------
    models_ : dict node -> plain fitted estimator.
    graph_, history_, n_rounds_ : the graph among nodes with data, the numbers of each round, and
        the round whose models are kept.
    alpha_, wiring_ : the values that were used; ``choice_`` : how "auto" came to them.
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
        prediction = self._predictions(X, nodes)
        return self.result_.task.decode(prediction)

    def score(self, X: Any, y: Any, nodes: Any = None, sample_weight: Any = None) -> float:
        """Return R^2 over all rows."""
        from sklearn.metrics import r2_score

        return float(r2_score(y, self.predict(X, nodes=nodes), sample_weight=sample_weight))


class FedRelaxClassifier(ClassifierMixin, _FedRelaxEstimator):  # type: ignore[misc]
    """One classifier per node, trained together over a graph; see ``FedRelaxRegressor``.

    A node may lack classes that others have seen: the labels are the union over all nodes.
    Default model: ``LogisticRegression()``.
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
        return self._predictions(X, nodes)

    def predict(self, X: Any, nodes: Any = None) -> AnyArray:
        """Return the most likely class of each row at its node."""
        prediction = self._predictions(X, nodes)
        return self.result_.task.decode(prediction)

    def score(self, X: Any, y: Any, nodes: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy over all rows."""
        from sklearn.metrics import accuracy_score

        return float(accuracy_score(y, self.predict(X, nodes=nodes), sample_weight=sample_weight))


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


def label_rows(rows: Mapping[Label, AnyArray]) -> dict[int, Label]:
    """Return the node of every row number."""
    return {row: label for label, index in rows.items() for row in index.tolist()}


def settings_of(choice: Choice) -> dict[str, Any]:
    """Return a choice as the estimator's own settings."""
    wiring = choice.wiring or "fixed"
    return {
        "alpha": choice.alpha,
        "wiring": wiring,
        "rounds": choice.rounds,
        "alone": choice.alone,
    }
