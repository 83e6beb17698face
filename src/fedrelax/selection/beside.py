"""What would do better: the usual ways that need all rows in one place, on the same held-out rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedrelax.models import Task
from fedrelax.threads import one_thread
from fedrelax.typing import AnyArray, FloatArray, IntArray, Model

FOLDS = 2
"""How many of the folds are used: boosting takes a tenth of a second on each."""
BETTER = 0.03
"""The share by which a usual way's error must be lower for it to be named."""
SURE = 1.0
"""Standard errors, over nodes, by which its loss must also be lower."""
MOST_NODES, MOST_ROWS = 200, 10_000
"""From a larger network, at most this many nodes and this many rows are sampled."""
LEAST_NODES = 20
"""At least this many nodes are sampled; if they have more rows than that, some rows of each are used."""
MANY_ROWS = 1000
"""Rows from which boosting has larger trees and smaller steps; with classes, twice as many."""
PENALTIES = np.logspace(-4, 3, 15)
"""Ridge penalties, of which the best by leave-one-out is used."""
LOOSE = (0.1, 1.0)
"""Values of C tried for logistic regression."""
LEAST_LIKELY = 1e-6
"""Probabilities are clipped here, as they are when the network's models are found."""

LINEAR = "one linear model"
BOOSTED = "boosting"
WAYS = {
    LINEAR: "One linear model of all rows in one place, with a column for each node,",
    BOOSTED: "A boosted model of all rows in one place, with a level for each node,",
}
"""The usual ways by name, and how a sentence about each begins."""

_Rows = tuple[FloatArray, AnyArray, IntArray]
"""Features, targets (numbers or class indices) and nodes of rows."""


@dataclass(frozen=True)
class Beside:
    """Errors on held-out rows: of the usual ways by name, and of the network's ``own`` models.

    They are root mean squared errors, or log losses. ``sentence`` names the best way if it is clearly
    better than the network, else it is None.
    """

    errors: dict[str, float]
    own: float
    sentence: str | None


def compare_beside(
    X: FloatArray,
    y: AnyArray,
    node: IntArray,
    n: int,
    task: Task,
    losses: FloatArray,
    held: Sequence[AnyArray],
    *,
    seed: int = 0,
) -> Beside | None:
    """Return how the usual ways do on the held-out rows, or None if none of these has a loss.

    Row r of X (rows, features) with target ``y[r]`` belongs to node ``node[r]`` of ``n``; its loss
    ``losses[r]`` under a model of the network that has not seen it is a squared error or a log loss, and
    NaN where there is none. ``held`` are masks of the rows held out together; the usual ways learn
    from all others, as the network's models should have done.
    """
    rng = np.random.default_rng(seed)
    rows = _sample(node, n, rng)
    X, y, losses = X[rows], y[rows], losses[rows]
    node = np.unique(node[rows], return_inverse=True)[1]
    target = _column(y) if task.classes is None else np.searchsorted(task.classes, y)
    found: dict[str, list[FloatArray]] = {name: [] for name in WAYS}
    judged = []
    with one_thread():
        for mask in [mask[rows] for mask in held][:FOLDS]:
            out = np.flatnonzero(mask & np.isfinite(losses))
            known = ~mask
            if len(out) == 0 or len(np.unique(target[known])) < 2:
                continue
            judged.append(out)
            rest = X[known], target[known], node[known]
            for name, loss in _losses(rest, (X[out], target[out], node[out]), task, rng).items():
                found[name].append(loss)
    if not judged:
        return None
    places = np.concatenate(judged)
    by_way = {name: np.concatenate(parts) for name, parts in found.items()}
    errors = {name: _error(loss, task) for name, loss in by_way.items()}
    own = losses[places]
    return Beside(errors, _error(own, task), _sentence(by_way, own, node[places], task))


def _column(y: AnyArray) -> FloatArray:
    return np.asarray(y, dtype=float).reshape(len(y))


def _error(losses: FloatArray, task: Task) -> float:
    mean = float(losses.mean())
    return mean if task.is_classification else float(np.sqrt(mean))


def _sentence(
    means: dict[str, FloatArray], own: FloatArray, node: IntArray, task: Task
) -> str | None:
    """Return the sentence about the best way, if it is clearly better than the network."""
    best = min(means, key=lambda name: float(means[name].mean()))
    gain = 1.0 - _error(means[best], task) / max(_error(own, task), 1e-300)
    gaps = np.bincount(node, own - means[best])
    rest = gaps - np.bincount(node) * (gaps.sum() / len(own))
    if gain <= BETTER or gaps.sum() <= SURE * np.sqrt(np.square(rest).sum()):
        return None
    return (
        f"{WAYS[best]} had a {100 * gain:.0f} % lower error on held-out rows; if rows may be pooled, "
        "consider it."
    )


def _sample(node: IntArray, n: int, rng: np.random.Generator) -> IntArray:
    """Return the rows to use: all, or those of a sample of nodes."""
    counts = np.bincount(node, minlength=n)
    if len(node) <= MOST_ROWS and np.count_nonzero(counts) <= MOST_NODES:
        return np.arange(len(node))
    order = rng.permutation(np.flatnonzero(counts))[:MOST_NODES]
    fitting = int(np.searchsorted(np.cumsum(counts[order]), MOST_ROWS, side="right"))
    chosen = np.zeros(n, dtype=bool)
    chosen[order[: max(fitting, LEAST_NODES)]] = True
    rows = np.flatnonzero(chosen[node])
    if len(rows) > MOST_ROWS:
        rows = np.sort(rng.choice(rows, MOST_ROWS, replace=False))
    return rows


def _losses(
    known: _Rows, left_out: _Rows, task: Task, rng: np.random.Generator
) -> dict[str, FloatArray]:
    """Return each way's losses on the held-out rows after learning from the known ones.

    Boosting is given each node's level in the linear model as columns, since the categories of
    scikit-learn's boosting need ten rows each; in regression it predicts relative to that level.
    """
    (X, y, g), (T, t, h) = known, left_out
    n, p = int(max(g.max(), h.max())) + 1, X.shape[1]
    centre, spread = X.mean(axis=0), X.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    A = np.hstack([(X - centre) / spread, np.eye(n)[g]])
    B = np.hstack([(T - centre) / spread, np.eye(n)[h]])
    boosting = _boosting(task, len(y))
    if task.classes is None:
        weights, level = _ridge(A, y)
        levels = weights[p:]
        mean = np.bincount(g, y, n) / np.maximum(np.bincount(g, minlength=n), 1)
        boosting.fit(np.column_stack([X, mean[g], levels[g]]), y - levels[g])
        boosted = levels[h] + boosting.predict(np.column_stack([T, mean[h], levels[h]]))
        return {LINEAR: np.square(t - level - B @ weights), BOOSTED: np.square(t - boosted)}
    logistic = _logistic(A, y, rng)
    straight = _log_losses(logistic, A, y, B, t)
    scores = logistic.coef_[:, p:].T
    parts = np.hstack([X, scores[g]]), y, np.hstack([T, scores[h]]), t
    return {LINEAR: straight, BOOSTED: _log_losses(boosting, *parts)}


def _ridge(A: FloatArray, y: FloatArray) -> tuple[FloatArray, float]:
    """Return weights and intercept of the ridge regression with the best penalty by leave-one-out.

    With A = U S V' (centred), a row's leave-one-out residual is its residual / (1 - its leverage), and
    the leverage is 1 / rows + sum_k U_rk^2 s_k^2 / (s_k^2 + penalty).
    """
    centre, level = A.mean(axis=0), float(y.mean())
    A, z = A - centre, y - level
    squares, V = np.linalg.eigh(A.T @ A)
    kept = squares > 1e-10 * max(float(squares[-1]), 1e-300)
    squares, V = squares[kept], V[:, kept]
    scores = A @ V
    moments, powers = scores.T @ z, np.square(scores)
    best, weights = np.inf, np.zeros(len(squares))
    for penalty in PENALTIES:
        shrunk = 1.0 / (squares + penalty)
        leverage = 1.0 / len(y) + powers @ shrunk
        left = (z - scores @ (moments * shrunk)) / np.maximum(1.0 - leverage, 1e-6)
        error = float(left @ left)
        if error < best:
            best, weights = error, moments * shrunk
    slopes = V @ weights
    return slopes, float(level - centre @ slopes)


def _logistic(A: FloatArray, y: AnyArray, rng: np.random.Generator) -> Any:
    """Return a logistic regression with the C that does best on a held-out third of the rows."""
    from sklearn.linear_model import LogisticRegression

    third = rng.permutation(len(y)) % 3 == 0
    if len(np.unique(y[~third])) < 2:
        return LogisticRegression(C=LOOSE[0], max_iter=200)
    tried = [LogisticRegression(C=C, max_iter=200) for C in LOOSE]
    parts = A[~third], y[~third], A[third], y[third]
    return min(tried, key=lambda model: float(_log_losses(model, *parts).mean()))


def _log_losses(model: Model, A: FloatArray, y: AnyArray, B: FloatArray, t: AnyArray) -> FloatArray:
    """Fit a model to A, y and return the log losses of rows B, t; unseen classes have LEAST_LIKELY."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        shares = model.fit(A, y).predict_proba(B)
    place = np.searchsorted(model.classes_, t).clip(max=len(model.classes_) - 1)
    share = np.where(model.classes_[place] == t, shares[np.arange(len(t)), place], 0.0)
    return np.asarray(-np.log(np.clip(share, LEAST_LIKELY, 1.0)))


def _boosting(task: Task, rows: int) -> Any:
    """Return boosting: many small steps if there are rows enough; less for classes, where it overfits."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    settings: dict[str, Any] = {"early_stopping": False, "random_state": 0}
    if task.is_classification:
        settings |= {"max_leaf_nodes": 4 if rows < 2 * MANY_ROWS else 15, "min_samples_leaf": 3}
        return HistGradientBoostingClassifier(max_iter=60, **settings)
    if rows < MANY_ROWS:
        settings |= {"max_leaf_nodes": 4, "min_samples_leaf": 3, "max_iter": 200}
    else:
        settings |= {"max_leaf_nodes": 8, "min_samples_leaf": 10, "max_iter": 400}
        settings |= {"learning_rate": 0.05}
    return HistGradientBoostingRegressor(**settings)
