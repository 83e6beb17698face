"""Newton's method for softmax regression on soft labels, for one node or for many at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg.lapack import dposv

from fedrelax.linear.arrays import dot, nonzero, norm, softmax
from fedrelax.linear.solving import conjugate_gradients
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

    ``sum_r weights_r CE(labels_r, p(rows_r)) + strength sum_x CE(taught_x, p(x)) + ridge |W|^2``:
    rows (c, m, d), labels (c, m, K), weights (c, m), public (M, d), taught (c, M, K),
    strength (c,), ridge (c, d). Every row of labels sums to 1. ``squares`` (c, m, pairs of features)
    are the products of each row's features, kept from step to step where they fit the buffer.
    ``offset`` (c, m, K) is added to the scores of ``rows``.
    """

    rows: FloatArray
    labels: FloatArray
    weights: FloatArray
    public: FloatArray
    taught: FloatArray
    strength: FloatArray
    ridge: FloatArray
    squares: FloatArray | None = None
    offset: FloatArray | None = None

    @classmethod
    def of_one(
        cls,
        X: FloatArray,
        target: FloatArray,
        weight: FloatArray,
        penalty: FloatArray,
        offset: FloatArray | None = None,
    ) -> SoftmaxNodes:
        """Return one node with weighted rows and no neighbours; rows of ``target`` may have any sum."""
        total = target.sum(axis=1)
        labels = target / nonzero(total)[:, None]
        nobody = np.empty((0, X.shape[1])), np.empty((1, 0, target.shape[1])), np.zeros(1)
        moved = None if offset is None else offset[None]
        weights = (weight * total)[None]
        return cls(X[None], labels[None], weights, *nobody, penalty[None], offset=moved)

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
            None if self.squares is None else self.squares[nodes],
            None if self.offset is None else self.offset[nodes],
        )

    def scores(self, W: FloatArray) -> FloatArray:
        """Return the scores of the nodes' own rows (c, m, K)."""
        found: FloatArray = self.rows @ W
        return found if self.offset is None else found + self.offset

    def value(self, W: FloatArray) -> FloatArray:
        """Return the objectives (c,)."""
        own = _cross_entropy(self.labels, self.scores(W))
        far = _cross_entropy(self.taught, self.public @ W)
        total: FloatArray = (self.weights * own).sum(axis=1) + self.strength * far.sum(axis=1)
        total += (self.ridge[:, :, None] * W**2).sum(axis=(1, 2))
        return total


@dataclass(frozen=True)
class Layout:
    """Where the distinct entries of a Hessian go: pairs of classes by pairs of features."""

    classes: tuple[AnyArray, AnyArray]
    features: tuple[AnyArray, AnyArray]
    place: AnyArray

    @classmethod
    def of(cls, d: int, K: int) -> Layout:
        """Return the layout for weights (d, K); the Hessian's rows are ordered by class."""
        classes, features = np.tril_indices(K), np.tril_indices(d)
        pair, cell = np.empty((K, K), dtype=np.intp), np.empty((d, d), dtype=np.intp)
        pair[classes] = pair.T[classes] = np.arange(len(classes[0]))
        cell[features] = cell.T[features] = np.arange(len(features[0]))
        place = pair[:, None, :, None] * len(features[0]) + cell[None, :, None, :]
        return cls(classes, features, place.reshape(-1))

    def squares(self, rows: FloatArray) -> FloatArray | None:
        """Return ``x_f x_g`` for every row and pair of features, or None if they exceed the buffer."""
        f, g = self.features
        if rows[..., 0].size * len(f) > BUFFER_NUMBERS:
            return None
        return np.asarray(rows[..., f] * rows[..., g])

    def curvatures(self, p: FloatArray, weights: FloatArray) -> FloatArray:
        """Return ``w_r p_k ([k = l] - p_l)`` as (nodes, pairs of classes, rows)."""
        k, j = self.classes
        q = np.ascontiguousarray(p.transpose(0, 2, 1))
        out: FloatArray = (k == j)[:, None] - q[:, j]
        out *= q[:, k]
        out *= weights[:, None, :]
        return out

    def sums(
        self, curvatures: FloatArray, rows: FloatArray, squares: FloatArray | None
    ) -> FloatArray:
        """Return ``sum_r c_r x_f x_g`` as (nodes, pairs of classes, pairs of features).

        ``rows`` are (nodes, rows, d), or (rows, d) if all nodes share them.
        """
        c, pairs, m = curvatures.shape
        if squares is not None and rows.ndim == 2:
            return np.asarray((curvatures.reshape(-1, m) @ squares).reshape(c, pairs, -1))
        if squares is not None:
            return np.asarray(curvatures @ squares)
        f, g = self.features
        found = np.empty((c, pairs, len(f)))
        flipped = rows.swapaxes(-1, -2)
        for i in range(c):
            mine = rows if rows.ndim == 2 else rows[i]
            for pair in range(pairs):
                product = (flipped if rows.ndim == 2 else flipped[i]) @ (
                    curvatures[i, pair, :, None] * mine
                )
                found[i, pair] = product[f, g]
        return found


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
    layout, far_squares, part = None, None, data
    if start[0].size <= MOST_WEIGHTS:
        layout = Layout.of(start.shape[1], start.shape[2])
        far_squares = layout.squares(data.public)
        part = replace(data, squares=layout.squares(data.rows))
    W = start.copy()
    now = data.value(W)
    active = np.arange(len(W))
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
    data: SoftmaxNodes, W: FloatArray, layout: Layout | None, far_squares: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Return gradients and ``-(H + tiny I)^-1 g``, both (c, d, K)."""
    c, d, K = W.shape
    own, far = softmax(data.scores(W)), softmax(data.public @ W)
    share = np.broadcast_to(data.strength[:, None], far.shape[:2])
    gradient = data.rows.transpose(0, 2, 1) @ (data.weights[:, :, None] * (own - data.labels))
    gradient += data.public.T @ (share[:, :, None] * (far - data.taught))
    gradient += 2.0 * data.ridge[:, :, None] * W
    if layout is None:
        rows = np.concatenate([data.rows, np.broadcast_to(data.public, (c, *data.public.shape))], 1)
        weights, p = np.concatenate([data.weights, share], 1), np.concatenate([own, far], 1)
        parts = zip(rows, weights, p, data.ridge, gradient, strict=True)
        return gradient, -np.stack([_truncated(*part) for part in parts])
    sums = layout.sums(layout.curvatures(own, data.weights), data.rows, data.squares)
    if len(data.public):
        sums += layout.sums(layout.curvatures(far, share), data.public, far_squares)
    hessians = np.take(sums.reshape(c, -1), layout.place, axis=1).reshape(c, K * d, K * d)
    right = gradient.transpose(0, 2, 1).reshape(c, K * d)
    steps = np.empty_like(right)
    for i in range(c):
        diagonal = np.einsum("aa->a", hessians[i])
        diagonal += np.tile(2.0 * data.ridge[i], K)
        diagonal += 1e-10 * max(1.0, float(diagonal.sum()) / (K * d))
        steps[i] = _solve(hessians[i], right[i])
    return gradient, -steps.reshape(c, K, d).transpose(0, 2, 1)


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

    def precondition(r: FloatArray, out: FloatArray) -> FloatArray:
        return np.einsum("kde,ek->dk", inverses, r, out=out)

    def product(v: FloatArray, _: FloatArray, out: FloatArray) -> FloatArray:
        moved = X @ v
        moved -= (p * moved).sum(axis=1, keepdims=True)
        return np.add(X.T @ (scaled * moved), 2.0 * ridge[:, None] * v, out=out)

    step, rest = np.zeros_like(gradient), gradient.copy()
    decrease = dot(rest, precondition(rest, np.empty_like(rest)))
    least = min(0.1, decrease**0.5) * norm(rest)
    conjugate_gradients(product, rest, step, precondition, least, INNER)
    return step


def _solve(H: FloatArray, g: FloatArray) -> FloatArray:
    """Return ``H^-1 g`` by Cholesky, or by LU where that fails."""
    _, solution, failed = dposv(H.T, g, lower=0)
    return np.asarray(np.linalg.solve(H, g) if failed else solution, dtype=np.float64)


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
    found = np.ones(len(W), dtype=bool)
    found[open_] = False
    return reached, value, found


def _cross_entropy(targets: FloatArray, scores: FloatArray) -> FloatArray:
    top = scores.max(axis=-1, keepdims=True)
    log_sum = top[..., 0] + np.log(np.exp(scores - top).sum(axis=-1))
    loss: FloatArray = log_sum * targets.sum(axis=-1) - (targets * scores).sum(axis=-1)
    return loss
