"""Plain fitted estimators for every node, alone and together, from the settings found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline

from fedrelax.engines.whole.graph_ridge import choose_ridge_on
from fedrelax.engines.whole.ridge import MOST_WORK, choose_ridge
from fedrelax.engines.whole.ridge_rows import ALONE, Fold, NetworkRidge, Scale
from fedrelax.engines.whole.softmax import NetworkSoftmax, choose_softmax
from fedrelax.losses import usual_loss
from fedrelax.models import LinearModel, SoftmaxModel
from fedrelax.models.curves import CurveColumns
from fedrelax.network import Network
from fedrelax.typing import AnyArray, FloatArray, IntArray

ONE_MODEL = 1e9
"""The alpha that stands for one model for all nodes."""
MOST_NODES, FEWEST_NODES = 1000, 30
"""The most and fewest nodes used to find the settings; of a larger network, a sample."""
SAMPLE_STREAM = 5
"""Keeps the draw of that sample independent of other draws under one seed."""


@dataclass(frozen=True)
class Found:
    """What was found: estimators in the order of the nodes, and how they were chosen.

    ``alone``, ``together`` and ``pooled`` (one model for all) are plain fitted estimators. ``alpha`` is
    the mean strength of the coupling along an edge of weight one, relative to that of the public rows'
    own matrix; ``penalty`` and ``level`` are those of the best candidate; ``left_out`` are the mean losses
    of rows under models that have not seen them.
    """

    settings: NetworkRidge | NetworkSoftmax
    alone: list[Any]
    together: list[Any]
    pooled: Any
    alpha: float
    penalty: float
    level: float
    words: str
    left_out: dict[str, float]

    @property
    def is_one_model(self) -> bool:
        """Whether all nodes share one model; a graph of several parts has one for each of them."""
        models = self.settings.models
        return self.alpha == ONE_MODEL and not np.ptp(models, axis=-2).any()

    def model(self, rows: float) -> LinearModel | SoftmaxModel:
        """Return an unfitted linear model with the penalty found, for nodes with this many rows."""
        return _model(self.settings, rows)

    def losses(self, fold: Network, means: bool = True) -> FloatArray:
        """Return every node's mean loss on a fold's validation rows, with models fitted to the rest.

        Without ``means``, return the loss of each row.
        """
        X, y, node = rows_of(fold)
        held = fold.validation_rows
        assert held is not None
        models = self.settings.refitted(X, y, node, len(fold), _laplacian(fold))
        where = np.repeat(np.arange(len(fold)), held.counts)
        answers = models.predict(np.asarray(held.X, dtype=float), where)
        target = fold.task.encode(held.y)
        losses = usual_loss(fold.kind).per_row(target, answers.reshape(len(target), -1))
        if not means:
            return losses
        sums = np.bincount(where, losses, minlength=len(fold))
        return np.asarray(sums / np.where(held.counts > 0, held.counts, np.nan))

    def again(self, network: Network) -> Found:
        """Refit to other rows, and possibly other nodes, with the same settings."""
        X, y, node = rows_of(network)
        settings = self.settings
        if isinstance(settings, NetworkSoftmax):  # other rows may be of other classes
            settings = replace(settings, classes=network.task.n_outputs)
        found = settings.rescaled(X).refitted(X, y, node, len(network), _laplacian(network))
        return _found(found, network)


def find(
    network: Network, folds: Sequence[Fold] = (), *, curves: bool = True, seed: int = 0
) -> Found:
    """Find all settings and models of a network from the rows of its nodes.

    ``folds`` are used to compare candidates if rows of several nodes belong together. In a large network,
    the settings are found from a sample of the nodes.
    """
    laplacian = _laplacian(network)
    if laplacian is not None:
        X, y, node = rows_of(network)
        return _numbers(choose_ridge_on(laplacian, X, y, node, curves=curves, folds=folds))
    settings = _settings(network, folds, curves, seed)
    if sample_size(len(network), network.own_rows.X.shape[1]) < len(network):
        X, y, node = rows_of(network)
        settings = settings.rescaled(X).refitted(X, y, node, len(network))
    return _found(settings, network)


def linear_model(network: Network, seed: int = 0) -> LinearModel | SoftmaxModel:
    """Return an unfitted linear model with a penalty that suits the nodes, whatever their graph."""
    settings = _settings(network, (), False, seed)
    return _model(settings, float(np.mean(network.own_rows.counts)))


def _model(found: NetworkRidge | NetworkSoftmax, rows: float) -> LinearModel | SoftmaxModel:
    if isinstance(found, NetworkSoftmax):
        return SoftmaxModel(ridge=found.penalty / (2.0 * rows), scale=found.spread.tolist())
    return LinearModel(ridge=found.penalty / rows, scale=found.scale.spread.tolist())


def sample_size(n: int, columns: int) -> int:
    """Return how many of n nodes are used to find the settings."""
    fit = int(MOST_WORK / (columns + 1) ** 3)
    return min(n, MOST_NODES, max(fit, FEWEST_NODES))


def rows_of(network: Network) -> tuple[FloatArray, AnyArray, IntArray]:
    """Return the nodes' own rows, targets (numbers, or class codes), and the node of each row."""
    own, task = network.own_rows, network.task
    node = np.repeat(np.arange(len(network)), own.counts)
    X = np.asarray(own.X, dtype=float)
    if task.is_classification:
        assert task.classes is not None
        return X, np.searchsorted(task.classes, own.y), node
    return X, np.asarray(own.y, dtype=float).reshape(len(X)), node


def _settings(
    network: Network, folds: Sequence[Fold], curves: bool, seed: int
) -> NetworkRidge | NetworkSoftmax:
    """Return the settings for the complete graph; of a large network, from a sample of the nodes."""
    X, y, node = rows_of(network)
    n, classes = len(network), network.task.classes
    few = sample_size(n, X.shape[1])
    if few < n:
        chosen = np.random.default_rng([seed, SAMPLE_STREAM]).permutation(n)[:few]
        place = np.full(n, -1)
        place[chosen] = np.arange(few)
        own = place[node] >= 0
        folds = [(train[own], held[own]) for train, held in folds]
        X, y, node = X[own], y[own], place[node[own]]
    if classes is not None:
        return choose_softmax(X, y, node, few, len(classes), folds=folds)
    return choose_ridge(X, y, node, few, curves=curves, folds=folds)


def _laplacian(network: Network) -> Any:
    """Return the Laplacian of the graph; None if it has no edges, or joins all nodes with one weight."""
    graph = network.graph
    return None if graph.is_uniform or not graph.n_edges else graph.laplacian()


def _found(found: NetworkRidge | NetworkSoftmax, network: Network) -> Found:
    if isinstance(found, NetworkSoftmax):
        assert network.task.classes is not None
        return _classes(found, network.task.classes)
    return _numbers(found)


def _numbers(found: NetworkRidge) -> Found:
    scale = found.scale
    alone = estimators_of(scale.plain, found.apart)
    together = estimators_of(scale, found.models)
    first, size = found.parts[0], len(scale.centre)
    if first.coupling is None:
        alpha = ONE_MODEL
    elif first.words == ALONE:
        alpha = 0.0
    else:
        alpha = float(np.trace(first.coupling[:size, :size])) / max(size, 1) * found.per_edge
    return Found(
        settings=found,
        alone=alone,
        together=together,
        pooled=plain_ridge(found.one, scale.centre, scale.spread),
        alpha=alpha,
        penalty=found.penalty,
        level=first.level,
        words=found.words,
        left_out=found.errors,
    )


def estimators_of(scale: Scale, models: FloatArray) -> list[Any]:
    """Return models (n, d) of a scale's columns as plain fitted estimators."""
    if scale.is_plain:
        return [plain_ridge(w, scale.centre, scale.spread) for w in models]
    columns = CurveColumns.made(scale.curves, scale.centre, scale.spread, scale.lines, scale.values)
    return [
        Pipeline([("curves", columns), ("ridge", _fitted(Ridge(), w[:-1], w[-1]))]) for w in models
    ]


def plain_ridge(w: FloatArray, centre: FloatArray, spread: FloatArray) -> Ridge:
    """Return a model of standardised columns as a model of the columns themselves."""
    coef = w[:-1] / spread
    return _fitted(Ridge(), coef, float(w[-1] - centre @ coef))


def _fitted(model: Ridge, coef: FloatArray, intercept: float) -> Ridge:
    model.coef_, model.intercept_ = coef.copy(), float(intercept)
    model.n_features_in_, model.n_iter_, model.solver_ = len(coef), None, "cholesky"
    return model


def _classes(found: NetworkSoftmax, classes: AnyArray) -> Found:
    best = found.parts[0]
    n = found.models.shape[1]

    def fitted(models: FloatArray) -> list[Any]:
        coef = models[:, :, :-1] / found.spread
        levels = models[:, :, -1] - coef @ found.centre
        return [_logistic(coef[:, i], levels[:, i], classes) for i in range(models.shape[1])]

    return Found(
        settings=found,
        alone=fitted(found.apart),
        together=fitted(found.models),
        pooled=fitted(found.one)[0],
        alpha=ONE_MODEL if np.isinf(best.strength) else best.strength / n,
        penalty=found.penalty,
        level=best.level,
        words=best.words,
        left_out=found.losses,
    )


def _logistic(coef: FloatArray, intercept: FloatArray, classes: AnyArray) -> LogisticRegression:
    model = LogisticRegression()
    model.coef_, model.intercept_, model.classes_ = coef.copy(), intercept.copy(), classes
    model.n_features_in_, model.n_iter_ = coef.shape[1], np.ones(1, dtype=np.int32)
    return model
