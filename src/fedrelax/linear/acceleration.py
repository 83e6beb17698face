"""Anderson acceleration."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedrelax.typing import FloatArray

Step = tuple[FloatArray, FloatArray]
"""An input x of the iteration and its image g(x)."""

DEPTH = 5
GROWTH = 2.0
"""A residual that grows by more than this factor begins anew from the last image."""


def accelerated(steps: Sequence[Step]) -> tuple[FloatArray, list[Step]]:
    """Return the next input after the given steps, and the steps that are worth keeping.

    It is the combination of the last images whose residuals g(x) - x cancel best, in least squares.

    >>> steps, x = [], np.array([8.0, 8.0])
    >>> for _ in range(4):
    ...     steps.append((x, np.array([0.9, 0.5]) * x + 1.0))
    ...     x, steps = accelerated(steps)
    >>> x.round(6).tolist()
    [10.0, 2.0]
    """
    last = list(steps[-DEPTH - 1 :])
    images = np.array([image for _, image in last])
    residuals = np.array([image - x for x, image in last]).reshape(len(last), -1)
    size = np.linalg.norm(residuals, axis=1)
    if len(last) > 1 and size[-1] > GROWTH * size[-2]:
        return images[-1], last[-1:]
    moves = np.diff(residuals, axis=0)
    share = np.linalg.lstsq(moves.T, residuals[-1], rcond=1e-12)[0]
    return images[-1] - np.tensordot(share, np.diff(images, axis=0), axes=1), last
