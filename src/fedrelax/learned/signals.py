"""A graph from trained models: nodes whose models predict alike on the same rows are joined.

Node i's signal is what its model predicts on public rows, and Z_ij is the mean squared difference of
two signals. The graph is the one over which the signals are smooth (sum_ij W_ij Z_ij is small) while
no node is isolated (the logarithm) and no edge outweighs the others (the square):

    minimise over symmetric W >= 0   sum_ij W_ij Z_ij - a sum_i log(sum_j W_ij) + b |W|_F^2

V. Kalofolias, "How to learn a graph from smooth signals", AISTATS 2016. Apart from a common factor
of all weights, a and b act only through theta = 1 / sqrt(2 a b): the minimiser is that of
theta sum_ij W_ij Z_ij - sum_i log(sum_j W_ij) + |W|_F^2 / 2. The larger theta, the fewer edges.
V. Kalofolias and N. Perraudin, "Large scale graph learning from smooth signals", ICLR 2019, derive
which theta gives how many edges, and restrict W to the nearest neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse

from fedrelax.errors import FedRelaxError, NodeFitError, in_one_line
from fedrelax.graph import Graph
from fedrelax.graph.families import neighbour_pairs
from fedrelax.graph.matrices import from_pairs
from fedrelax.models.scikit import class_probabilities
from fedrelax.typing import AnyArray, FloatArray, IntArray, Label, Model
from fedrelax.validation import check_count

CANDIDATES = 3
"""Candidate neighbours of a node, as a multiple of the wanted mean number of neighbours."""
EXACT, DIRECTIONS = 2000, 12
"""Above ``EXACT`` nodes, the nearest are searched for in the first ``DIRECTIONS`` principal components."""
TIED = 1e-9
"""Relative difference below which distances count as equal."""
NEGLIGIBLE = 1e-4
"""An edge that has less than this share of the degree of both its ends is dropped."""
STEPS, TOLERANCE = 3000, 1e-6


def graph_from_models(models: Mapping[Label, Model], public: Any, *, neighbours: int = 10) -> Graph:
    """Return a graph on the labels of ``models`` with about ``neighbours`` neighbours per node.

    ``models`` are already trained: objects with ``predict_proba`` (preferred) or ``predict``. Only
    their predictions on ``public``, one common set of unlabelled rows, are used: a node shows no more
    than in a round of training, but shows it to one place that sees all. The mean weight is 1.

    >>> from sklearn.linear_model import LinearRegression
    >>> X, models = np.array([[-1.0], [0.0], [1.0]]), {}
    >>> for label, slope in {"a": 1, "b": 1.1, "c": 1.2, "d": -1, "e": -1.1, "f": -1.2}.items():
    ...     models[label] = LinearRegression().fit(X, slope * X[:, 0])
    >>> graph_from_models(models, X, neighbours=2).components()
    [['a', 'b', 'c'], ['d', 'e', 'f']]
    """
    known = [model.classes_ for model in models.values() if hasattr(model, "classes_")]
    classes = np.unique(np.concatenate(known)) if known else np.zeros(0)
    answers = {label: _answers(label, model, public, classes) for label, model in models.items()}
    for label, answer in answers.items():
        first = next(iter(answers))
        if answer.shape != answers[first].shape:
            raise FedRelaxError(
                f"the model of node {label!r} predicts shape {answer.shape} but that of node "
                f"{first!r} predicts {answers[first].shape}; all models need the same outputs"
            )
        if not np.isfinite(answer).all():
            raise FedRelaxError(f"node {label!r}: the model predicts NaN or infinity; leave it out")
    signals = [answer.ravel() for answer in answers.values()]
    return Graph(smooth_graph(signals, neighbours), list(models))


def smooth_graph(signals: Any, neighbours: int = 10) -> sparse.csr_array:
    """Return the weights of the graph over which ``signals``, one row per node, are smooth.

    The matrix is symmetric, with about ``neighbours`` entries per row and at least one; their mean is 1.
    Only the nearest nodes are compared: above 2,000 nodes, this takes less than n^2 time.
    """
    check_count("neighbours", neighbours, least=1)
    points = np.asarray(signals, dtype=float)
    if points.ndim != 2 or len(points) < 2 or not np.isfinite(points).all():
        what = f"signals of shape {points.shape} were given"
        raise FedRelaxError(f"{what}; give a row of finite numbers for each of at least 2 nodes")
    n = len(points)
    near = points
    if n > EXACT:
        centred = points - points.mean(axis=0)
        near = centred @ np.linalg.eigh(centred.T @ centred)[1][:, -DIRECTIONS:]
    i, j = neighbour_pairs(near, CANDIDATES * neighbours, range(n))
    blocks = np.array_split(np.arange(len(i)), 1 + len(i) // 10_000)  # To save memory.
    z = np.concatenate([np.square(points[i[e]] - points[j[e]]).mean(axis=1) for e in blocks])
    w = smoothest(i, j, scale(i, j, z, n, neighbours) * z, n)
    degree = np.bincount(i, w, n) + np.bincount(j, w, n)
    kept = w > NEGLIGIBLE * np.minimum(degree[i], degree[j])
    return from_pairs(n, i[kept], j[kept], w[kept] / w[kept].mean())


def scale(i: IntArray, j: IntArray, z: FloatArray, n: int, neighbours: int) -> float:
    """Return the theta for which nodes have ``neighbours`` neighbours on average.

    If node i chose its weights alone, it would take at least its k nearest if and only if
    theta^2 (k z_k^2 - b_k z_k) < 1, with z_k its k-th smallest distance and b_k the sum of the first
    k (Kalofolias and Perraudin, 2019). So theta is chosen such that n * neighbours of these bounds
    hold, counted over all nodes: the geometric mean of the two values between which this is so.
    Bounds of zero (ties) always hold; if there are no others, theta is 0.
    """
    bounds = np.sort(_by_node(i, j, z, n)[2])
    between = bounds[min(n * neighbours, len(bounds)) - 1 :]
    return float(np.exp(-np.log(between[between > 0][:2]).mean() / 2)) if between.any() else 0.0


def smoothest(i: IntArray, j: IntArray, z: FloatArray, n: int) -> FloatArray:
    """Return the weights w_e >= 0 of the edges e = (i, j) that minimise, for distances z times theta,

        2 sum_e w_e z_e - sum_i log(d_i) + sum_e w_e^2,   d = S w the degrees.

    This is the forward-backward-forward primal-dual method of Kalofolias (2016), with v = -1/d as
    the dual variable. Here it runs on w / s and v * r, with r_i the degree that node i would choose
    alone and s_e = 1 / (1/r_i + 1/r_j): these are of size 1 even if a node is far from all others,
    where the unscaled method would hardly move. The logarithm is not affected by the scaling.
    """
    row, value, bound = _by_node(i, j, z, n)
    count = np.bincount(row, bound < 1, n)
    total = np.bincount(row, (bound < 1) * value, n)
    r = 2 * count / (total + np.sqrt(total**2 + 4 * count))  # The root of r^2 + total r = count.
    s = 1 / (1 / r[i] + 1 / r[j])
    places = np.concatenate([i, j]), np.tile(np.arange(len(i)), 2)
    S = sparse.csr_array((np.concatenate([s / r[i], s / r[j]]), places), shape=(n, len(i)))
    St = S.T.tocsr()
    norm = np.sqrt((St @ S.sum(axis=1)).max())  # At least the largest singular value of S.
    linear, square = 2 * s * z, 2 * s**2
    step = 0.95 / (square.max() + norm)
    w, v = np.zeros(len(i)), -np.ones(n)
    for _ in range(STEPS):
        w_ahead, v_ahead = w - step * (square * w + St @ v), v + step * (S @ w)
        p = np.maximum(0, w_ahead - step * linear)
        q = (v_ahead - np.sqrt(v_ahead**2 + 4 * step)) / 2
        if max(np.abs(p - w).max(), np.abs(q - v).max()) <= step * TOLERANCE:
            break
        w, v = w - w_ahead + p - step * (square * p + St @ q), v - v_ahead + q + step * (S @ p)
    return np.asarray(s * p)


def _by_node(
    i: IntArray, j: IntArray, z: FloatArray, n: int
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return every node's distances in ascending order, as node, z_k and k z_k^2 - b_k z_k."""
    row, value = np.concatenate([i, j]), np.concatenate([z, z])
    order = np.lexsort((value, row))
    row, value = row[order], value[order]
    start = np.searchsorted(row, np.arange(n))
    k = np.arange(len(row)) - start[row] + 1
    sums = np.cumsum(value)
    rest = k * value - (sums - (sums - value)[start][row])
    return row, value, np.where(rest > TIED * k * value, rest * value, 0.0)


def _answers(label: Label, model: Model, public: Any, classes: AnyArray) -> FloatArray:
    """Return a model's predictions, (rows, outputs): numbers, or probabilities of all ``classes``."""
    try:
        if getattr(model, "classes_", None) is not None:
            return class_probabilities(model, public, classes)
        return np.asarray(model.predict(public), dtype=float).reshape(len(public), -1)
    except Exception as error:
        name, text = type(model).__name__, in_one_line(error, kind=False)
        raise NodeFitError(f"node {label!r}: predict of {name} failed ({text})") from error
