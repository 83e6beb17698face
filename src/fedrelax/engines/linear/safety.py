"""Would the general path find the same weights? Gram matrices square what is nearly lost."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression

from fedrelax.engines.base import Unsuited
from fedrelax.engines.linear.checks import minimum_norm_of
from fedrelax.engines.linear.stacked import Coordinates, LinearNetwork
from fedrelax.engines.linear.update import ExactUpdate, node_matrices
from fedrelax.models import LinearModel
from fedrelax.typing import AnyArray, FloatArray

APART_CONDITION, TOGETHER_CONDITION = 1e11, 1e8
"""Greatest condition numbers: round 0 is corrected by the rows themselves, later rounds are not."""
LEAST_SPREAD = 1e-6
"""``LinearRegression`` counts directions with less than ``tol`` of the most spread as constant."""
OWN_SPREAD, OWN_RESOLVED = 1e-12, 1.5e-7
"""``LinearModel`` goes down to rounding; what a Gram matrix still resolves is the root of that."""


def check_safe(
    network: LinearNetwork, coordinates: Coordinates, apart: ExactUpdate, together: ExactUpdate
) -> None:
    """Refuse nodes whose weights hang by a thread, or are open in a way that models fill unlike."""
    for exact, most in ((apart, APART_CONDITION), (together, TOGETHER_CONDITION)):
        worst = int(np.argmax(exact.condition))
        if not exact.condition[worst] <= most:
            raise Unsuited(
                "linear",
                f"node {network.labels[worst]!r}: its rows nearly leave a weight open (condition "
                f"number {exact.condition[worst]:.1e}), which costs the linear engine its exactness",
            )
    norm = network.minimum_norm
    singular = np.minimum(apart.rank, together.rank) < network.n_weights
    for i in np.flatnonzero(singular):
        if minimum_norm_of(network.models[i]) != norm:
            raise Unsuited(
                "linear",
                f"node {network.labels[i]!r}: its rows leave weights open, and the models of the "
                "network fill them in differently",
            )
    for exact in (apart, together):
        _check_spreads(network, coordinates, exact)


def _check_spreads(network: LinearNetwork, coordinates: Coordinates, exact: ExactUpdate) -> None:
    """Refuse nodes for which the model, in raw features, sees another number of open weights."""
    stretch = float(coordinates.scale.max() / coordinates.scale.min())
    offset = 1 + float(np.abs(coordinates.centre / coordinates.scale).max())

    def limit(model: Any) -> float:
        if isinstance(model, LinearModel):
            return OWN_SPREAD * stretch * offset
        return 2 * _tolerance(model) * stretch if isinstance(model, LinearRegression) else 0.0

    limits = np.array([limit(model) for model in network.models])
    is_open = exact.rank < network.n_weights
    nodes = np.flatnonzero((limits > 0) & (is_open | (limits * np.sqrt(exact.condition) > 1)))
    if not nodes.size:
        return
    matrices = node_matrices(exact.coupling)[nodes]
    ranks = exact.rank[nodes]
    for i, M, rank in zip(nodes, matrices, ranks, strict=True):
        raw, least = _raw(M, coordinates, network.models[i])
        values = np.linalg.eigvalsh(raw)
        if (values > (2 * least) ** 2 * values[-1]).sum() != rank - (len(M) - len(raw)):
            raise Unsuited(
                "linear",
                f"node {network.labels[i]!r}: its features differ so much in size that "
                f"{type(network.models[i]).__name__} may take some for constant",
            )


def _raw(M: AnyArray, coordinates: Coordinates, model: Any) -> tuple[FloatArray, float]:
    """Return the matrix whose eigenvalues the model's own solver sees, and its cut on their roots."""
    f = len(coordinates.scale)
    if isinstance(model, LinearModel):
        forth = np.linalg.inv(coordinates.least("all"))
        return forth.T @ M @ forth, OWN_RESOLVED
    centred = M[:f, :f]
    if coordinates.intercept:
        centred = centred - np.outer(M[:f, f], M[:f, f]) / M[f, f]
    raw: FloatArray = coordinates.scale[:, None] * centred * coordinates.scale
    return raw, _tolerance(model)


def _tolerance(model: Any) -> float:
    return max(LEAST_SPREAD, float(getattr(model, "tol", 0.0)))
