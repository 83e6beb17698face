"""Refits of least-squares models in closed form: what a ripple costs is then one small product per node.

On one common public set, node i's problem is  sum_own (y - x'w)^2 + c sum_pub (t - z'w)^2 + penalty,  with
t the mean of its neighbours' answers. Its solution is  w = H^-1 (X'y + c Z't)  and H does not change while
neighbours move, so it is inverted once. Answers of any neighbour count by  Z't  alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from fedrelax.combining import Mean
from fedrelax.engines.linear.checks import reason_in_models, ridge_of
from fedrelax.engines.linear.fitted import FittedModels
from fedrelax.losses import Squared
from fedrelax.models import LocalModel
from fedrelax.models.viewed import Viewed
from fedrelax.typing import AnyArray, FloatArray, Label

if TYPE_CHECKING:
    from fedrelax.living.network import LivingNetwork

WORST = 1e10
"""Ratio of the pivots of H beyond which the model's own fit is more exact."""


@dataclass(frozen=True)
class _Normal:
    """A node's inverted normal equations, for its rows and the weight of its neighbours."""

    rows: AnyArray
    total: float
    inverse: FloatArray | None
    """None: the model's own fit is taken."""
    own: FloatArray
    pull: float


class LeastSquares:
    """The closed form for the nodes of a network that have it; ``refit`` tells whether it applied."""

    def __init__(self, network: LivingNetwork) -> None:
        self._network = network
        self._normals: dict[Label, _Normal] = {}
        self._told: dict[Label, tuple[FloatArray, FloatArray]] = {}
        self._solved: dict[Label, FloatArray] = {}
        self._intercept: bool | None = None

    @cached_property
    def _applies(self) -> bool:
        network, coupling = self._network, self._network.coupling
        squared = isinstance(coupling.loss, Squared) and isinstance(coupling.discrepancy, Squared)
        plain = isinstance(coupling.combine, Mean) and coupling.distillation is None
        rows = network.public.common
        assert rows is not None
        return squared and plain and not network.task.is_classification and rows.ndim == 2

    @cached_property
    def _public(self) -> FloatArray:
        common = self._network.public.common
        assert common is not None
        centre, spread = common.mean(axis=0), common.std(axis=0)
        self._spread = np.where(spread > 0, spread, 1.0)
        self._centre = centre if self._intercept else np.zeros_like(centre)
        return self._standard(common)

    def _standard(self, X: AnyArray) -> FloatArray:
        scaled = (np.asarray(X, dtype=float) - self._centre) / self._spread
        return np.hstack([scaled, np.ones((len(X), 1))]) if self._intercept else scaled

    @cached_property
    def _gram(self) -> FloatArray:
        return np.asarray(self._public.T @ self._public)

    @cached_property
    def _projection(self) -> FloatArray:
        return np.asarray(np.linalg.pinv(self._public))

    @cached_property
    def _sums(self) -> FloatArray:
        return np.asarray(self._public.sum(axis=0))

    def refit(self, label: Label) -> bool:
        """Solve a node's problem, if it has a closed form; its model waits for ``settle``."""
        network = self._network
        if not self._applies or label in network.stayed:
            return False
        near = {j: a for j, a in network.links[label].items() if a > 0}
        normal = self._normal(label, float(sum(near.values())))
        if normal.inverse is None:
            return False
        rhs = normal.own
        if normal.pull:
            weights = np.array(list(near.values())) / normal.total
            mean = np.tensordot(weights, np.array([self._weights(j) for j in near]), 1)
            rhs = rhs + normal.pull * (self._gram @ mean)
            share = 1.0 - network.coupling.level
            if share:
                gap = self._sums @ (self._weights(label) - mean) / len(self._public)
                rhs = rhs + normal.pull * share * np.outer(self._sums, gap)
        solved = normal.inverse @ rhs
        answer = self._public @ solved
        self._told[label] = answer, solved
        self._solved[label] = solved
        network.said[label] = answer
        return True

    def settle(self) -> None:
        """Make models of what was solved."""
        network = self._network
        for label, solved in self._solved.items():
            if label in network.models:
                network.models[label] = self._model(label, solved)
        self._solved.clear()

    def drop(self) -> None:
        """Forget what was solved and not taken over: the change has failed."""
        self._solved.clear()

    def _weights(self, label: Label) -> FloatArray:
        """Return weights that say of the public rows what a node says, as far as it matters."""
        said, known = self._network.said[label], self._told.get(label)
        if known is None or known[0] is not said:
            known = self._told[label] = said, self._projection @ said
        return known[1]

    def _normal(self, label: Label, total: float) -> _Normal:
        X, y = self._network.rows[label]
        known = self._normals.get(label)
        if known is None or known.rows is not X or known.total != total:
            known = self._normals[label] = self._inverted(label, X, y, total)
        return known

    def _inverted(self, label: Label, X: AnyArray, y: AnyArray, total: float) -> _Normal:
        network, coupling = self._network, self._network.coupling
        none = _Normal(X, total, None, np.zeros(0), 0.0)
        local = network.models[label]
        estimator = local.estimator
        if isinstance(local, Viewed) or reason_in_models({label: estimator}) is not None:
            return none
        if self._intercept is None:
            self._intercept = bool(estimator.fit_intercept)
        if bool(estimator.fit_intercept) != self._intercept:
            return none
        rows, target = len(y), network.task.encode(y)
        scale = rows / len(self._public) if coupling.weighting == "mean" else 1.0
        pull = coupling.alpha * scale * total * (2.0 if coupling.symmetric else 1.0)
        design = self._standard(X)
        H = design.T @ design + pull * self._gram
        features = X.shape[1]
        H[np.diag_indices(features)] += ridge_of(estimator, features) / self._spread**2
        try:
            factor = cho_factor(H)
        except LinAlgError:
            return none
        pivots = np.square(np.diag(factor[0]))
        if pivots.max() > WORST * pivots.min():
            return none
        inverse = cho_solve(factor, np.eye(len(H)))
        return _Normal(X, total, inverse, design.T @ target, pull)

    def _model(self, label: Label, solved: FloatArray) -> LocalModel:
        """Return a model of the kind the node has with these weights, in the user's own features."""
        network = self._network
        features = len(self._spread)
        weights = solved.copy()
        weights[:features] /= self._spread[:, None]
        if self._intercept:
            weights[-1] -= self._centre @ weights[:features]
        kinds = [network.models[label].estimator]
        made = FittedModels((label,), kinds, np.zeros(1, dtype=np.int64), network.task, weights[None])
        return made[label]
