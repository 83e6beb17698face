"""The search for a node's split: all thresholds of the drawn features, or one random threshold each.

Features are drawn, and constant ones set aside, in the same order as in scikit-learn. Among splits
of equal gain the first feature drawn wins, and then the lowest threshold.
"""

from __future__ import annotations

import numpy as np

from fedrelax.models.trees.compile import compiled
from fedrelax.models.trees.criteria import gain, sum_left
from fedrelax.models.trees.draws import MAX_DRAW, draw
from fedrelax.models.trees.few import SAME
from fedrelax.models.trees.gains import at_once, gains_of_features
from fedrelax.models.trees.parting import part_by_threshold
from fedrelax.models.trees.rules import Rules
from fedrelax.models.trees.state import Limits, Room, TreeRows
from fedrelax.typing import AnyArray, FloatArray


@compiled
def best_place(
    criterion: int,
    rows: TreeRows,
    x: AnyArray,
    order: AnyArray,
    limits: Limits,
    count: int,
    total: FloatArray,
    left: FloatArray,
    weight: float,
    best: float,
) -> tuple[float, int]:
    """Return gain and place of the best split of sorted rows; ``best`` and 0 if none gains more."""
    place = 0
    for k in range(left.size):
        left[k] = 0.0
    weight_left, count_left = 0.0, 0
    for p in range(order.size - 1):
        i = order[p]
        for k in range(left.size):
            left[k] += rows.part[i, k]
        weight_left += rows.weight[i]
        count_left += rows.copies[i]
        if x[order[p + 1]] <= x[i] + SAME or count_left < limits.min_leaf:
            continue
        if count - count_left < limits.min_leaf:
            break
        weight_right = weight - weight_left
        if weight_left < limits.min_weight or weight_right < limits.min_weight:
            continue
        found = gain(criterion, total, left, weight_left, weight_right)
        if found > best:
            best = found
            place = p + 1
    return best, place


@compiled
def random_place(
    rules: Rules,
    rows: TreeRows,
    room: Room,
    x: AnyArray,
    samples: AnyArray,
    limits: Limits,
    count: int,
    low: float,
    high: float,
    weight: float,
) -> tuple[float, float, int]:
    """Draw a threshold between ``low`` and ``high``; return its gain, its value and its place."""
    lowest, highest = np.float64(low), np.float64(high)
    threshold = (highest - lowest) * draw(room.state) / MAX_DRAW + lowest
    if threshold == highest:
        threshold = lowest
    place = part_by_threshold(x, samples, threshold, room.spare)
    count_left = place
    if room.total.size > 1:
        count_left = 0
        for i in samples[:place]:
            count_left += rows.copies[i]
    if count_left < limits.min_leaf or count - count_left < limits.min_leaf:
        return -np.inf, threshold, place
    weight_left = sum_left(rows, samples, place, room.total, weight, room.left)
    weight_right = weight - weight_left
    if weight_left < limits.min_weight or weight_right < limits.min_weight:
        return -np.inf, threshold, place
    return (
        gain(rules.criterion, room.total, room.left, weight_left, weight_right),
        threshold,
        place,
    )


@compiled
def bounds(
    rules: Rules, room: Room, x: AnyArray, feature: int, start: int, end: int
) -> tuple[float, float]:
    """Return the smallest and the largest value of a feature in a node's rows."""
    if not rules.random_splits:
        order = room.orders[feature]
        return x[order[start]], x[order[end - 1]]
    samples = room.samples[start:end]
    low = x[samples[0]]
    high = low
    for i in samples:
        low = min(low, x[i])
        high = max(high, x[i])
    return low, high


@compiled
def find_split(
    rules: Rules,
    rows: TreeRows,
    room: Room,
    limits: Limits,
    start: int,
    end: int,
    count: int,
    weight: float,
    known: int,
) -> tuple[int, int, float, int, int]:
    """Return feature (or -1), place and threshold of the split, the last feature drawn, and the
    number of constant features."""
    features = room.features
    samples = room.samples[start:end]
    unseen = features.size
    visited, found_constant, drawn_constant, constant = 0, 0, 0, known
    best, best_feature, best_at, best_threshold, last = -np.inf, -1, 0, 0.0, -1
    ready = at_once(rules, room)
    if ready:
        gains_of_features(rows, room, limits, start, end, known, weight)
    while unseen > constant and (
        visited < rules.max_features or visited <= found_constant + drawn_constant
    ):
        visited += 1
        j = drawn_constant + draw(room.state) % (unseen - found_constant - drawn_constant)
        if j < known:
            features[drawn_constant], features[j] = features[j], features[drawn_constant]
            drawn_constant += 1
            continue
        j += found_constant
        feature = features[j]
        last = int(np.int64(feature))
        x = rows.x[feature]
        low, high = x[0], x[0]
        if ready:
            is_constant = room.place[feature] == 0
        else:
            low, high = bounds(rules, room, x, feature, start, end)
            is_constant = high <= low + SAME
        if is_constant:
            features[j] = features[constant]
            features[constant] = feature
            found_constant += 1
            constant += 1
            continue
        unseen -= 1
        features[j] = features[unseen]
        features[unseen] = feature
        threshold = 0.0
        if ready:
            found, place = room.gain[feature], room.place[feature]
        elif rules.random_splits:
            found, threshold, place = random_place(
                rules, rows, room, x, samples, limits, count, low, high, weight
            )
        else:
            order = room.orders[feature][start:end]
            found, place = best_place(
                rules.criterion, rows, x, order, limits, count, room.total, room.left, weight, best
            )
        if found > best:
            best, best_feature, best_at, best_threshold = found, last, place, threshold
    if best_feature >= 0 and not rules.random_splits:
        x, order = rows.x[best_feature], room.orders[best_feature][start:end]
        best_threshold = x[order[best_at - 1]] / 2.0 + x[order[best_at]] / 2.0
    for j in range(known):
        features[j] = room.constants[j]
    for j in range(known, constant):
        room.constants[j] = features[j]
    return best_feature, start + best_at, best_threshold, last, constant
