"""One regressor or classifier per node."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from fedrelax.estimators.base import FedRelaxEstimator
from fedrelax.typing import AnyArray, FloatArray


class FedRelaxRegressor(RegressorMixin, FedRelaxEstimator):  # type: ignore[misc]
    """One regression model per node, trained together over a graph.

    By default everything is chosen from the training rows: model, penalty, coupling, level and wiring.
    With an ``alpha`` of your own it is the paper's method, with your models and your graph.

    Parameters
    ----------
    estimator : "auto" (default), one scikit-learn regressor or ``TorchModel`` for every node, a dict
        node -> model, or a function from a node's label to its model. "auto" with ``alpha="auto"`` finds
        linear models, with or without curves, and adds boosted differences where held-out rows show that
        these do better: see ``solvers.PartialPooling`` and ``pooling.boosting``. A network of more
        than 1,000 nodes on a graph of its own gets a linear model with a penalty found from the rows, and
        exchanges predictions. Where neither is possible (several outputs, separate public rows for each
        node, ``rounds`` or ``solver`` given), and whenever alpha is given, "auto" means ``Ridge()``, and so
        does None.
    graph : a ``Graph`` over the nodes. Default: every node is joined to every other.
    alpha : how much neighbours count, from 0 (each node alone) upwards. Given several numbers, or "auto"
        (default) for the usual ones, the best is chosen on folds of the training rows, together with the
        number of rounds. Then trees, boosting and other models of scikit-learn that are not linear learn
        their difference from their neighbours, unless ``solver`` says otherwise: ``update_`` says which.
    level : the share of alpha that also applies to the level, a node's average prediction: from 0 (only
        the shape is learned from others) to 1, the paper's form. "auto" (default) chooses it together with
        alpha, and means 1 if alpha is given.
    wiring : "fixed" keeps the graph. "rewire" lets every node keep only the neighbours whose predictions
        agree with its own; "discover" finds neighbours where no graph is given. Or a ``fedrelax.wiring``
        object. Given several, or "auto", the best is chosen.
        Default: "auto" if alpha is "auto", else "fixed".
    public : how to draw the public rows ("blend", "gaussian", "marginals", "uniform", "standard",
        "bootstrap": see ``fedrelax.public`` for what each reveals), or the rows themselves: one
        array for all nodes, or a dict node -> array.
    public_rows : how many public rows to draw. Default: 100 for each node, but at most about 5,000 in all,
        and at least 2,000 where boosting is tried; with models of your own 200, or 2,000 where these learn
        their difference (500 with ``quick``).
    rounds : the maximum number of rounds. Default: 20, or 200 for linear least squares, where a round
        costs next to nothing; with alpha given and a fixed graph, these go straight to the fixed point.
    folds : how many folds to split every node's rows into when a setting is chosen. Three of them are
        held out in turn; with ``groups``, all.
    validation_share : the share of each node's rows to hold out for validation. With
        ``solver=FedRelax(patience=...)``, the models of the round with the lowest validation loss are kept.
    alone : nodes that keep the model trained on their own rows; others still learn from them. Where alpha
        is chosen on folds, nodes that clearly do better alone are added.
    solver : a ``FedRelax`` with the settings that are rarely changed: update, losses, objective, order,
        damping, weighting, distillation, tolerance, patience, engine.
    schema : what the columns mean: a ``fedrelax.schema.Schema``, or the path of its JSON file. Default:
        inferred from the training rows.
    unknown : what to do about rows of nodes that were not in training and have no neighbour in the graph
        with a model. "consensus" (default) predicts the mean of all nodes' predictions (for classes, of
        their probabilities) and warns; "raise" refuses. It is not used by ``fit``, and ``set_params`` may
        change it later.
    quick : try fewer settings: no wiring, no level, no curves, no other kinds of model.
    minutes : how long the search for settings may take. What does not fit, by the measured cost of a run,
        is left out: levels and wirings first, then folds, strengths and rounds; ``choice_.left_out`` and a
        warning say what, and the result then depends on the machine's speed. None: half a minute, and 5
        seconds with ``quick``; with a ``Checkpoint``, as long as it takes.
    callbacks : ``fedrelax.runtime.Callback`` objects; a ``fedrelax.storage.Checkpoint`` is one.
    n_jobs : the number of workers; it never changes the result.
    random_state : the seed; the same seed gives the same result.
    backend : where to fit nodes that are not computed all at once: "threads", "processes", "dask" or
        "ray" (extras of these names). Default: what ``joblib.parallel_config`` says, else threads or
        processes, whichever suits the models. The result is the same.
    address : the Dask or Ray cluster to join. Default: the one this process is connected to, else a local
        one with ``n_jobs`` workers, started for the run and shut down after it.

    Attributes
    ----------
    models_ : dict node -> plain fitted estimator.
    graph_ : the graph among the nodes with data; ``whole_graph_`` includes the nodes without.
    history_ : loss, disagreement and objective of every round.
    n_rounds_ : the round whose models are kept.
    alpha_, level_, wiring_ : the values used.
    choice_ : how they were chosen, or None if they were given. ``choice_.reason`` says why,
        ``choice_.better`` what would do better if all rows were in one place.
    result_ : the whole result, including the discrepancy of every edge and the edges that were kept.
    plot : plots of the result, such as ``model.plot.graph()``; see ``fedrelax.report.plots``.

    >>> import numpy as np
    >>> from fedrelax import Graph
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

    def score(self, X: Any, y: Any, nodes: Any = None, sample_weight: Any = None) -> float:
        """Return R^2 over all rows, each predicted by the model of its node."""
        from sklearn.metrics import r2_score

        return float(r2_score(y, self.predict(X, nodes=nodes), sample_weight=sample_weight))


class FedRelaxClassifier(ClassifierMixin, FedRelaxEstimator):  # type: ignore[misc]
    """One classifier per node, trained together over a graph.

    Parameters and attributes are those of ``FedRelaxRegressor``, and ``classes_``. A node may lack classes
    that others have: ``classes_`` is the union over all nodes. Where the regressor falls back on
    ``Ridge()``, the model is ``LogisticRegression(max_iter=1000)``.
    """

    _kind = "classification"

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
        """Return class probabilities in the order of ``classes_``; 0 or 1 if a model only gives labels."""
        return self.answers(X, nodes)

    def score(self, X: Any, y: Any, nodes: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy over all rows."""
        from sklearn.metrics import accuracy_score

        return float(accuracy_score(y, self.predict(X, nodes=nodes), sample_weight=sample_weight))
