"""Nodes of two or three rows: half of all splits of a full tree, and they need no presorted columns.

However a feature orders so few rows, every split leaves one of them alone on the left or alone on the
right, and the sum of two does not depend on their order. So at most six gains are computed, once.
"""

from __future__ import annotations

import numpy as np

from fedrelax.models.trees.compile import compiled
from fedrelax.models.trees.state import Limits, Room, TreeRows
from fedrelax.typing import AnyArray

FEW = 3
SAME = np.float32(1e-7)
"""Values of a feature that differ by no more than this are not split."""


@compiled
def gains_of_few(
    rows: TreeRows, room: Room, limits: Limits, start: int, end: int, known: int, weight: float
) -> None:
    """Sort two or three rows by every feature and write the gain and place of its best split."""
    samples, alone, total = room.samples[start:end], room.alone, room.total[0]
    size = samples.size
    _sort(samples)
    for one in range(size):
        i = samples[one]
        alone[0, one] = _gain(rows.pair[2 * i], rows.pair[2 * i + 1], limits, total, weight)
    for one in range(size if size == FEW else 0):
        i, j = samples[(one + 1) % FEW], samples[(one + 2) % FEW]
        part = rows.pair[2 * i] + rows.pair[2 * j]
        part_weight = rows.pair[2 * i + 1] + rows.pair[2 * j + 1]
        alone[1, one] = _gain(part, part_weight, limits, total, weight)
    for j in range(known, room.features.size):
        feature = room.features[j]
        x, order = rows.x[feature], room.orders[feature][start:end]
        if size < FEW:
            first = 1 if x[samples[1]] < x[samples[0]] else 0
            order[0], order[1] = samples[first], samples[1 - first]
            room.gain[feature] = alone[0, first]
            room.place[feature] = 1 if x[order[1]] > x[order[0]] + SAME else 0
            continue
        first, last = _ends(x, samples)
        middle = FEW - first - last
        order[0], order[1], order[2] = samples[first], samples[middle], samples[last]
        left = alone[0, first] if x[order[1]] > x[order[0]] + SAME else -np.inf
        right = alone[1, last] if x[order[2]] > x[order[1]] + SAME else -np.inf
        room.gain[feature] = max(left, right)
        splits = x[order[2]] > x[order[0]] + SAME
        room.place[feature] = (2 if right > left else 1) if splits else 0


@compiled
def _sort(samples: AnyArray) -> None:
    """Sort two or three row numbers."""
    if samples[0] > samples[1]:
        samples[0], samples[1] = samples[1], samples[0]
    if samples.size == FEW and samples[1] > samples[2]:
        samples[1], samples[2] = samples[2], samples[1]
        if samples[0] > samples[1]:
            samples[0], samples[1] = samples[1], samples[0]


@compiled
def _gain(left: float, weight_left: float, limits: Limits, total: float, weight: float) -> float:
    right, weight_right = total - left, weight - weight_left
    if weight_left < limits.min_weight or weight_right < limits.min_weight:
        return -np.inf
    return left * left / weight_left + right * right / weight_right


@compiled
def _ends(x: AnyArray, samples: AnyArray) -> tuple[int, int]:
    """Return which of three samples sorts first and which last; equal ones keep their order."""
    a, b, c = x[samples[0]], x[samples[1]], x[samples[2]]
    before_a = (1 if b < a else 0) + (1 if c < a else 0)
    before_b = (0 if b < a else 1) + (1 if c < b else 0)
    first = 2 - (2 if before_a == 0 else 0) - (1 if before_b == 0 else 0)
    last = 2 - (2 if before_a == 2 else 0) - (1 if before_b == 2 else 0)
    return first, last
