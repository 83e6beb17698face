"""The search for a node's split: all thresholds of the drawn features, or one random one each.

Features are drawn, and features found constant are kept apart, in the order of scikit-learn's
own draw. Of splits with equal gain the first one drawn wins, and then the lowest threshold.
"""

from __future__ import annotations

import numpy as np

from fedrelax.models.trees.compile import compiled
from fedrelax.models.trees.criteria import gain, sum_left
from fedrelax.models.trees.draws import MAX_DRAW, draw
from fedrelax.models.trees.rules import SQUARED_ERROR, Rules
from fedrelax.models.trees.state import Limits, Room, TreeRows
from fedrelax.typing import AnyArray, FloatArray

SAME = np.float32(1e-7)
"""Values of a feature that differ by no more are not split."""
NEARLY = 1.0 - 1e-9


@compiled
def best_place_of_one(
    rows: TreeRows,
    x: AnyArray,
    order: AnyArray,
    limits: Limits,
    total: float,
    weight: float,
    best: float,
) -> tuple[float, int]:
    """Return gain and place of the best split by squared error of one output, if above ``best``.

    A division takes longer than all else here, so gains are compared without one first.
    """
    place = -1
    left, weight_left = 0.0, 0.0
    last = order.size - limits.min_leaf
    here = x[order[0]]
    for p in range(order.size - 1):
        i = order[p]
        left += rows.part[i, 0]
        weight_left += rows.weight[i]
        value = here
        here = x[order[p + 1]]
        if here <= value + SAME:
            continue
        if p + 1 < limits.min_leaf:
            continue
        if p + 1 > last:
            break
        weight_right = weight - weight_left
        if weight_left < limits.min_weight or weight_right < limits.min_weight:
            continue
        right = total - left
        squared, squared_right = left * left, right * right
        if (
            squared * weight_right + squared_right * weight_left
            < best * (weight_left * weight_right) * NEARLY
        ):
            continue
        found = squared / weight_left + squared_right / weight_right
        if found > best:
            best = found
            place = p + 1
    return best, place


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
    """Return gain and place of the best split of sorted rows, if above ``best``."""
    place = -1
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
def part_by_threshold(x: AnyArray, samples: AnyArray, threshold: float) -> int:
    """Bring the rows up to the threshold to the front, by swaps; return how many they are."""
    low, high = 0, samples.size
    while low < high:
        i = samples[low]
        if x[i] <= threshold:
            low += 1
        else:
            high -= 1
            samples[low] = samples[high]
            samples[high] = i
    return high


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
    """Draw a threshold between ``low`` and ``high``; return its gain, itself and its place."""
    threshold = (high - low) * draw(room.state) / MAX_DRAW + low
    if threshold == high:
        threshold = low
    place = part_by_threshold(x, samples, threshold)
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
    """Return feature (or -1), place and threshold of the split, the feature that ordered last, and
    the number of constant features."""
    features = room.features
    samples = room.samples[start:end]
    unseen = features.size
    visited, found_constant, drawn_constant, constant = 0, 0, 0, known
    best, best_feature, best_position, best_threshold, last = -np.inf, -1, end, 0.0, -1
    simple = rules.criterion == SQUARED_ERROR and room.total.size == 1
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
        last = feature
        x = rows.x[feature]
        order = room.orders[feature][start:end]
        if rules.random_splits:
            low = x[samples[0]]
            high = low
            for i in samples:
                low = min(low, x[i])
                high = max(high, x[i])
        else:
            low, high = x[order[0]], x[order[order.size - 1]]
        if high <= low + SAME:
            features[j] = features[constant]
            features[constant] = feature
            found_constant += 1
            constant += 1
            continue
        unseen -= 1
        features[j] = features[unseen]
        features[unseen] = feature
        if rules.random_splits:
            found, threshold, place = random_place(
                rules,
                rows,
                room,
                x,
                samples,
                limits,
                count,
                np.float64(low),
                np.float64(high),
                weight,
            )
            if found > best:
                best, best_feature, best_position = found, feature, start + place
                best_threshold = threshold
            continue
        if simple:
            best, place = best_place_of_one(rows, x, order, limits, room.total[0], weight, best)
        else:
            best, place = best_place(
                rules.criterion, rows, x, order, limits, count, room.total, room.left, weight, best
            )
        if place >= 0:
            best_feature, best_position = feature, start + place
            best_threshold = x[order[place - 1]] / 2.0 + x[order[place]] / 2.0
    for j in range(known):
        features[j] = room.constants[j]
    for j in range(known, constant):
        room.constants[j] = features[j]
    return best_feature, best_position, best_threshold, last, constant
