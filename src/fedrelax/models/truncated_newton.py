"""Newton's method for softmax regression with many classes, without forming the whole Hessian."""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax, softmax

from fedrelax.models.newton import HALVINGS, STEPS
from fedrelax.typing import FloatArray

MANY_CLASSES, MOST_FEATURES = 50, 100
"""With so many classes or more, and so few features or fewer, this replaces a Hessian that is too large."""
INNER = 200


def softmax_truncated_newton(
    X: FloatArray, target: FloatArray, weight: FloatArray, penalty: FloatArray, start: FloatArray
) -> FloatArray:
    """Minimise ``-sum_r weight_r sum_c t_rc log softmax(x_r W)_c + sum_f penalty_f |W_f|^2``.

    Steps come from conjugate gradients on Hessian-vector products, preconditioned by the diagonal
    block of each class: among many classes, the couplings ``-p_a p_b`` between two are weak.
    """
    d = len(start)
    total = weight * target.sum(axis=1)
    pulled = weight[:, None] * target

    def value(W: FloatArray) -> float:
        fit = (pulled * log_softmax(X @ W, axis=1)).sum()
        return float((penalty[:, None] * W * W).sum() - fit)

    W, now = start, value(start)
    for _ in range(STEPS):
        p = softmax(X @ W, axis=1)
        gradient = X.T @ (total[:, None] * p - pulled) + 2.0 * penalty[:, None] * W
        curvature = (total[:, None] * p * (1.0 - p)).T
        blocks = (X.T * curvature[:, None, :]) @ X
        blocks[:, np.arange(d), np.arange(d)] += 2.0 * penalty
        traces = np.trace(blocks, axis1=1, axis2=2)
        blocks[:, np.arange(d), np.arange(d)] += 1e-10 * np.maximum(1.0, traces / d)[:, None]
        step = _conjugate_gradients(
            X, total[:, None] * p, p, penalty, np.linalg.inv(blocks), -gradient
        )
        slope, size = float((gradient * step).sum()), 1.0
        if -slope <= 1e-12 * max(1.0, abs(now)):
            return W + step
        for _ in range(HALVINGS):
            trial = W + size * step
            after = value(trial)
            if after <= now + 1e-4 * size * slope:
                break
            size /= 2
        else:
            break
        W, now = trial, after
    return W


def _conjugate_gradients(
    X: FloatArray,
    scaled: FloatArray,
    p: FloatArray,
    penalty: FloatArray,
    inverses: FloatArray,
    goal: FloatArray,
) -> FloatArray:
    """Return about ``Hessian^-1 goal``; ``inverses`` (classes, d, d) invert its diagonal blocks."""

    def nearly(R: FloatArray) -> FloatArray:
        return np.asarray(np.einsum("kde,ek->dk", inverses, R))

    def curve(V: FloatArray) -> FloatArray:
        moved = X @ V
        moved -= (p * moved).sum(axis=1, keepdims=True)
        return np.asarray(X.T @ (scaled * moved) + 2.0 * penalty[:, None] * V)

    step, rest = np.zeros_like(goal), goal.copy()
    fine = nearly(rest)
    along, size = fine, float((rest * fine).sum())
    enough = min(0.01, size) * size
    for _ in range(INNER):
        bent = curve(along)
        bend = float((along * bent).sum())
        if bend <= 0:
            break
        step = step + size / bend * along
        rest = rest - size / bend * bent
        fine = nearly(rest)
        size, before = float((rest * fine).sum()), size
        if size <= enough:
            break
        along = fine + size / before * along
    return step if step.any() else nearly(goal)
