"""Least-squares models in closed form: all nodes that have something new to hear are solved for at once.

On one common public set Z, with c_i the weight of a pseudo-row and t_i that of all neighbours, node i's
problem  sum_own (y - x'w)^2 + c_i t_i sum_pub (mean_j z'w_j - z'w)^2 + penalty  has the solution

    (X'X + penalty) w_i / c_i + sum_j a_ij G (w_i - w_j) = X'y / c_i,    G = Z'Z,

and with a level share l only that share applies to the level:  G = Z'Z - (1 - l) Z'1 1'Z / rows. For the
nodes of a region, with all others fixed, that is one symmetric system, which conjugate gradients solve. Of
a neighbour only Z' (its answers) counts, so that it may have a model of any kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from fedrelax.combining import Mean
from fedrelax.engines.linear.checks import ridge_of, unsupported_models
from fedrelax.engines.linear.network import fitted_models
from fedrelax.linear.arrays import centre_and_spread, norm, with_constant
from fedrelax.linear.solving import conjugate_gradients
from fedrelax.losses import Squared
from fedrelax.models.viewed import Viewed
from fedrelax.typing import AnyArray, FloatArray, Label

if TYPE_CHECKING:
    from fedrelax.living.network import LivingNetwork

SHARE, LEAST_RESIDUAL, MOST_STEPS = 1e-3, 1e-13, 1000
"""When conjugate gradients stop: at a residual, relative to the right-hand side, of this share of the
tolerance, but no less than the second; or after this many steps."""
LEAST = 1e-10
"""The least ratio of eigenvalues at which the weights count as determined; else models fit themselves."""


class LeastSquares:
    """The closed form for the nodes of a network that have it."""

    def __init__(self, network: LivingNetwork) -> None:
        self._network, coupling, public = network, network.coupling, network.public_rows
        squared = isinstance(coupling.loss, Squared) and isinstance(coupling.discrepancy, Squared)
        plain = isinstance(coupling.combine, Mean) and coupling.distillation is None
        numbers = not network.task.is_classification and public.ndim == 2
        self._applies = (
            squared
            and plain
            and numbers
            and coupling.update != "difference"
            and coupling.alpha > 0
            and bool(np.isfinite(public).all())
        )
        if not self._applies:
            return
        first = next(iter(network.models.values())).estimator
        self._intercept = bool(
            getattr(first, "fit_intercept", True)
        )  # models that differ fit themselves
        centre, self._spread = centre_and_spread(public)
        self._centre = centre * self._intercept
        Z = self._public = self._standard(public)
        sums = Z.sum(axis=0)
        self._gram = Z.T @ Z - (1.0 - coupling.level) * np.outer(sums, sums) / len(Z)

    def serves(self, label: Label) -> bool:
        """Tell whether a node's problem has a closed form; without neighbours, its own fit is as good."""
        network = self._network
        if not self._applies or label in network.stayed or not network.links[label]:
            return False
        local = network.models[label]
        estimator = local.estimator
        if isinstance(local, Viewed) or unsupported_models({label: estimator}) is not None:
            return False
        return bool(estimator.fit_intercept) == self._intercept and self._determined(label)

    def _determined(self, label: Label) -> bool:
        """Tell whether public rows and penalty determine all weights; the level may be the node's own."""
        values = np.linalg.eigvalsh(self._gram + self._penalty(label))
        own_level = self._intercept and self._network.coupling.level == 0.0
        return bool(values[int(own_level)] > LEAST * values[-1])

    def solve(self, labels: Sequence[Label], tol: float) -> None:
        """Solve for these nodes, with all others fixed, and set their models and answers."""
        network, G = self._network, self._gram
        place = {label: k for k, label in enumerate(labels)}
        blocks = [self._block(label) for label in labels]
        matrices = np.stack([matrix for matrix, _ in blocks])
        answers = np.stack([network.said[label] for label in labels])
        outside, edges = np.zeros_like(answers), sparse.lil_array((len(labels), len(labels)))
        for i, label in enumerate(labels):
            for other, weight in network.links[label].items():
                if other in place:
                    edges[i, place[other]] = weight
                else:
                    outside[i] += weight * network.said[other]
        edges = edges.tocsr()
        start = self._projection @ answers
        inverse = np.linalg.inv(matrices)

        def less_exchange(W: FloatArray, MW: FloatArray, out: FloatArray) -> FloatArray:
            near: FloatArray = (edges @ W.reshape(len(W), -1)).reshape(W.shape)
            return np.subtract(MW, G @ near, out=out)

        def precondition(r: FloatArray, out: FloatArray) -> FloatArray:
            return np.matmul(inverse, r, out=out)

        right = np.stack([right for _, right in blocks]) + G @ (self._projection @ outside)
        solved, own = start.copy(), matrices @ start
        residual = right - less_exchange(start, own, own)
        least = max(SHARE * tol, LEAST_RESIDUAL) * norm(right)
        conjugate_gradients(less_exchange, residual, solved, precondition, least, MOST_STEPS)
        network.said.changed.update(zip(labels, self._public @ solved, strict=True))
        solved[:, : len(self._spread)] /= self._spread[:, None]
        if self._intercept:
            solved[:, -1] -= self._centre @ solved[:, :-1]
        kinds = [network.models[label].estimator for label in labels]
        numbers = np.arange(len(labels))
        made = fitted_models(tuple(labels), kinds, numbers, network.task, solved)
        network.models.changed.update(made)

    def _block(self, label: Label) -> tuple[FloatArray, FloatArray]:
        """Return a node's block of the matrix, and its part of the right-hand side."""
        network, coupling = self._network, self._network.coupling
        X, y = network.rows[label]
        design, target = self._standard(X), network.task.encode(y)
        scale = len(y) / len(self._public) if coupling.weighting == "mean" else 1.0
        factor = coupling.alpha * scale * (2.0 if coupling.symmetric else 1.0)
        own, total = design.T @ design + self._penalty(label), sum(network.links[label].values())
        return own / factor + total * self._gram, design.T @ target / factor

    def _penalty(self, label: Label) -> FloatArray:
        """Return the diagonal matrix of a node's penalties; the intercept has none."""
        penalty = ridge_of(self._network.models[label].estimator, len(self._spread))
        return np.diag(np.append(penalty / self._spread**2, [0.0] * self._intercept))

    def _standard(self, X: AnyArray) -> FloatArray:
        return with_constant((X - self._centre) / self._spread, self._intercept)

    @cached_property
    def _projection(self) -> FloatArray:
        """What turns answers on the public rows into the weights that come closest (least squares)."""
        return np.asarray(np.linalg.pinv(self._public))
