"""Newton's method of ``models.newton`` for many softmax nodes at once: the same steps, batched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dposv

from fedrelax.linear.rows import BUFFER_NUMBERS
from fedrelax.linear.softmax import SoftmaxNodes, softmax
from fedrelax.models.newton import HALVINGS, STEPS
from fedrelax.typing import AnyArray, FloatArray


@dataclass(frozen=True)
class Layout:
    """Where the distinct entries of a Hessian go: pairs of classes times pairs of features."""

    classes: tuple[AnyArray, AnyArray]
    features: tuple[AnyArray, AnyArray]
    place: AnyArray

    @classmethod
    def of(cls, d: int, K: int) -> Layout:
        """Return the layout for weights (d, K); the Hessian's rows are class by class."""
        classes, features = np.tril_indices(K), np.tril_indices(d)
        pair, cell = np.empty((K, K), dtype=np.intp), np.empty((d, d), dtype=np.intp)
        pair[classes] = pair.T[classes] = np.arange(len(classes[0]))
        cell[features] = cell.T[features] = np.arange(len(features[0]))
        place = pair[:, None, :, None] * len(features[0]) + cell[None, :, None, :]
        return cls(classes, features, place.reshape(-1))

    def squares(self, rows: FloatArray) -> FloatArray:
        """Return ``x_f x_g`` for every row and pair of features."""
        f, g = self.features
        return np.asarray(rows[..., f] * rows[..., g])

    def curvatures(self, p: FloatArray, weights: FloatArray) -> FloatArray:
        """Return ``w_r p_k ([k = l] - p_l)`` as (nodes, pairs of classes, rows)."""
        k, j = self.classes
        q = np.ascontiguousarray(p.transpose(0, 2, 1))
        out: FloatArray = (k == j)[:, None] - q[:, j]
        out *= q[:, k]
        out *= weights[:, None, :]
        return out


def nodes_at_once(d: int, K: int, rows: int) -> int:
    """Return how many Hessians (K d)^2 with ``rows`` rows each fit the buffer, at least one."""
    pairs, cells = K * (K + 1) // 2, d * (d + 1) // 2
    return max(1, 2 * BUFFER_NUMBERS // (2 * (K * d) ** 2 + pairs * (rows + cells) + rows * cells))


def minimise(data: SoftmaxNodes, start: FloatArray) -> FloatArray:
    """Return the minimisers of all nodes' objectives from ``start`` (c, d, K).

    ``W <- W - t (H + tiny I)^-1 g`` with t halved until the objective falls; a node is done after the
    first full step that promises less than 1e-12 of its objective.
    """
    layout = Layout.of(start.shape[1], start.shape[2])
    far_squares = layout.squares(data.public)
    W = start.copy()
    now = data.value(W)
    part, active = data, np.arange(len(W))
    for _ in range(STEPS):
        if not active.size:
            break
        gradient, direction = _direction(part, W[active], layout, far_squares)
        slope = (gradient * direction).sum(axis=(1, 2))
        going = -slope > 1e-12 * np.maximum(1.0, np.abs(now[active]))
        W[active[~going]] += direction[~going]
        if not going.all():
            part, active = part.part(going), active[going]
            slope, direction = slope[going], direction[going]
        if not active.size:
            break
        W[active], now[active], found = _search(part, W[active], now[active], slope, direction)
        if not found.all():
            part, active = part.part(found), active[found]
    return W


def _direction(
    data: SoftmaxNodes, W: FloatArray, layout: Layout, far_squares: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return gradients and ``-(H + tiny I)^-1 g``, both (c, d, K)."""
    c, d, K = W.shape
    own, far = softmax(data.rows @ W), softmax(data.public @ W)
    share = np.broadcast_to(data.strength[:, None], far.shape[:2])
    gradient = data.rows.transpose(0, 2, 1) @ (data.weights[:, :, None] * (own - data.labels))
    gradient += data.public.T @ (share[:, :, None] * (far - data.taught))
    gradient += 2.0 * data.ridge[:, :, None] * W
    sums = layout.curvatures(own, data.weights) @ layout.squares(data.rows)
    if len(data.public):
        there = layout.curvatures(far, share)
        sums += (there.reshape(-1, len(data.public)) @ far_squares).reshape(sums.shape)
    hessians = np.take(sums.reshape(c, -1), layout.place, axis=1).reshape(c, K * d, K * d)
    right = gradient.transpose(0, 2, 1).reshape(c, K * d)
    steps = np.empty_like(right)
    for i in range(c):
        diagonal = np.einsum("aa->a", hessians[i])
        diagonal += np.tile(2.0 * data.ridge[i], K)
        diagonal += 1e-10 * max(1.0, float(diagonal.sum()) / (K * d))
        steps[i] = _solve(hessians[i], right[i])
    return gradient, -steps.reshape(c, K, d).transpose(0, 2, 1)


def _solve(H: FloatArray, g: FloatArray) -> FloatArray:
    """Return ``H^-1 g`` by Cholesky."""
    _, solution, failed = dposv(H.T, g, lower=0)
    return np.asarray(np.linalg.solve(H, g) if failed else solution, dtype=np.float64)


def _search(
    data: SoftmaxNodes, W: FloatArray, now: FloatArray, slope: FloatArray, direction: FloatArray
) -> tuple[FloatArray, FloatArray, AnyArray]:
    """Halve each node's step until its objective falls; return weights, values and who found one."""
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
    found = np.ones(len(W), dtype=bool)
    found[open_] = False
    return reached, value, found
