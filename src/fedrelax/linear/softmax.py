"""Newton's method for the objectives of many softmax nodes at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedrelax.linear.vectors import rows_times
from fedrelax.typing import AnyArray, FloatArray

Curvature = Literal["newton", "bound"]


def softmax(scores: FloatArray) -> FloatArray:
    """Return softmax over the last axis."""
    shifted: FloatArray = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shifted /= shifted.sum(axis=-1, keepdims=True)
    return shifted


@dataclass(frozen=True)
class SoftmaxNodes:
    """What a group of c nodes minimises over weights W (c, d, K).

    ``sum_r weights_r CE(labels_r, p(rows_r)) + strength sum_x CE(taught_x, p(x)) + ridge |W|^2``:
    rows (c, m, d), labels (c, m, K), weights (c, m), public (M, d), taught (c, M, K),
    strength (c,), ridge (c, d).
    """

    rows: FloatArray
    labels: FloatArray
    weights: FloatArray
    public: FloatArray
    taught: FloatArray
    strength: FloatArray
    ridge: FloatArray

    def part(self, nodes: AnyArray) -> SoftmaxNodes:
        """Return some of the nodes."""
        return SoftmaxNodes(
            self.rows[nodes],
            self.labels[nodes],
            self.weights[nodes],
            self.public,
            self.taught[nodes],
            self.strength[nodes],
            self.ridge[nodes],
        )

    def value(self, W: FloatArray) -> FloatArray:
        """Return the objectives (c,)."""
        own = _cross_entropy(self.labels, self.rows @ W)
        far = _cross_entropy(self.taught, self.public @ W)
        total: FloatArray = (self.weights * own).sum(axis=1) + self.strength * far.sum(axis=1)
        total += (self.ridge[:, :, None] * W**2).sum(axis=(1, 2))
        return total

    def gradient(self, W: FloatArray) -> FloatArray:
        """Return the gradients (c, d, K): ``X'(w (p - y)) + strength P'(p - taught) + 2 ridge W``."""
        own = self.weights[:, :, None] * (softmax(self.rows @ W) - self.labels)
        far = self.strength[:, None, None] * (softmax(self.public @ W) - self.taught)
        out: FloatArray = self.rows.transpose(0, 2, 1) @ own + self.public.T @ far
        out += 2 * self.ridge[:, :, None] * W
        return out

    def hessian(self, W: FloatArray) -> FloatArray:
        """Return the Hessians (c, K d, K d), blocks ``sum_r w_r (p_k [k=l] - p_k p_l) x_r x_r'``."""
        c, d, K = W.shape
        own, far = softmax(self.rows @ W), softmax(self.public @ W)
        squares = (self.public[:, :, None] * self.public[:, None, :]).reshape(len(self.public), -1)
        sums = np.empty((c, d * d))
        out = np.empty((c, K, d, K, d))
        for k in range(K):
            for j in range(k + 1):
                here = self.weights * own[:, :, k] * ((k == j) - own[:, :, j])
                there = self.strength[:, None] * far[:, :, k] * ((k == j) - far[:, :, j])
                block = self.rows.transpose(0, 2, 1) @ (here[:, :, None] * self.rows)
                block += rows_times(there, squares, sums).reshape(c, d, d)
                out[:, k, :, j, :] = block
                out[:, j, :, k, :] = block
        steps = np.arange(d)
        for k in range(K):
            out[:, k, steps, k, steps] += 2 * self.ridge
        return out.reshape(c, K * d, K * d)

    def bound(self) -> FloatArray:
        """Return ``B_i / 2 + 2 ridge`` (c, d, d), with B_i the weighted Gram matrix of all rows.

        Boehning: the Hessian is at most ``(I - 11'/K)/2`` times B_i, whatever the weights, so a step
        with this matrix, class by class, never increases the objective.
        """
        gram = self.rows.transpose(0, 2, 1) @ (self.weights[:, :, None] * self.rows)
        gram += self.strength[:, None, None] * (self.public.T @ self.public)
        half: FloatArray = 0.5 * gram
        steps = np.arange(self.rows.shape[2])
        half[:, steps, steps] += 2 * self.ridge
        return half


def _cross_entropy(targets: FloatArray, scores: FloatArray) -> FloatArray:
    top = scores.max(axis=-1, keepdims=True)
    log_sum = top[..., 0] + np.log(np.exp(scores - top).sum(axis=-1))
    loss: FloatArray = log_sum * targets.sum(axis=-1) - (targets * scores).sum(axis=-1)
    return loss


def newton(
    data: SoftmaxNodes, W: FloatArray, curvature: Curvature, *, tol: float, max_steps: int
) -> tuple[FloatArray, FloatArray]:
    """Minimise from W; return the weights and the greatest gradient entry of each node.

    Nodes that are done drop out. Newton steps are halved until the objective falls enough (Armijo).
    """
    W = W.copy()
    size = np.abs(data.gradient(W)).max(axis=(1, 2), initial=0.0)
    fixed = None if curvature == "newton" else np.linalg.pinv(data.bound(), hermitian=True)
    for _ in range(max_steps):
        active = np.flatnonzero(size > tol)
        if not active.size:
            break
        part = data.part(active)
        now = W[active]
        slope = part.gradient(now)
        if fixed is None:
            now = _line_search(part, now, slope, _newton_direction(part, now, slope))
        else:
            now = now - fixed[active] @ slope
        W[active] = now
        size[active] = np.abs(part.gradient(now)).max(axis=(1, 2))
    return W, size


def _newton_direction(data: SoftmaxNodes, W: FloatArray, slope: FloatArray) -> FloatArray:
    """Return ``-Hessian^-1 gradient``, of minimum norm in directions that change no prediction.

    Adding one vector to all classes changes nothing: such directions get the curvature 1 instead of
    0, where the gradient has no part, and a trace of damping guards against the other null spaces.
    """
    c, d, K = W.shape
    H = data.hessian(W).reshape(c, K, d, K, d)
    scale = np.einsum("ckaka->c", H) / (K * d) + np.finfo(float).tiny
    steps = np.arange(d)
    for k in range(K):
        for j in range(K):
            H[:, k, steps, j, steps] += scale[:, None] / K
        H[:, k, steps, k, steps] += 1e-10 * scale[:, None]
    flat = slope.transpose(0, 2, 1).reshape(c, K * d, 1)
    direction = -np.linalg.solve(H.reshape(c, K * d, K * d), flat)
    return np.ascontiguousarray(direction.reshape(c, K, d).transpose(0, 2, 1))


def _line_search(
    data: SoftmaxNodes, W: FloatArray, slope: FloatArray, direction: FloatArray
) -> FloatArray:
    """Halve each node's step until its objective falls by a part of what the slope promises."""
    start = data.value(W)
    promise = (slope * direction).sum(axis=(1, 2))
    length = np.ones(len(W))
    slack = 1e-14 * (1 + np.abs(start))
    for _ in range(30):
        reached = data.value(W + length[:, None, None] * direction)
        short = ~(reached <= start + 1e-4 * length * promise + slack)
        if not short.any():
            break
        length[short] *= 0.5
    return W + length[:, None, None] * direction
