"""The paper's theory as code: how far apart models of one cluster can be."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from fedrelax.errors import FedRelaxError
from fedrelax.graph import Graph
from fedrelax.typing import AnyArray


def cluster_variation(models: npt.ArrayLike, clusters: npt.ArrayLike | None = None) -> float:
    """Return sum_i |w_i - mean of i's cluster|^2 for models (n, d); by default all are one cluster.

    >>> cluster_variation([[0.0], [2.0], [5.0]], [0, 0, 1])
    2.0
    """
    W = np.asarray(models, dtype=float)
    W = W.reshape(len(W), -1)
    place = np.zeros(len(W), dtype=int)
    if clusters is not None:
        place = np.unique(np.asarray(clusters), return_inverse=True)[1]
    total = np.zeros((place.max(initial=0) + 1, W.shape[1]))
    np.add.at(total, place, W)
    means = total / np.bincount(place, minlength=len(total))[:, None]
    return float(np.square(W - means[place]).sum())


def noise_level(noise: Iterable[npt.ArrayLike]) -> float:
    """Return epsilon = sum_i |e_i|^2 / m_i: the true model's loss, summed over a cluster's nodes.

    ``noise`` is (n, m), or one array of label noise per node.

    >>> noise_level([[1.0, -1.0], [2.0, 0.0]])
    3.0
    """
    return float(sum(np.mean(np.square(np.asarray(e, dtype=float))) for e in noise))


def variation_bound(
    graph: Graph, alpha: float, epsilon: float, public: AnyArray | None = None
) -> float:
    """Return epsilon / (alpha lambda_2), an upper bound on the variation within one cluster.

    lambda_2 is the second smallest eigenvalue of the cluster's Laplacian; it is 0, and the bound
    infinite, where the cluster's graph is not connected. The reason: at the minimiser of
    sum_i L_i + alpha w'Lw the objective is at most epsilon, its value at the true model, and
    w'Lw >= lambda_2 * variation. w'Lw counts each edge once, as the fixed point of FedRelax on a common
    public set does; GTVMin counts it twice, so half of this bound holds there. Models that are coupled
    by predictions on public rows P minimise w'(L x Q)w with Q = P'P/m instead, so the smallest
    eigenvalue of Q enters as a factor, if ``public`` is given. (The paper takes Q = I, its expectation
    for standard normal rows.) Where every node has public rows of its own, there is no such proof.

    >>> round(variation_bound(Graph.complete(range(4)), alpha=0.5, epsilon=6.0), 9)
    3.0
    """
    if not alpha > 0 or not epsilon >= 0:
        raise FedRelaxError(
            f"alpha is {alpha!r} and epsilon {epsilon!r}; the bound needs alpha > 0, epsilon >= 0"
        )
    least = graph.lambda_2
    if public is not None:
        P = np.asarray(public, dtype=float)
        least *= max(float(np.linalg.eigvalsh(P.T @ P / len(P))[0]), 0.0)
    return float(epsilon / (alpha * least)) if least > 0 else float("inf")
