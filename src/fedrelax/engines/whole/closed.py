"""A complete network of ridge models in closed form, and the criteria for its hyper-parameters.

Node i has ``A_i = c_i X_i'X_i + R`` and ``b_i = c_i X_i'y_i``: its rows, each of weight ``c_i``, and the
ridge R that all nodes share. Every pair of nodes is coupled by ``P / n``, with P any positive
semi-definite matrix, so the fixed point of the rounds (all equations at once) is

    (A_i + P) w_i = b_i + P mean_j w_j.

It minimises ``sum_i c_i |X_i w_i - y_i|^2 + w_i'R w_i + (w_i - mean w)' P (w_i - mean w)``. With
``M_i = A_i + P`` and ``K = P (sum_j M_j^-1 A_j)^-1``, the inverse of the whole system has the blocks
``[i = j] M_i^-1 + M_i^-1 K M_j^-1``: one d x d solve besides the nodes' own. The same blocks give the
leave-one-out residuals and the evidence, so a candidate is judged on all rows for the price of one fit.

The paper's coupling with one common public set and ``A_ij = 1`` is ``P = alpha n Q``, with the row
weights ``c_i = 1 / m_i`` of a mean loss.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedrelax.typing import FloatArray, IntArray

STEPS = 6
"""Steps in which strengths are learned."""
STRENGTHS = (1e-6, 1e9)
"""The least and the largest strength that is learned."""


@dataclass(frozen=True)
class NodeSums:
    """Sums over each node's rows: Gram matrix, moments, sum of squares, number of rows.

    ``gram`` (n, d, d), ``moment`` (n, d) and ``power`` (n,) are multiplied by the nodes' row weights
    ``weight`` (n,); ``rows`` (n,) counts.
    """

    gram: FloatArray
    moment: FloatArray
    power: FloatArray
    rows: IntArray
    weight: FloatArray

    @classmethod
    def of(
        cls,
        X: FloatArray,
        y: FloatArray,
        node: IntArray,
        n: int,
        weight: FloatArray | None = None,
    ) -> NodeSums:
        """Sum up rows X (N, d), targets (N,) and the node (N,) of each; ``weight`` defaults to one."""
        c = np.ones(n) if weight is None else weight
        gram, moment, power = (
            np.zeros((n, X.shape[1], X.shape[1])),
            np.zeros((n, X.shape[1])),
            np.zeros(n),
        )
        for i, own in enumerate(rows_of(node, n)):
            Xi, yi = X[own], y[own]
            gram[i], moment[i], power[i] = c[i] * (Xi.T @ Xi), c[i] * (Xi.T @ yi), c[i] * (yi @ yi)
        return cls(gram, moment, power, np.bincount(node, minlength=n), c)

    @property
    def n(self) -> int:
        """The number of nodes."""
        return len(self.rows)


def rows_of(node: IntArray, n: int) -> list[IntArray]:
    """Return the positions of every node's rows."""
    order = np.argsort(node, kind="stable")
    return np.split(order, np.cumsum(np.bincount(node, minlength=n))[:-1])


def level_and_shape(Q: FloatArray, mean: FloatArray, level: float) -> FloatArray:
    """Return ``Q - (1 - level) mean mean'``: ``level`` is the share of the coupling that the level gets."""
    return Q - (1.0 - level) * np.outer(mean, mean)


@dataclass(frozen=True)
class Network:
    """All models (n, d) of one candidate, with what leave-one-out residuals and evidence need."""

    models: FloatArray
    ridge: FloatArray
    coupling: FloatArray
    inverse: FloatArray
    passed: FloatArray
    shared: FloatArray

    def covariances(self) -> FloatArray:
        """Return the diagonal blocks (n, d, d) of the inverse of the whole system."""
        return self.inverse + self.inverse @ self.passed @ self.inverse


def solve_complete(sums: NodeSums, ridge: FloatArray, coupling: FloatArray) -> Network:
    """Solve the complete network exactly; ``ridge`` (d,) is the diagonal of R.

    A zero ``coupling`` trains every node alone. All ``A_i + P`` must be invertible: the ridge must be
    above zero for every column but the constant one, and either the level is coupled or every node has
    at least one row.
    """
    own = sums.gram + np.diag(ridge)
    inverse: FloatArray = np.linalg.inv(own + coupling).astype(np.float64, copy=False)
    shared = np.einsum("nij,njk->ik", inverse, own)
    passed = np.linalg.solve(shared.T, coupling.T).T
    alone = np.einsum("nij,nj->ni", inverse, sums.moment)
    models = alone + np.einsum("nij,j->ni", inverse, passed @ alone.sum(axis=0))
    return Network(models, ridge, coupling, inverse, passed, shared)


def solve_one(sums: NodeSums, ridge: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the limit of infinite coupling, one model (d,) for all, and the inverse of its system.

    ``(sum_i A_i) w = sum_i b_i`` takes sums of Gram matrices and moments; no rows are pooled.
    """
    inverse = np.linalg.inv(sums.gram.sum(axis=0) + sums.n * np.diag(ridge))
    return inverse @ sums.moment.sum(axis=0), inverse


def leave_one_out(
    X: FloatArray,
    y: FloatArray,
    node: IntArray,
    models: FloatArray,
    covariances: FloatArray,
    weight: FloatArray,
) -> FloatArray:
    """Return, exactly, ``y_r`` minus its prediction by a network that never saw row r, for every row.

    ``(y_r - x_r'w_i) / (1 - h_r)`` with the leverage ``h_r = c_i x_r' C_i x_r``, C_i the node's block of
    the inverse; ``covariances`` (n, d, d).
    """
    left = np.empty(len(y))
    for i, own in enumerate(rows_of(node, len(models))):
        Xi = X[own]
        leverage = weight[i] * np.einsum("ri,ri->r", Xi @ covariances[i], Xi)
        left[own] = (y[own] - Xi @ models[i]) / np.maximum(1.0 - leverage, 1e-9)
    return left


def negative_log_evidence(sums: NodeSums, network: Network) -> float:
    """Return -2 log of the restricted likelihood of the rows, up to a constant.

    The minimised objective is that of a mixed model: ``w_i - mean w`` has prior precision ``R + P``, the
    mean of all models ``n R``, and a column without ridge (the constant one) a flat prior; the noise
    variance is profiled out. Candidates are comparable if the same columns are without ridge, whatever
    other columns they have. ``R + P`` must be invertible, so the level must be coupled.
    """
    n, penalised = sums.n, network.ridge > 0
    flat = int((~penalised).sum())
    residual = sums.power.sum() - (sums.moment * network.models).sum()
    system = np.linalg.slogdet(network.shared / n)[1] - np.linalg.slogdet(network.inverse)[1].sum()
    prior = (n - 1) * np.linalg.slogdet(np.diag(network.ridge) + network.coupling)[1]
    prior += np.log(network.ridge[penalised]).sum()
    weights = (sums.rows * np.log(sums.weight)).sum()
    freedom = sums.rows.sum() - flat
    return float(freedom * np.log(max(residual, 1e-300)) + system - prior - weights)


def learn_coupling(
    sums: NodeSums,
    ridge: FloatArray,
    coupling: FloatArray,
    *,
    tied: IntArray | None = None,
    held: IntArray | None = None,
) -> FloatArray:
    """Learn one strength per column from the network by ``STEPS`` steps on the evidence.

    MacKay's fixed point: a strength is the number of deviations that the rows determine, over their sum of
    squares. The columns ``tied`` share one strength (curves, of which there are many); those ``held``
    keep theirs.
    """
    none = np.empty(0, dtype=np.int64)
    tied, held = none if tied is None else tied, none if held is None else held
    free = np.setdiff1d(np.arange(len(ridge)), np.concatenate([tied, held]))
    groups = [*free[:, None], *([tied] if len(tied) else [])]
    freedom, n = sums.rows.sum() - (ridge == 0).sum(), sums.n
    for _ in range(STEPS):
        net = solve_complete(sums, ridge, coupling)
        residual = sums.power.sum() - (sums.moment * net.models).sum()
        noise = max(float(residual / freedom), 1e-12)
        total = net.inverse.sum(axis=0)
        unsure = np.diag(net.covariances().sum(axis=0) - (total + total @ net.passed @ total) / n)
        squares = np.square(net.models - net.models.mean(axis=0)).sum(axis=0) / noise
        strengths = np.diag(coupling).copy()
        for group in groups:
            all_of_them = len(group) * (n - 1)
            known = all_of_them - strengths[group].mean() * unsure[group].sum()
            ratio = max(known, 1e-3 * all_of_them) / max(squares[group].sum(), 1e-12)
            strengths[group] = np.clip(ratio, *STRENGTHS)
        coupling = np.diag(strengths)
    return coupling
