"""Would the general path find the same weights? Gram matrices square the condition number."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LinearRegression

from fedrelax.engines.base import Unsuited
from fedrelax.engines.linear.checks import minimum_norm_of
from fedrelax.engines.linear.network import Coordinates, LinearNetwork
from fedrelax.linear.arrays import with_constant
from fedrelax.linear.fixed_point import ExactUpdate
from fedrelax.models import LinearModel
from fedrelax.typing import AnyArray, FloatArray, Model

APART_CONDITION, TOGETHER_CONDITION = 1e11, 1e8
"""Largest condition numbers: round 0 is corrected with the rows themselves, later rounds are not."""
LEAST_SPREAD = 1e-6
"""``LinearRegression`` treats directions with less than ``tol`` times the largest spread as constant."""
OWN_SPREAD, OWN_RESOLVED = 1e-12, 1.5e-7
"""``LinearModel`` goes down to rounding; a Gram matrix resolves only the square root of that."""

MOST_LOST = 1e-6
"""Largest rounding error times squared ratio of feature scales where undetermined weights are filled in."""
CLEARLY_ZERO = 0.3
"""The share of a least-squares solver's own cut-off below which a singular value is surely zero."""


def check_safe(
    network: LinearNetwork,
    coordinates: Coordinates,
    apart: ExactUpdate,
    together: ExactUpdate,
    weighting: str,
) -> None:
    """Refuse nodes with barely determined weights, or undetermined ones that models fill in differently."""
    for exact, most in ((apart, APART_CONDITION), (together, TOGETHER_CONDITION)):
        worst = int(np.argmax(exact.condition))
        if not exact.condition[worst] <= most:
            raise Unsuited(
                "linear",
                f"node {network.labels[worst]!r}: its rows barely determine a weight (condition number "
                f"{exact.condition[worst]:.1e}), so the linear engine would not be exact",
            )
    norm = network.minimum_norm
    singular = np.minimum(apart.rank, together.rank) < network.n_weights
    for i in np.flatnonzero(singular).tolist():
        if minimum_norm_of(network.model(i)) != norm:
            raise Unsuited(
                "linear",
                f"node {network.labels[i]!r}: its rows leave weights undetermined, and the models of "
                "the network fill them in differently",
            )
    if singular.any():
        sizes = np.linalg.svd(coordinates.least(norm), compute_uv=False)
        lost = np.finfo(float).eps * (sizes[0] / sizes[-1]) ** 2
        lost = lost * np.maximum(apart.condition, together.condition) * singular
        worst = int(np.argmax(lost))
        if not lost[worst] <= MOST_LOST:
            raise Unsuited(
                "linear",
                f"node {network.labels[worst]!r}: its rows leave weights undetermined, and its features "
                "differ too much in scale to fill them in exactly from Gram matrices",
            )
    for exact in (apart, together):
        _check_spreads(network, coordinates, exact)
        _check_open(network, exact, weighting)


def _check_spreads(network: LinearNetwork, coordinates: Coordinates, exact: ExactUpdate) -> None:
    """Refuse nodes for which the model sees a different number of undetermined weights in raw features."""
    stretch = float(coordinates.scale.max() / coordinates.scale.min())
    offset = 1 + float(np.abs(coordinates.centre / coordinates.scale).max())

    def limit(model: Model) -> float:
        if isinstance(model, LinearModel):
            return OWN_SPREAD * stretch * offset
        return 2 * _tolerance(model) * stretch if isinstance(model, LinearRegression) else 0.0

    limits = network.per_node(limit)
    is_open = exact.rank < network.n_weights
    nodes = np.flatnonzero((limits > 0) & (is_open | (limits * np.sqrt(exact.condition) > 1)))
    if not nodes.size:
        return
    matrices = exact.coupling.node_matrices()[nodes]
    ranks = exact.rank[nodes]
    for i, M, rank in zip(nodes.tolist(), matrices, ranks, strict=True):
        raw, least = _raw(M, coordinates, network.model(i))
        values = np.linalg.eigvalsh(raw)
        if (values > (2 * least) ** 2 * values[-1]).sum() != rank - (len(M) - len(raw)):
            raise Unsuited(
                "linear",
                f"node {network.labels[i]!r}: its features differ so much in scale that "
                f"{type(network.model(i)).__name__} may treat some as constant",
            )


def _check_open(network: LinearNetwork, exact: ExactUpdate, weighting: str) -> None:
    """Refuse nodes with weights that look undetermined in a Gram matrix but are not.

    What the rows determine by less than the square root of rounding, a Gram matrix cannot tell from
    zero, but the rows themselves can: their singular values must be clearly non-zero or clearly zero.
    """
    for i in np.flatnonzero(exact.rank < network.n_weights):
        if minimum_norm_of(network.model(int(i))) is None:
            continue
        rows = _weighted_rows(network, exact, int(i), weighting)
        sizes = np.linalg.svd(rows, compute_uv=False)
        zero = CLEARLY_ZERO * max(rows.shape) * np.finfo(float).eps
        if ((sizes > zero * sizes[0]) & (sizes < 2 * OWN_RESOLVED * sizes[0])).any():
            raise Unsuited(
                "linear",
                f"node {network.labels[i]!r}: its rows determine a weight so barely that the linear "
                "engine would treat it as undetermined",
            )


def _weighted_rows(
    network: LinearNetwork, exact: ExactUpdate, i: int, weighting: str
) -> FloatArray:
    """Return the rows of node i's fit, own and public, times the square roots of their weights."""
    coupling, own = exact.coupling, network.own
    mean = weighting == "mean"
    start, end = own.offsets[i : i + 2]
    parts = [(own.X[start:end], 1 / (end - start) if mean else 1.0)]
    line = coupling.problem.adjacency[[i]].tocoo()
    sent = dict(zip(line.col.tolist(), line.data.tolist(), strict=True))
    if coupling.system == "symmetric":
        sent[i] = sent.get(i, 0.0) + sum(sent.values())
    if network.public_offsets is None:
        parts.append((network.public, coupling.alpha * sum(sent.values())))
    else:
        offsets = network.public_offsets
        parts += [
            (network.public[offsets[j] : offsets[j + 1]], coupling.alpha * weight)
            for j, weight in sent.items()
        ]
    scaled = []
    for number, (X, weight) in enumerate(parts):
        rows = with_constant(X, network.intercept)
        if number:
            rows = rows - (1 - np.sqrt(coupling.problem.level)) * rows.mean(axis=0)
        scaled.append(np.sqrt(weight / (len(X) if mean and number else 1)) * rows)
    penalty = np.zeros((network.own.X.shape[1], network.n_weights))
    np.fill_diagonal(penalty, np.sqrt(network.ridge[i] / ((end - start) if mean else 1.0)))
    return np.vstack([*scaled, penalty])


def _raw(M: AnyArray, coordinates: Coordinates, model: Model) -> tuple[FloatArray, float]:
    """Return the matrix whose eigenvalues the model's own solver sees, and its cut-off on their roots."""
    f = len(coordinates.scale)
    if isinstance(model, LinearModel):
        forth = np.linalg.inv(coordinates.least("all"))
        return forth.T @ M @ forth, OWN_RESOLVED
    centred = M[:f, :f]
    if coordinates.intercept:
        centred = centred - np.outer(M[:f, f], M[:f, f]) / M[f, f]
    raw: FloatArray = coordinates.scale[:, None] * centred * coordinates.scale
    return raw, _tolerance(model)


def _tolerance(model: Model) -> float:
    return max(LEAST_SPREAD, float(getattr(model, "tol", 0.0)))
