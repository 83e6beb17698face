"""Newton's method for softmax regression on soft labels: a handful of steps to machine precision."""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax, softmax

from fedrelax.typing import FloatArray

MOST_WEIGHTS = 600
"""Beyond this many weights the Hessian costs more than it saves."""
STEPS = 100
HALVINGS = 40


def softmax_newton(
    X: FloatArray, target: FloatArray, weight: FloatArray, penalty: FloatArray, start: FloatArray
) -> FloatArray:
    """Minimise -sum_r weight_r sum_c t_rc log softmax(x_r W)_c + sum_f penalty_f |W_f|^2.

    ``W`` has shape (features, classes). Each step solves (Hessian + tiny I) step = -gradient and is
    halved until the objective falls, so it also moves on from the flat directions of softmax.
    """
    d, k = start.shape
    total = weight * target.sum(axis=1)

    def value(W: FloatArray) -> float:
        fit = (weight[:, None] * target * log_softmax(X @ W, axis=1)).sum()
        return float((penalty[:, None] * W * W).sum() - fit)

    W, now = start, value(start)
    for _ in range(STEPS):
        p = softmax(X @ W, axis=1)
        pull = total[:, None] * p - weight[:, None] * target
        gradient = X.T @ pull + 2.0 * penalty[:, None] * W
        hessian = np.empty((k, d, k, d))
        for a in range(k):
            for b in range(a, k):
                curvature = total * p[:, a] * ((a == b) - p[:, b])
                hessian[a, :, b] = X.T @ (curvature[:, None] * X)
                hessian[b, :, a] = hessian[a, :, b]
            hessian[a, :, a] += np.diag(2.0 * penalty)
        flat = hessian.reshape(k * d, k * d)
        flat[np.diag_indices(k * d)] += 1e-10 * max(1.0, float(np.trace(flat)) / (k * d))
        step = -np.linalg.solve(flat, gradient.T.ravel()).reshape(k, d).T
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
