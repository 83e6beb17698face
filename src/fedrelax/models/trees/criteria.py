"""Squared error, Gini and entropy: sums over rows, impurities, and the gain of a split.

Sums run in the order in which scikit-learn adds the same numbers, so that they agree to the last
digit wherever a feature has no repeated values.
"""

from __future__ import annotations

import math

from fedrelax.models.trees.compile import compiled
from fedrelax.models.trees.rules import GINI, SQUARED_ERROR
from fedrelax.models.trees.state import TreeRows
from fedrelax.typing import AnyArray, FloatArray

LOG_2 = math.log(2.0)


@compiled
def sum_rows(rows: TreeRows, samples: AnyArray, total: FloatArray) -> tuple[float, float, int]:
    """Add up ``samples`` into ``total``; return weight, weighted squares and number of copies."""
    weight, square, count = 0.0, 0.0, 0
    if total.size == 1:
        only = 0.0
        for i in samples:
            only += rows.pair[2 * i]
            square += rows.square[i]
            weight += rows.pair[2 * i + 1]
        total[0] = only
        return weight, square, samples.size
    for k in range(total.size):
        total[k] = 0.0
    for i in samples:
        for k in range(total.size):
            total[k] += rows.part[i, k]
        square += rows.square[i]
        weight += rows.weight[i]
        count += rows.copies[i]
    return weight, square, count


@compiled
def sum_left(
    rows: TreeRows,
    samples: AnyArray,
    place: int,
    total: FloatArray,
    weight: float,
    left: FloatArray,
) -> float:
    """Add up ``samples[:place]`` into ``left`` from the nearer end; return their weight."""
    if left.size == 1:
        only = 0.0
        if place <= samples.size - place:
            weight = 0.0
            for i in samples[:place]:
                only += rows.pair[2 * i]
                weight += rows.pair[2 * i + 1]
        else:
            only = total[0]
            for p in range(samples.size - 1, place - 1, -1):
                i = samples[p]
                only -= rows.pair[2 * i]
                weight -= rows.pair[2 * i + 1]
        left[0] = only
        return weight
    if place <= samples.size - place:
        for k in range(left.size):
            left[k] = 0.0
        weight = 0.0
        for i in samples[:place]:
            for k in range(left.size):
                left[k] += rows.part[i, k]
            weight += rows.weight[i]
        return weight
    for k in range(left.size):
        left[k] = total[k]
    for p in range(samples.size - 1, place - 1, -1):
        i = samples[p]
        for k in range(left.size):
            left[k] -= rows.part[i, k]
        weight -= rows.weight[i]
    return weight


@compiled
def impurity_of(criterion: int, total: FloatArray, weight: float, square: float) -> float:
    """Return the impurity of rows with these sums."""
    outputs = total.size
    if criterion == SQUARED_ERROR:
        impurity = square / weight
        for k in range(outputs):
            mean = total[k] / weight
            impurity -= mean * mean
        return impurity / outputs
    if criterion == GINI:
        squares = 0.0
        for k in range(outputs):
            squares += total[k] * total[k]
        return 1.0 - squares / (weight * weight)
    entropy = 0.0
    for k in range(outputs):
        share = total[k] / weight
        if share > 0.0:
            entropy -= share * (math.log(share) / LOG_2)
    return entropy


@compiled
def rest_impurity(
    criterion: int, total: FloatArray, left: FloatArray, weight: float, square: float
) -> float:
    """Return the impurity of the rows that are not on the left."""
    outputs = total.size
    if criterion == SQUARED_ERROR:
        impurity = square / weight
        for k in range(outputs):
            mean = (total[k] - left[k]) / weight
            impurity -= mean * mean
        return impurity / outputs
    if criterion == GINI:
        squares = 0.0
        for k in range(outputs):
            right = total[k] - left[k]
            squares += right * right
        return 1.0 - squares / (weight * weight)
    entropy = 0.0
    for k in range(outputs):
        share = (total[k] - left[k]) / weight
        if share > 0.0:
            entropy -= share * (math.log(share) / LOG_2)
    return entropy


@compiled
def gain(
    criterion: int, total: FloatArray, left: FloatArray, weight_left: float, weight_right: float
) -> float:
    """Return a score that rises with the decrease of impurity, without the terms all splits share."""
    if criterion == SQUARED_ERROR:
        on_left, on_right = 0.0, 0.0
        for k in range(total.size):
            right = total[k] - left[k]
            on_left += left[k] * left[k]
            on_right += right * right
        return on_left / weight_left + on_right / weight_right
    return -weight_right * rest_impurity(
        criterion, total, left, weight_right, 0.0
    ) - weight_left * impurity_of(criterion, left, weight_left, 0.0)
