"""Plain fitted estimators for every node, alone and together, from what was found for the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline

from fedrelax.engines.whole.ridge import NetworkRidge, choose_ridge
from fedrelax.engines.whole.softmax import NetworkSoftmax, choose_softmax
from fedrelax.models.curves import CurveColumns
from fedrelax.network import Network
from fedrelax.typing import AnyArray, FloatArray

ONE_MODEL = 1e9
"""The alpha that stands for one model for all."""


@dataclass(frozen=True)
class Found:
    """What was found: estimators in the order of the nodes, and how they were chosen.

    ``alpha`` is the mean pull of the coupling relative to that of the public rows' own matrix;
    ``left_out`` are the losses of rows under models that have not seen them: alone, together and,
    where it was tried, one model for all.
    """

    alone: list[Any]
    together: list[Any]
    alpha: float
    words: str
    left_out: dict[str, float]


def find(network: Network) -> Found:
    """Find all settings and models of a network from the rows of its nodes."""
    own = network.own_rows
    node = np.repeat(np.arange(len(network)), own.counts)
    X, task = np.asarray(own.X, dtype=float), network.task
    if task.is_classification:
        assert task.classes is not None
        codes = np.searchsorted(task.classes, own.y)
        return _classes(
            choose_softmax(X, codes, node, len(network), len(task.classes)), task.classes
        )
    y = np.asarray(own.y, dtype=float).reshape(len(X))
    return _numbers(choose_ridge(X, y, node, len(network)), X)


def _numbers(found: NetworkRidge, X: FloatArray) -> Found:
    n, curves = len(found.models), found.curves
    alone = [plain_ridge(w, found.centre, found.spread) for w in found.apart]
    if curves is None:
        together = [plain_ridge(w, found.centre, found.spread) for w in found.models]
    else:
        columns = CurveColumns.made(curves, found.centre, found.spread)
        together = [
            Pipeline([("curves", columns), ("ridge", _fitted(Ridge(), w[:-1], w[-1]))])
            for w in found.models
        ]
    first, size = found.parts[0], X.shape[1]
    if first.coupling is None:
        alpha = ONE_MODEL
    elif first.words == "every node alone":
        alpha = 0.0
    else:
        alpha = float(np.trace(first.coupling[:size, :size])) / max(size, 1) / n
    left_out = {"alone": found.alone, "together": found.together, "one model": found.one_model}
    return Found(alone, together, alpha, found.words, left_out)


def plain_ridge(w: FloatArray, centre: FloatArray, spread: FloatArray) -> Ridge:
    """Return a model of standardised columns as one of the columns themselves."""
    coef = w[:-1] / spread
    return _fitted(Ridge(), coef, float(w[-1] - centre @ coef))


def _fitted(model: Ridge, coef: FloatArray, intercept: float) -> Ridge:
    model.coef_, model.intercept_ = coef.copy(), float(intercept)
    model.n_features_in_, model.n_iter_, model.solver_ = len(coef), None, "cholesky"
    return model


def _classes(found: NetworkSoftmax, classes: AnyArray) -> Found:
    best = min(found.tried, key=lambda candidate: candidate.loss)
    n = found.models.shape[1]

    def fitted(models: FloatArray) -> list[Any]:
        coef = models[:, :, :-1] / found.spread
        levels = models[:, :, -1] - coef @ found.centre
        return [_logistic(coef[:, i], levels[:, i], classes) for i in range(n)]

    words = f"penalty {best.penalty:g}, pull {best.strength:g}, {best.level:g} of it on the level"
    left_out = {"alone": found.apart.loss, "together": best.loss}
    return Found(
        fitted(found.apart.models), fitted(found.models), best.strength / n, words, left_out
    )


def _logistic(coef: FloatArray, intercept: FloatArray, classes: AnyArray) -> LogisticRegression:
    model = LogisticRegression()
    model.coef_, model.intercept_, model.classes_ = coef.copy(), intercept.copy(), classes
    model.n_features_in_, model.n_iter_ = coef.shape[1], np.ones(1, dtype=np.int32)
    return model
