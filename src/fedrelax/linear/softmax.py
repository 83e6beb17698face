"""Newton's method for softmax regression on soft labels, for one node or for many at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse.linalg import cg
from scipy.special import log_softmax

from fedrelax.linear.arrays import norm, operator, softmax
from fedrelax.typing import AnyArray, FloatArray

MOST_WEIGHTS = 600
"""Beyond this many weights the Hessian costs more than it saves."""
MANY_CLASSES, MOST_FEATURES = 50, 100
"""With so many classes or more, and so few features or fewer, Newton's method does without forming it."""
STEPS = 100
INNER = 200
"""The most steps of conjugate gradients then."""
HALVINGS = 40
BUFFER_NUMBERS = 1 << 21
"""Numbers that the Hessians and products of one group of nodes may take: 16 MB."""


@dataclass(frozen=True)
class SoftmaxNodes:
    """What a group of c nodes minimises over weights W (c, d, K).

    ``sum_r weights_r CE(labels_r, softmax(rows_r W + offset_r)) + ridge |W|^2``: rows (c, m, d),
    labels (c, m, K), weights (c, m), ridge (c, d), offset (c, m, K). Every row of labels sums to 1.
    """

    rows: FloatArray
    labels: FloatArray
    weights: FloatArray
    ridge: FloatArray
    offset: FloatArray | None = None

    def part(self, nodes: AnyArray) -> SoftmaxNodes:
        """Return some of the nodes."""
        return SoftmaxNodes(
            self.rows[nodes],
            self.labels[nodes],
            self.weights[nodes],
            self.ridge[nodes],
            None if self.offset is None else self.offset[nodes],
        )

    def scores(self, W: FloatArray) -> FloatArray:
        """Return the scores of all rows (c, m, K)."""
        scores: FloatArray = self.rows @ W
        return scores if self.offset is None else scores + self.offset

    def value(self, W: FloatArray) -> FloatArray:
        """Return the objectives (c,)."""
        losses = -(self.labels * log_softmax(self.scores(W), axis=-1)).sum(axis=-1)
        total: FloatArray = (self.weights * losses).sum(axis=1)
        total += (self.ridge[:, :, None] * W**2).sum(axis=(1, 2))
        return total


def nodes_at_once(d: int, K: int, rows: int) -> int:
    """Return how many nodes, with Hessians (K d)^2 and ``rows`` rows each, fit the buffer; at least 1."""
    pairs, cells = K * (K + 1) // 2, d * (d + 1) // 2
    return max(1, BUFFER_NUMBERS // (2 * (K * d) ** 2 + pairs * (rows + cells) + rows * cells))


def minimise_softmax(data: SoftmaxNodes, start: FloatArray) -> FloatArray:
    """Return the minimisers of all nodes' objectives from ``start`` (c, d, K).

    ``W <- W - t (H + tiny I)^-1 g``, with t halved until the objective falls. The tiny term handles the
    flat directions of softmax. A node is done after the first full step that promises a decrease of
    less than 1e-12 of its objective. With more than ``MOST_WEIGHTS`` weights, H is not formed.
    """
    part = data
    W = start.copy()
    now = data.value(W)
    active = np.arange(len(W))
    for _ in range(STEPS):
        if not active.size:
            break
        gradient, direction = _direction(part, W[active])
        slope = (gradient * direction).sum(axis=(1, 2))
        going = -slope > 1e-12 * np.maximum(1.0, np.abs(now[active]))
        W[active[~going]] += direction[~going]
        if not going.all():
            part, active = part.part(going), active[going]
            slope, direction = slope[going], direction[going]
        if not active.size:
            break
        W[active], now[active], fell = _search(part, W[active], now[active], slope, direction)
        if not fell.all():
            part, active = part.part(fell), active[fell]
    return W


def _direction(data: SoftmaxNodes, W: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return gradients and ``-(H + tiny I)^-1 g``, both (c, d, K)."""
    c, d, K = W.shape
    p = softmax(data.scores(W))
    gradient = data.rows.transpose(0, 2, 1) @ (data.weights[:, :, None] * (p - data.labels))
    gradient += 2.0 * data.ridge[:, :, None] * W
    if d * K > MOST_WEIGHTS:
        parts = zip(data.rows, data.weights, p, data.ridge, gradient, strict=True)
        return gradient, -np.stack([_truncated(*part) for part in parts])
    hessians, each = _hessians(data.rows, data.weights, p), np.arange(K * d)
    diagonal = hessians[:, each, each] + np.tile(2.0 * data.ridge, K)
    tiny = 1e-10 * np.maximum(1.0, diagonal.mean(axis=1, keepdims=True))
    hessians[:, each, each] = diagonal + tiny
    steps = np.linalg.solve(hessians, gradient.transpose(0, 2, 1).reshape(c, K * d, 1))
    return gradient, np.asarray(-steps.reshape(c, K, d).transpose(0, 2, 1), dtype=float)


def _hessians(rows: FloatArray, weights: FloatArray, p: FloatArray) -> FloatArray:
    """Return ``sum_r w_r p_k ([k = l] - p_l) x_f x_g`` as (c, K d, K d), ordered by class.

    It is computed for distinct pairs of classes and of features, and for as many rows at once as fit the
    buffer.
    """
    (c, m, d), K = rows.shape, p.shape[2]
    (k, j), (f, g) = np.tril_indices(K), np.tril_indices(d)
    sums = np.zeros((c, len(k), len(f)))
    few = max(1, BUFFER_NUMBERS // (c * (len(k) + len(f))))
    for lo in range(0, m, few):
        x, q = rows[:, lo : lo + few], p[:, lo : lo + few].transpose(0, 2, 1)
        curvatures = q[:, k] * ((k == j)[:, None] - q[:, j]) * weights[:, None, lo : lo + few]
        sums += curvatures @ (x[:, :, f] * x[:, :, g])
    pair, cell = np.empty((K, K), dtype=np.intp), np.empty((d, d), dtype=np.intp)
    pair[k, j] = pair[j, k] = np.arange(len(k))
    cell[f, g] = cell[g, f] = np.arange(len(f))
    entry = pair[:, None, :, None] * len(f) + cell[None, :, None, :]
    return np.take(sums.reshape(c, -1), entry.reshape(-1), axis=1).reshape(c, K * d, K * d)


def _truncated(
    X: FloatArray, weights: FloatArray, p: FloatArray, ridge: FloatArray, gradient: FloatArray
) -> FloatArray:
    """Return about ``H^-1 g`` (d, K) of one node by conjugate gradients on products with H.

    They are preconditioned by the diagonal block of each class: among many classes, the couplings
    ``-p_a p_b`` between two are weak.
    """
    each, scaled = np.arange(len(ridge)), weights[:, None] * p
    blocks = (X.T * (scaled * (1.0 - p)).T[:, None, :]) @ X
    blocks[:, each, each] += 2.0 * ridge
    traces = np.trace(blocks, axis1=1, axis2=2)
    blocks[:, each, each] += 1e-10 * np.maximum(1.0, traces / len(ridge))[:, None]
    inverses = np.linalg.inv(blocks)

    def precondition(r: FloatArray) -> FloatArray:
        return np.asarray(np.einsum("kde,ek->dk", inverses, r))

    def product(v: FloatArray) -> FloatArray:
        moved = X @ v
        moved -= (p * moved).sum(axis=1, keepdims=True)
        return np.asarray(X.T @ (scaled * moved) + 2.0 * ridge[:, None] * v)

    decrease = float(np.vdot(gradient, precondition(gradient)))
    step, _ = cg(
        operator(product, gradient.shape),
        gradient.reshape(-1),
        rtol=0.0,
        atol=min(0.1, decrease**0.5) * norm(gradient),
        maxiter=INNER,
        M=operator(precondition, gradient.shape),
    )
    return np.asarray(step.reshape(gradient.shape))


def _search(
    data: SoftmaxNodes, W: FloatArray, now: FloatArray, slope: FloatArray, direction: FloatArray
) -> tuple[FloatArray, FloatArray, AnyArray]:
    """Halve each node's step until its objective falls; return weights, values and who succeeded."""
    reached, value = W.copy(), now.copy()
    open_, size = np.arange(len(W)), 1.0
    for _ in range(HALVINGS):
        trial = W[open_] + size * direction[open_]
        after = data.value(trial) if len(open_) == len(W) else data.part(open_).value(trial)
        good = after <= now[open_] + 1e-4 * size * slope[open_]
        reached[open_[good]], value[open_[good]] = trial[good], after[good]
        open_ = open_[~good]
        if not open_.size:
            break
        size /= 2
    fell = np.ones(len(W), dtype=bool)
    fell[open_] = False
    return reached, value, fell
