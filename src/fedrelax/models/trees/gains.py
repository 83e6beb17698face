"""The best split by each feature, for squared error of one output: all features in one go.

First the running sums of all features, then the gains of all splits, several at a time since none
is skipped, then the best of each feature. Among equal ones the lowest threshold wins.
"""

from __future__ import annotations

import numpy as np

from fedrelax.models.trees.compile import compiled
from fedrelax.models.trees.few import FEW, SAME, gains_of_few
from fedrelax.models.trees.rules import SQUARED_ERROR, Rules
from fedrelax.models.trees.state import AT_ONCE, Limits, Room, TreeRows


@compiled
def at_once(rules: Rules, room: Room) -> bool:
    """Whether every split of every feature is tried, by squared error of one output."""
    return (
        rules.criterion == SQUARED_ERROR
        and room.total.size == 1
        and rules.max_features == room.features.size
        and not rules.random_splits
    )


@compiled
def gains_of_features(
    rows: TreeRows, room: Room, limits: Limits, start: int, end: int, known: int, weight: float
) -> None:
    """Write gain and place of the best split by each feature not known to be constant."""
    if end - start <= FEW:
        gains_of_few(rows, room, limits, start, end, known, weight)
        return
    places = end - start - 1
    step = max(1, AT_ONCE // places)
    for first in range(known, room.features.size, step):
        last = min(first + step, room.features.size)
        for j in range(first, last):
            _add_up(rows, room, room.features[j], start, end, (j - first) * places)
        _judge(room, limits, (last - first) * places, weight)
        for j in range(first, last):
            feature, gain, begin = room.features[j], -np.inf, (j - first) * places
            x, order = rows.x[feature], room.orders[feature]
            place = 1 if x[order[end - 1]] > x[order[start]] + SAME else 0
            for p in range(limits.min_leaf - 1, places - limits.min_leaf + 1):
                here = room.gains[begin + p]
                place = p + 1 if here > gain else place
                gain = here if here > gain else gain
            room.gain[feature], room.place[feature] = gain, place


@compiled
def _add_up(rows: TreeRows, room: Room, feature: int, start: int, end: int, begin: int) -> None:
    """Write the sums left of every place between two rows; the weight is NaN where no split is possible."""
    x, order = rows.x[feature], room.orders[feature][start:end]
    sums, weights = room.sums[begin:], room.weights[begin:]
    left, weight_left = 0.0, 0.0
    here = x[order[0]]
    for p in range(order.size - 1):
        i = order[p]
        left += rows.pair[2 * i]
        weight_left += rows.pair[2 * i + 1]
        value = here
        here = x[order[p + 1]]
        sums[p] = left
        weights[p] = weight_left if here > value + SAME else np.nan


@compiled
def _judge(room: Room, limits: Limits, places: int, weight: float) -> None:
    """Write the gains of the first ``places`` splits."""
    total = room.total[0]
    for p in range(places):
        left, weight_left = room.sums[p], room.weights[p]
        right, weight_right = total - left, weight - weight_left
        gain = left * left / weight_left + right * right / weight_right
        enough = weight_left >= limits.min_weight and weight_right >= limits.min_weight
        room.gains[p] = gain if enough else -np.inf
