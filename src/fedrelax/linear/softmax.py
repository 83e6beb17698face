"""The objectives of many softmax nodes at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedrelax.typing import AnyArray, FloatArray


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


def _cross_entropy(targets: FloatArray, scores: FloatArray) -> FloatArray:
    top = scores.max(axis=-1, keepdims=True)
    log_sum = top[..., 0] + np.log(np.exp(scores - top).sum(axis=-1))
    loss: FloatArray = log_sum * targets.sum(axis=-1) - (targets * scores).sum(axis=-1)
    return loss
