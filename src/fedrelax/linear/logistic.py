"""Networks of softmax (multinomial logistic) models on one common public set, all nodes at once.

Node i has weights W_i (d, K) and probabilities ``p_i(x) = softmax(W_i' x)``. Its objective is

    mean_r CE(Y_r, p_i(x_r)) + ridge_i |W_i|^2 + alpha sum_j A_ij mean_{x in P} CE(p_j(x), p_i(x)),

with CE(t, p) = -sum_k t_k log p_k, the labels Y as probabilities and no ridge on an intercept. On one
common set the neighbours' soft labels collapse to their weighted mean, with weight alpha * degree_i.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from fedrelax.errors import FedRelaxError
from fedrelax.linear.exchange import Exchange
from fedrelax.linear.memory import require_memory
from fedrelax.linear.problem import check_adjacency
from fedrelax.linear.rows import BUFFER_NUMBERS, NodeRows
from fedrelax.linear.softmax import Curvature, SoftmaxNodes, newton, softmax
from fedrelax.typing import AnyArray, FloatArray

FULL_HESSIAN_MOST = 200
"""Largest K * d for which the whole Hessian is formed; above it, Boehning's bound."""


class LogisticRounds:
    """Simultaneous rounds of exact updates: share predictions, then every node minimises.

    Parameters
    ----------
    X, labels : rows as in LinearProblem; labels are class probabilities (n, m, K), or (N, K) with
        ``offsets``: one-hot rows for hard labels.
    adjacency, public, intercept, ridge : as in LinearProblem; ``public`` is one common set.
    tol : a node is done when the greatest entry of its gradient is at most this.
    max_steps : most Newton (or bound) steps per node and round.
    curvature : "newton", "bound", or None to choose by K * d.
    """

    def __init__(
        self,
        X: npt.ArrayLike,
        labels: npt.ArrayLike,
        adjacency: Any,
        public: npt.ArrayLike,
        alpha: float,
        initial: npt.ArrayLike | None = None,
        *,
        offsets: npt.ArrayLike | None = None,
        intercept: bool = False,
        ridge: npt.ArrayLike = 0.0,
        tol: float = 1e-8,
        max_steps: int = 50,
        curvature: Curvature | None = None,
    ) -> None:
        rows = NodeRows(X, offsets, name="X")
        targets = np.asarray(labels, dtype=np.float64)
        K = targets.shape[-1]
        self.n, self.d, self.K = rows.n, rows.d + bool(intercept), K
        targets = targets.reshape(len(rows.flat), K)
        if not np.allclose(targets.sum(axis=1), 1, atol=1e-6) or (targets < 0).any():
            raise FedRelaxError("labels: every row must hold class probabilities that add up to 1")
        if not (np.isfinite(alpha) and alpha >= 0):
            raise FedRelaxError(f"alpha: expected a number >= 0, found {alpha}")
        shared = np.asarray(public, dtype=np.float64)
        if shared.ndim != 2 or shared.shape[1] != rows.d or not len(shared):
            raise FedRelaxError(
                f"public: logistic nodes take one common set of rows with {rows.d} features, found "
                f"shape {shared.shape}"
            )
        require_memory(
            8 * self.n * (rows.most * (self.d + K) + 3 * len(shared) * K + 4 * self.d * K),
            n=self.n,
            d=self.d,
            common=True,
            dtype=np.float32,
        )
        graph = check_adjacency(adjacency, self.n)
        self.alpha = float(alpha)
        self.tol, self.max_steps = tol, max_steps
        self.curvature: Curvature = curvature or (
            "newton" if K * self.d <= FULL_HESSIAN_MOST else "bound"
        )
        self.public = np.column_stack([shared, np.ones(len(shared))]) if intercept else shared
        self.degree: FloatArray = np.asarray(graph.sum(axis=1), dtype=np.float64).reshape(-1)
        self._exchange = Exchange(graph, len(shared) * K)
        features = np.ones(self.d)
        if intercept:
            features[-1] = 0.0
        strength = np.broadcast_to(np.asarray(ridge, dtype=np.float64), self.n)
        self.ridge: FloatArray = strength[:, None] * features
        self._rows, self._targets, self._intercept = rows, targets, bool(intercept)
        self.models: FloatArray = np.zeros((self.n, self.d, K))
        if initial is not None:
            self.models[...] = np.asarray(initial)
        self.rounds = 0
        self.gradient_size = np.inf

    def neighbours(self) -> FloatArray:
        """Return the neighbours' mean class probabilities on the public set, (n, m_pub, K)."""
        sent = softmax(np.matmul(self.public, self.models))
        mean: FloatArray = self._exchange(sent, np.empty_like(sent))
        mean /= np.where(self.degree > 0, self.degree, 1.0)[:, None, None]
        return mean

    def step(self) -> float:
        """Run one round; return the greatest change of any weight."""
        taught = self.neighbours()
        change, worst = 0.0, 0.0
        for nodes, data in self._groups(taught):
            new, size = newton(
                data, self.models[nodes], self.curvature, tol=self.tol, max_steps=self.max_steps
            )
            change = max(change, float(np.abs(new - self.models[nodes]).max(initial=0.0)))
            worst = max(worst, float(size.max(initial=0.0)))
            self.models[nodes] = new
        self.rounds += 1
        self.gradient_size = worst
        return change

    def solve(self, *, tol: float = 1e-6, max_rounds: int = 1000) -> bool:
        """Repeat rounds until no weight changes by more than ``tol``; say whether that happened."""
        return any(self.step() <= tol for _ in range(max_rounds))

    def gradients(self) -> FloatArray:
        """Return each node's gradient at the current models against the current neighbours."""
        out = np.empty_like(self.models)
        for nodes, data in self._groups(self.neighbours()):
            out[nodes] = data.gradient(self.models[nodes])
        return out

    def _groups(self, taught: FloatArray) -> Iterator[tuple[AnyArray, SoftmaxNodes]]:
        """Yield groups of nodes with all that their objectives need, within the buffer."""
        size = (self.K * self.d) ** 2 if self.curvature == "newton" else self.d**2
        size += len(self.public) * self.K * (self.K if self.curvature == "newton" else 2)
        most = max(1, BUFFER_NUMBERS // size)
        for all_nodes, all_take, all_mask in self._rows.groups(self._targets):
            for lo in range(0, len(all_nodes), most):
                part = slice(lo, lo + most)
                nodes, take, mask = all_nodes[part], all_take[part], all_mask[part]
                counts = np.maximum(self._rows.counts[nodes], 1)
                yield (
                    nodes,
                    SoftmaxNodes(
                        rows=self._rows.padded(take, mask, self._intercept),
                        labels=self._labels(take, mask),
                        weights=mask / counts[:, None],
                        public=self.public,
                        taught=taught[nodes],
                        strength=self.alpha * self.degree[nodes] / len(self.public),
                        ridge=self.ridge[nodes],
                    ),
                )

    def _labels(self, take: AnyArray, mask: AnyArray) -> FloatArray:
        if not take.size:
            return np.zeros((*take.shape, self.K))
        labels: FloatArray = np.where(mask[:, :, None], self._targets[take], 0.0)
        return labels
