"""Level and shape: what a node takes from an answer when it keeps a share of its own level.

The difference of two nodes on the public rows has a mean s and a variance v. With a level share l, node i
is pulled by ``d_l(i, j) = l s^2 + v`` instead of ``s^2 + v``: it learns the shape from its neighbours and
keeps ``1 - l`` of its own level. For any model this amounts to shifting the targets to

    h_j(x) + (1 - l) (mean h_i - mean h_j),

with the node's last answers: ``(s - (1 - l) s_last)^2 = l s^2 + (1 - l)(s - s_last)^2 + const``, so a
round is a proximal step on d_l and the fixed point is the same. For classes, the level is the prior: the
target probabilities are proportional to ``p_j(c|x) (pi_i(c) / pi_j(c))^(1 - l)``, where pi are the mean
probabilities on the public rows.
"""

from __future__ import annotations

import numpy as np

from fedrelax.typing import FloatArray

SMALLEST = 1e-12
"""Priors are clipped from below at this value."""


def levelled(answer: FloatArray, own: FloatArray, level: float, classes: bool) -> FloatArray:
    """Return an answer (..., rows, outputs) with ``1 - level`` of its level replaced by the node's own.

    >>> levelled(np.array([[1.0], [3.0]]), np.array([[10.0], [10.0]]), 0.0, False).tolist()
    [[9.0], [11.0]]
    """
    if level == 1.0:
        return answer
    theirs, mine = answer.mean(axis=-2, keepdims=True), own.mean(axis=-2, keepdims=True)
    if not classes:
        return np.asarray(answer + (1.0 - level) * (mine - theirs))
    odds = np.maximum(mine, SMALLEST) / np.maximum(theirs, SMALLEST)
    moved = answer * odds ** (1.0 - level)
    return np.asarray(moved / moved.sum(axis=-1, keepdims=True))


def level_gap(answer: FloatArray, own: FloatArray, level: float) -> FloatArray:
    """Return ``(1 - l) s^2``, by which d_l is below the squared discrepancy, summed over outputs."""
    gap = own.mean(axis=-2) - answer.mean(axis=-2)
    return np.asarray((1.0 - level) * np.square(gap).sum(axis=-1))
