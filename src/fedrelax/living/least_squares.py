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
from fedrelax.engines.linear.network import (
    Coordinates,
    FittedModels,
    ridge_of,
    unsupported_models,
)
from fedrelax.linear import ExactUpdate, LinearProblem, solve_fixed_point
from fedrelax.linear.arrays import centre_and_spread, with_constant
from fedrelax.linear.problem import with_level
from fedrelax.losses import Squared
from fedrelax.models.viewed import Viewed
from fedrelax.typing import FloatArray, Label

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
        self._applies = (
            isinstance(coupling.loss, Squared)
            and isinstance(coupling.discrepancy, Squared)
            and isinstance(coupling.combine, Mean)
            and coupling.distillation is None
            and coupling.weighting == "mean"
            and coupling.update != "difference"
            and coupling.alpha > 0
            and not network.task.is_classification
            and public.ndim == 2
            and bool(np.isfinite(public).all())
        )
        if not self._applies:
            return
        first = next(iter(network.models.values())).estimator
        intercept = bool(getattr(first, "fit_intercept", True))  # models that differ fit themselves
        centre, spread = centre_and_spread(public)
        self._coordinates = Coordinates(centre * intercept, spread, intercept)
        self._rows = public
        self._public = with_constant(self._coordinates.rows(public), intercept)
        Z = with_level(self._public, coupling.level)
        self._gram = Z.T @ Z

    def serves(self, label: Label) -> bool:
        """Tell whether a node's problem has a closed form; without neighbours, its own fit is as good."""
        network = self._network
        if not self._applies or label in network.stayed or not network.links[label]:
            return False
        local = network.models[label]
        estimator = local.estimator
        if isinstance(local, Viewed) or unsupported_models({label: estimator}) is not None:
            return False
        same = bool(estimator.fit_intercept) == self._coordinates.intercept
        return same and self._determined(label)

    def _determined(self, label: Label) -> bool:
        """Tell whether public rows and penalty determine all weights; the level may be the node's own."""
        intercept = self._coordinates.intercept
        penalty = np.append(self._penalty(label), [0.0] * intercept)
        values = np.linalg.eigvalsh(self._gram + np.diag(penalty))
        own_level = intercept and self._network.coupling.level == 0.0
        return bool(values[int(own_level)] > LEAST * values[-1])

    def solve(self, labels: Sequence[Label], tol: float) -> None:
        """Solve for these nodes, with all others fixed, and set their models and answers."""
        network, coordinates, coupling = self._network, self._coordinates, self._network.coupling
        place = {label: k for k, label in enumerate(labels)}
        answers = np.stack([network.said[label] for label in labels])
        outside, edges = np.zeros_like(answers), sparse.lil_array((len(labels), len(labels)))
        for i, label in enumerate(labels):
            for other, weight in network.links[label].items():
                if other in place:
                    edges[i, place[other]] = weight
                else:
                    outside[i] += weight * network.said[other]
        rows = [network.rows[label] for label in labels]
        counts = np.array([len(y) for _, y in rows])
        problem = LinearProblem(
            np.concatenate([coordinates.rows(X) for X, _ in rows]),
            np.concatenate([network.task.encode(y) for _, y in rows]),
            edges.tocsr(),
            coordinates.rows(self._rows),
            offsets=np.append(0, np.cumsum(counts)),
            intercept=coordinates.intercept,
            ridge=np.stack([self._penalty(label) for label in labels]) / counts[:, None],
            level=coupling.level,
        )
        problem.degree = np.array([sum(network.links[label].values()) for label in labels])
        alpha = coupling.alpha * (2.0 if coupling.symmetric else 1.0)
        problem.moment += alpha * problem.shared(self._projection @ outside)
        update = ExactUpdate(problem, alpha)
        solution = solve_fixed_point(
            update,
            self._projection @ answers,
            tol=max(SHARE * tol, LEAST_RESIDUAL),
            max_rounds=MOST_STEPS,
        )
        network.said.changed.update(zip(labels, self._public @ solution.models, strict=True))
        kinds = [network.models[label].estimator for label in labels]
        weights = coordinates.back(solution.models)
        made = FittedModels(labels, kinds, np.arange(len(labels)), network.task, weights)
        network.models.changed.update(made)

    def _penalty(self, label: Label) -> FloatArray:
        """Return a node's penalty of every coefficient; the intercept has none."""
        scale = self._coordinates.scale
        return ridge_of(self._network.models[label].estimator, len(scale)) / scale**2

    @cached_property
    def _projection(self) -> FloatArray:
        """What turns answers on the public rows into the weights that come closest (least squares)."""
        return np.asarray(np.linalg.pinv(self._public))
