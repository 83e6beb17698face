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
from fedrelax.engines.linear.checks import reason_in_models, ridge_of
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


Block = tuple[AnyArray, float, FloatArray, FloatArray]
"""A node's rows and the total weight of its neighbours, and its block of the system for these."""


class LeastSquares:
    """The closed form for the nodes of a network that have it."""

    def __init__(self, network: LivingNetwork) -> None:
        self._network = network
        self._served: dict[Label, FloatArray | None] = {}
        self._blocks: dict[Label, Block] = {}
        self._solved: dict[Label, FloatArray] = {}
        self._intercept = False

    def serves(self, label: Label) -> bool:
        """Tell whether a node's problem has a closed form; without neighbours, its own fit is as good."""
        network = self._network
        if not self._applies or label in network.stayed or not network.links[label]:
            return False
        if label not in self._served:
            self._served[label] = self._penalty(label)
        return self._served[label] is not None

    def forget(self, label: Label) -> None:
        """Forget a node that has left."""
        for store in (self._served, self._blocks, self._solved):
            store.pop(label, None)

    def solve(self, labels: Sequence[Label], tol: float) -> None:
        """Solve for these nodes with all others fixed; ``settle`` makes the models."""
        network, G = self._network, self._gram
        place = {label: k for k, label in enumerate(labels)}
        blocks = [self._block(label) for label in labels]
        matrices = np.stack([matrix for *_, matrix, _ in blocks])
        here: list[tuple[int, int, float]] = []
        answers = np.stack([network.said[label] for label in labels])
        outside = np.zeros_like(answers)
        for i, label in enumerate(labels):
            for other, a in network.links[label].items():
                if other in place:
                    here.append((i, place[other], a))
                elif other in network.models:
                    outside[i] += a * network.said[other]
        start = self._projection @ answers
        n, d, q = start.shape
        entries = np.array(here, dtype=float).reshape(-1, 3)
        edges = sparse.csr_array((entries[:, 2], entries[:, :2].astype(int).T), shape=(n, n))
        inverse = np.linalg.inv(matrices)

        def less_exchange(W: FloatArray, MW: FloatArray, out: FloatArray) -> FloatArray:
            near: FloatArray = (edges @ W.reshape(n, d * q)).reshape(n, d, q)
            return np.subtract(MW, G @ near, out=out)

        def precondition(r: FloatArray, out: FloatArray) -> FloatArray:
            return np.matmul(inverse, r, out=out)

        right = np.stack([right for *_, right in blocks]) + G @ (self._projection @ outside)
        solved, own = start.copy(), matrices @ start
        residual = right - less_exchange(start, own, own)
        least = max(SHARE * tol, LEAST_RESIDUAL) * norm(right)
        conjugate_gradients(less_exchange, residual, solved, precondition, least, MOST_STEPS)
        for label, weights in zip(labels, solved, strict=True):
            self._solved[label], network.said[label] = weights, self._public @ weights

    def settle(self) -> None:
        """Make models from what was solved."""
        if not self._solved:
            return
        network, features = self._network, len(self._spread)
        weights = np.stack(list(self._solved.values()))
        weights[:, :features] /= self._spread[:, None]
        if self._intercept:
            weights[:, -1] -= self._centre @ weights[:, :features]
        labels = tuple(self._solved)
        kinds = [network.models[label].estimator for label in labels]
        made = fitted_models(labels, kinds, np.arange(len(labels)), network.task, weights)
        for label in labels:
            network.models[label] = made[label]
        self._solved.clear()

    def drop(self) -> None:
        """Forget what was solved but not made into models: the change failed."""
        self._solved.clear()

    # What is computed once

    @cached_property
    def _applies(self) -> bool:
        network, coupling = self._network, self._network.coupling
        squared = isinstance(coupling.loss, Squared) and isinstance(coupling.discrepancy, Squared)
        plain = isinstance(coupling.combine, Mean) and coupling.distillation is None
        rows = network.public.common
        assert rows is not None
        numbers = not network.task.is_classification and rows.ndim == 2
        return squared and plain and numbers and coupling.alpha > 0

    @cached_property
    def _public(self) -> FloatArray:
        common = self._network.public.common
        assert common is not None
        centre, self._spread = centre_and_spread(common)
        self._centre = centre if self._intercept else np.zeros_like(centre)
        return self._standard(common)

    def _standard(self, X: AnyArray) -> FloatArray:
        scaled = (np.asarray(X, dtype=float) - self._centre) / self._spread
        return with_constant(scaled, self._intercept)

    @cached_property
    def _gram(self) -> FloatArray:
        Z, level = self._public, self._network.coupling.level
        sums = Z.sum(axis=0)
        return np.asarray(Z.T @ Z - (1.0 - level) * np.outer(sums, sums) / len(Z))

    @cached_property
    def _projection(self) -> FloatArray:
        """What turns answers on the public rows into the weights that come closest (least squares)."""
        return np.asarray(np.linalg.pinv(self._public))

    # One node

    def _penalty(self, label: Label) -> FloatArray | None:
        """Return the penalties of a node's model; None if it has no closed form of the common kind."""
        local = self._network.models[label]
        estimator = local.estimator
        if isinstance(local, Viewed) or reason_in_models({label: estimator}) is not None:
            return None
        intercept = bool(estimator.fit_intercept)
        if not any(found is not None for found in self._served.values()):
            if intercept != self._intercept:
                for name in ("_public", "_gram", "_projection"):
                    self.__dict__.pop(name, None)
            self._intercept = intercept
        if intercept != self._intercept:
            return None
        features = self._public.shape[1] - intercept
        penalty = ridge_of(estimator, features) / self._spread**2
        return penalty if self._is_fixed_by(penalty) else None

    def _is_fixed_by(self, penalty: FloatArray) -> bool:
        """Tell whether public rows and penalty determine all weights; the level may be the node's own."""
        gram = self._gram.copy()
        gram[np.diag_indices(len(penalty))] += penalty
        values = np.linalg.eigvalsh(gram)
        own_level = self._intercept and self._network.coupling.level == 0.0
        return bool(values[int(own_level)] > LEAST * values[-1])

    def _block(self, label: Label) -> Block:
        """Return a node's block, cached as long as its rows and edges stay the same."""
        X, y = self._network.rows[label]
        total = float(sum(self._network.links[label].values()))
        cached = self._blocks.get(label)
        if cached is not None and cached[0] is X and cached[1] == total:
            return cached
        coupling, penalty = self._network.coupling, self._served[label]
        assert penalty is not None
        design, target = self._standard(X), self._network.task.encode(y)
        gram = design.T @ design
        gram[np.diag_indices(len(penalty))] += penalty
        scale = len(y) / len(self._public) if coupling.weighting == "mean" else 1.0
        factor = coupling.alpha * scale * (2.0 if coupling.symmetric else 1.0)
        matrix, right = gram / factor + total * self._gram, design.T @ target / factor
        self._blocks[label] = X, total, matrix, right
        return self._blocks[label]
