"""The RMSprop step rule for gradient rounds."""

from __future__ import annotations

import numpy as np

from fedrelax.typing import AnyArray


class RMSprop:
    """``v <- c v + (1-c) g^2``, ``w <- w - rate g / (sqrt(v) + eps)``, in place, v starting at zero."""

    def __init__(
        self, like: AnyArray, rate: float = 0.01, smoothing: float = 0.99, epsilon: float = 1e-8
    ) -> None:
        self.smoothing = smoothing
        root = (1 - smoothing) ** 0.5
        self._rate, self._epsilon = rate / root, epsilon / (2 * root)
        # v is stored as u = v / (4 (1 - c)), which saves one pass over all numbers.
        self._u, self._work = np.zeros_like(like), np.empty_like(like)

    @property
    def memory(self) -> AnyArray:
        """What the next step depends on besides models and gradients."""
        return self._u

    def __call__(self, W: AnyArray, half: AnyArray) -> None:
        """Move the models by one step; ``half`` is g / 2 and is overwritten."""
        u, work = self._u, self._work
        np.multiply(half, half, out=work)
        u *= self.smoothing
        u += work
        np.sqrt(u, out=work)
        work += self._epsilon
        half /= work
        half *= self._rate
        W -= half
