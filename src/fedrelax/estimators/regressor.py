"""One regression model per node."""

from __future__ import annotations

from typing import Any

from sklearn.base import RegressorMixin
from sklearn.linear_model import Ridge

from fedrelax.estimators.base import FedRelaxEstimator
from fedrelax.typing import FloatArray


class FedRelaxRegressor(RegressorMixin, FedRelaxEstimator):  # type: ignore[misc]
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
    folds : how many folds every node's rows are split into where something is to be chosen; three of them
        are held out in turn.
    validation_share : hold out a share of each node's rows; with ``solver=FedRelax(patience=...)`` the
        models of the round with the least validation loss are kept.
    alone : nodes that keep the model trained on their own rows; others still learn from them. "auto"
        adds nodes that have enough rows to tell that they do better so.
    solver : a ``FedRelax`` with the settings that are rarely changed: losses, objective, order, damping,
        weighting, distillation, tolerance, patience, engine.
    quick : try less where something is chosen: no wiring, no level, no curves, no other kinds of models.
    callbacks : ``fedrelax.runtime.Callback`` objects; a ``fedrelax.storage.Checkpoint`` is one.
    n_jobs, random_state : the number of workers never changes a result, the seed does.
    backend : where nodes are fitted that are not computed all at once: "threads", "processes", "dask" or
        "ray" (extras of these names). Default: what ``joblib.parallel_config`` says, else threads or
        processes, as suits the models. The result is the same.
    address : the cluster of Dask or Ray to join. Default: the one that this process has, else one that
        is started here with ``n_jobs`` workers, and ended.

    Attributes
    ----------
    models_ : dict node -> plain fitted estimator.
    graph_, history_, n_rounds_ : the graph among nodes with data, the numbers of each round, and
        the round whose models are kept. ``whole_graph_`` has the nodes without data, too.
    alpha_, level_, wiring_ : the values that were used; ``choice_`` : how they were chosen, None if
        given; ``choice_.reason`` says why, ``choice_.better`` what would be better in one place.
    result_ : all of it, with the discrepancy of each edge, and the edges that were kept.
    plot : pictures of it, such as ``model.plot.graph()``; see ``fedrelax.report.plots``.

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

    def _default_model(self) -> Any:
        return Ridge()

    def predict(self, X: Any, nodes: Any = None) -> FloatArray:
        """Predict each row by the model of its node.

        A node without a model that is in the graph gets the weighted mean of its neighbours'
        predictions. ``nodes`` as in ``fit``.
        """
        answers = self.answers(X, nodes)
        return self._result.task.decode(answers)

    def score(self, X: Any, y: Any, nodes: Any = None, sample_weight: Any = None) -> float:
        """Return R^2 over all rows."""
        from sklearn.metrics import r2_score

        return float(r2_score(y, self.predict(X, nodes=nodes), sample_weight=sample_weight))
