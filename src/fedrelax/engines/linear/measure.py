"""Round 0 and the measures of every round, from Gram matrices."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from fedrelax.engines.linear.problem import LinearProblem
from fedrelax.engines.linear.residuals import RowResiduals
from fedrelax.engines.linear.rows import BUFFER_NUMBERS
from fedrelax.engines.linear.stacked import Coordinates, LinearNetwork
from fedrelax.engines.linear.update import ExactUpdate
from fedrelax.engines.linear.variation import Variation
from fedrelax.runtime import NodeMeasures
from fedrelax.typing import FloatArray

REFINEMENTS = 2


def train_alone(
    network: LinearNetwork,
    coordinates: Coordinates,
    problem: LinearProblem,
    residuals: RowResiduals,
    weighting: str,
) -> tuple[FloatArray, ExactUpdate]:
    """Solve ``(H_i + R_i) u = b_i``, then refine with residuals of the rows themselves.

    The refinement ``u <- u - (H + R)^-1 [X'(X u - y)/m + R u]`` recovers the digits lost in forming H.
    Returns the models and the update that holds the inverses.
    """
    norm = coordinates.least(network.minimum_norm)
    exact = ExactUpdate(problem, 0.0, minimum_norm=norm, fused=False)
    share = network.own.counts[:, None, None] if weighting == "mean" else 1.0
    U = exact.models(problem.moment)
    for _ in range(REFINEMENTS):
        slope = residuals.slopes(U) / share + problem.ridge[:, :, None] * U
        U -= exact.models(slope)
    return U, exact


class Measures:
    """The measures of every node for models W and messages V, both (n, d, q).

    Own losses are computed relative to a reference w0, whose loss is known from the rows:
    ``L(w) = L(w0) + 2 (w - w0)' g0 + (w - w0)' H (w - w0)``, where the gradient at w0 is 2 g0. No large
    terms cancel, as they would in ``|y|^2 - 2 b'w + w'H w``.
    """

    def __init__(
        self,
        network: LinearNetwork,
        coordinates: Coordinates,
        problem: LinearProblem,
        residuals: RowResiduals,
        reference: FloatArray,
        weighting: str,
    ) -> None:
        self._problem, self._reference = problem, reference
        self._counts = network.own.counts
        self._by_rows = weighting == "rows"
        self._share = self._counts if self._by_rows else np.ones(len(self._counts))
        self._losses = residuals.losses(reference)
        self._slopes = residuals.slopes(reference) / self._counts[:, None, None]
        self._variation_rows = network.public_counts if self._by_rows else np.array(1.0)
        self._public_rows = network.public_counts
        self.variation = Variation(problem, self._variation_rows)
        held = network.validation
        self._held_rows = np.zeros(len(network.labels)) if held is None else held.counts
        self._held = None
        if held is not None:
            rows = coordinates.rows(held.X)
            self._held = RowResiduals(rows, held.y, held.offsets, intercept=network.intercept)

    @property
    def edges(self) -> Any:
        """The graph, a CSR matrix."""
        return self._problem.adjacency

    def on(self, edges: Any) -> Measures:
        """Return the measures on another graph."""
        other = copy.copy(self)
        other._problem = self._problem.on(edges)
        other.variation = Variation(other._problem, self._variation_rows)
        return other

    def local_losses(self, W: FloatArray) -> FloatArray:
        """Return ``|X_i w_i - y_i|^2 / m_i`` per node."""
        D = W - self._reference
        curve = self._problem.own.apply(D, np.empty_like(D)) / self._share[:, None, None]
        gain: FloatArray = np.einsum("ndq,ndq->n", D, curve + 2 * self._slopes)
        return np.maximum(self._losses + gain, 0.0)

    def losses_of_others(self, edges: Any, V: FloatArray) -> FloatArray:
        """Return ``|X_i v_j - y_i|^2 / m_i`` for every stored entry (i, j)."""
        learner = np.repeat(np.arange(len(V)), np.diff(edges.indptr))
        values = np.empty(edges.nnz)
        group = max(1, BUFFER_NUMBERS // self._problem.own.array[0].size)
        for lo in range(0, len(values), group):
            i, j = learner[lo : lo + group], edges.indices[lo : lo + group]
            D = V[j] - self._reference[i]
            curve = self._problem.own.squares(D, i) / self._share[i]
            slope = 2 * np.einsum("edq,edq->e", D, self._slopes[i])
            values[lo : lo + group] = np.maximum(self._losses[i] + curve + slope, 0.0)
        return values

    def validation_losses(self, W: FloatArray) -> FloatArray:
        """Return the mean squared error on each node's validation rows; NaN for a node without any."""
        if self._held is None:
            return np.full(len(self._counts), np.nan)
        return self._held.losses(W)

    def variations(self, W: FloatArray, V: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return each node's part of GTV, and the coupling term of its objective without alpha."""
        if not self._by_rows:
            gtv = self.variation.nodes(W, V)
            return gtv, gtv
        if self._problem.common is not None:
            gtv = self.variation.nodes(W, V)
            return gtv, gtv * self._public_rows / self._counts
        A = self._problem.adjacency
        learner = np.repeat(np.arange(self._problem.n), np.diff(A.indptr))
        values = A.data * self.variation.edges(W, V)
        pulls = values * self._public_rows[A.indices] / self._counts[learner]
        sums = (np.bincount(learner, parts, self._problem.n) for parts in (values, pulls))
        gtv, pull = (np.asarray(part, dtype=np.float64) for part in sums)
        return gtv, pull

    def __call__(
        self, W: FloatArray, V: FloatArray, factor: float, change: FloatArray | None
    ) -> NodeMeasures:
        """Return the measures; ``change`` is the last change of the messages, None in the first round."""
        q = W.shape[2]
        gtv, pull = self.variations(W, V)
        moved = np.full(len(W), np.inf) if change is None else self.variation.own(change) / q
        return NodeMeasures(
            local_loss=self.local_losses(W),
            gtv=gtv,
            pull=factor * pull,
            validation_loss=self.validation_losses(W),
            validation_rows=self._held_rows,
            change=moved,
            size=self.variation.own(V) / q,
        )
