"""The compiled loop: the tree or forest of a node, grown and evaluated in one go, without Python's lock.

A tree is that of scikit-learn to the last digit where no feature has repeated values: features are drawn
by the same generator in the same order, and sums run in the same order. Nodes of full trees have so few
rows that splits tie up to rounding, so nothing less would give the same trees with and without numba.

Everything compiled is in this file, because numba keeps machine code on disk until its file changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba import njit

from fedrelax.models.trees.rules import GINI, SQUARED_ERROR, Rules
from fedrelax.typing import AnyArray, FloatArray

F = TypeVar("F", bound=Callable[..., Any])

LOG_2 = math.log(2.0)
PURE = float(np.finfo(np.float64).eps)
"""Impurity up to which a node counts as pure."""
SAME = np.float32(1e-7)
"""Values of a feature that differ by no more than this are not split."""
MAX_DRAW = 2147483647


compiled: Callable[[F], F] = njit(nogil=True, error_model="numpy", forceinline=True)
"""Compiles a function inline into its callers; a division by zero gives infinity, as in C."""


class Work(NamedTuple):
    """The rows and nodes of the tree that a thread is growing, and its scratch memory."""

    x: AnyArray
    """(features, rows)"""
    nodes: AnyArray
    """As scikit-learn stores them."""
    value: FloatArray
    part: FloatArray
    """Weight times target k, or the weight of class k; in the last column the row's weight."""
    square: FloatArray
    """Weight times squared target, summed over targets."""
    copies: AnyArray
    """Number of labelled copies that the row stands for."""
    orders: AnyArray
    """The tree's rows sorted by each feature; those of a node are adjacent."""
    samples: AnyArray
    spare: AnyArray
    goes_left: AnyArray
    features: AnyArray
    constants: AnyArray
    state: AnyArray
    stack: AnyArray
    """Nodes to come: start, end, depth, parent, whether it is a right child, constant features."""
    impurity: FloatArray
    """Of the nodes on the stack."""
    total: FloatArray
    left: FloatArray
    right: FloatArray
    """Sums of ``part`` over a node's rows and over those on each side of a split."""


# Sums, impurities and gains


@compiled
def add_rows(part: FloatArray, rows: AnyArray, sign: float, sums: FloatArray) -> None:
    """Add the parts of rows, times ``sign``, to ``sums``."""
    for i in rows:
        for k in range(sums.size):
            sums[k] += sign * part[i, k]


@compiled
def sum_sides(w: Work, samples: AnyArray, place: int) -> None:
    """Add up ``samples[:place]`` from the nearer end, and what remains of the total on the right."""
    if place <= samples.size - place:
        w.left[:] = 0.0
        add_rows(w.part, samples[:place], 1.0, w.left)
    else:
        w.left[:] = w.total
        add_rows(w.part, samples[place:][::-1], -1.0, w.left)
    subtract(w)


@compiled
def subtract(w: Work) -> None:
    """Set the sums on the right to what the left leaves of the total."""
    for k in range(w.total.size):
        w.right[k] = w.total[k] - w.left[k]


@compiled
def impurity_of(criterion: int, sums: FloatArray, square: float) -> float:
    """Return the impurity of rows with these sums."""
    outputs, weight = sums.size - 1, float(sums[-1])
    if criterion == SQUARED_ERROR:
        impurity = square / weight
        for k in range(outputs):
            mean = float(sums[k]) / weight
            impurity -= mean * mean
        return impurity / outputs
    if criterion == GINI:
        squares = 0.0
        for k in range(outputs):
            squares += float(sums[k] * sums[k])
        return 1.0 - squares / (weight * weight)
    entropy = 0.0
    for k in range(outputs):
        share = float(sums[k]) / weight
        if share > 0.0:
            entropy -= share * (math.log(share) / LOG_2)
    return entropy


@compiled
def gain_of(criterion: int, w: Work) -> float:
    """Return what rises with the decrease of impurity, without the terms that all splits share."""
    left, right, on_left, on_right = w.left, w.right, 0.0, 0.0
    weight_left, weight_right = float(left[-1]), float(right[-1])
    if criterion == SQUARED_ERROR:
        for k in range(left.size - 1):
            on_left += float(left[k] * left[k])
            on_right += float(right[k] * right[k])
        return on_left / weight_left + on_right / weight_right
    on_left, on_right = impurity_of(criterion, left, 0.0), impurity_of(criterion, right, 0.0)
    return -weight_right * on_right - weight_left * on_left


# The split of a node


@compiled
def draw(state: AnyArray) -> int:
    """Return the next number of scikit-learn's xorshift: 0 to 2^31 - 1."""
    s = state[0] if state[0] != 0 else 1
    s ^= (s << 13) & 0xFFFFFFFF
    s ^= s >> 17
    s ^= (s << 5) & 0xFFFFFFFF
    state[0] = s
    return s & MAX_DRAW


@compiled
def part_by_threshold(x: AnyArray, samples: AnyArray, threshold: float) -> None:
    """Move the rows at or below the threshold to the front, by the swaps of scikit-learn."""
    low, high = 0, samples.size
    while low < high:
        if x[samples[low]] <= threshold:
            low += 1
        else:
            high -= 1
            samples[low], samples[high] = samples[high], samples[low]


@compiled
def part_order(w: Work, order: AnyArray) -> None:
    """Move the rows that go left to the front and keep the order on both sides.

    Counters are unsigned, because numba checks every signed index for counting from the end; there is no
    branch on the side of a row.
    """
    low, size, spare = np.uint64(0), np.uint64(order.size), w.spare
    for p in range(size):
        i = order[p]
        order[low] = i
        spare[p - low] = i
        low += np.uint64(w.goes_left[i])
    for p in range(size - low):
        order[low + p] = spare[p]


@compiled
def best_place(
    rules: Rules, w: Work, x: AnyArray, order: AnyArray, count: int, best: float
) -> tuple[float, int]:
    """Return gain and place of the best split of sorted rows; ``best`` and 0 if none gains more."""
    place, places, count_left, least = 0, order.size - 1, 0, rules.min_samples_leaf
    w.left[:] = 0.0
    for p in range(places):
        i = order[p]
        for k in range(w.left.size):
            w.left[k] += w.part[i, k]
        count_left += w.copies[i]
        if x[order[p + 1]] <= x[i] + SAME or count_left < least:
            continue
        if count - count_left < least:
            break
        subtract(w)
        gain = gain_of(rules.criterion, w)
        if gain > best:
            best, place = gain, p + 1
    return best, place


@compiled
def find_split(
    rules: Rules, w: Work, start: int, end: int, count: int, known: int
) -> tuple[int, int, float, int]:
    """Part the samples by the best split; return feature (or -1), place, threshold, constant features.

    Features are drawn, and constant ones set aside, in the same order as in scikit-learn. Among splits
    of equal gain the first feature drawn wins, and then the lowest threshold.
    """
    features, samples = w.features, w.samples[start:end]
    unseen, visited, found_constant, drawn_constant, constant = features.size, 0, 0, 0, known
    best, best_feature, best_at, best_threshold = -np.inf, -1, 0, 0.0
    order = samples
    while unseen > constant and (
        visited < rules.max_features or visited <= found_constant + drawn_constant
    ):
        visited += 1
        j = drawn_constant + draw(w.state) % (unseen - found_constant - drawn_constant)
        if j < known:
            features[drawn_constant], features[j] = features[j], features[drawn_constant]
            drawn_constant += 1
            continue
        j += found_constant
        feature = features[j]
        x = w.x[feature]
        order = w.orders[feature][start:end]
        if x[order[-1]] <= x[order[0]] + SAME:
            features[j] = features[constant]
            features[constant] = feature
            found_constant += 1
            constant += 1
            continue
        unseen -= 1
        features[j] = features[unseen]
        features[unseen] = feature
        gain, place = best_place(rules, w, x, order, count, best)
        if gain > best:
            best, best_feature, best_at = gain, int(np.int64(feature)), place
            best_threshold = x[order[place - 1]] / 2.0 + x[order[place]] / 2.0
    for j in range(known):
        features[j] = w.constants[j]
    for j in range(known, constant):
        w.constants[j] = features[j]
    if best_feature >= 0:
        samples[:] = order
        part_by_threshold(w.x[best_feature], samples, best_threshold)
    return best_feature, best_at, best_threshold, constant


# One tree


@compiled
def push(
    w: Work, top: int, start: int, end: int, depth: int, parent: int, right: int, constant: int
) -> None:
    """Note a node to come, whose impurity is known already."""
    w.stack[top, 0], w.stack[top, 1], w.stack[top, 2] = start, end, depth
    w.stack[top, 3], w.stack[top, 4], w.stack[top, 5] = parent, right, constant


@compiled
def grow(rules: Rules, w: Work, size: int) -> tuple[int, int]:
    """Grow a tree on the first ``size`` samples, depth first; return the number of nodes and the depth."""
    for feature in range(w.features.size):
        w.features[feature] = feature
    top, node, deepest = 1, 0, 0
    push(w, 0, 0, size, 0, -1, 0, 0)
    while top > 0:
        top -= 1
        deepest = max(deepest, w.stack[top, 2])
        if add_node(rules, w, top, node):
            top += 2
        else:
            leaf = w.nodes[node]
            leaf.left_child, leaf.right_child, leaf.feature, leaf.threshold = -1, -1, -2, -2.0
        node += 1
    return node, deepest


@compiled
def add_node(rules: Rules, w: Work, top: int, node: int) -> bool:
    """Write the node at this place of the stack; if it can be split, put its children there."""
    start, end, depth = w.stack[top, 0], w.stack[top, 1], w.stack[top, 2]
    parent, known = w.stack[top, 3], w.stack[top, 5]
    samples, total, square = w.samples[start:end], w.total, 0.0
    total[:] = 0.0
    add_rows(w.part, samples, 1.0, total)
    if rules.criterion == SQUARED_ERROR:
        for i in samples:
            square += w.square[i]
    if parent < 0:
        w.impurity[top] = impurity_of(rules.criterion, total, square)
    elif w.stack[top, 4]:
        w.nodes[parent].right_child = node
    else:
        w.nodes[parent].left_child = node
    weight, count, impurity = total[-1], w.copies[samples].sum(), w.impurity[top]
    for k in range(total.size - 1):
        w.value[node, k] = total[k] / weight
    new = w.nodes[node]
    new.n_node_samples, new.weighted_n_node_samples, new.impurity = count, weight, impurity
    if depth >= rules.max_depth or count < rules.min_samples_split or impurity <= PURE:
        return False
    feature, at, threshold, constant = find_split(rules, w, start, end, count, known)
    if feature < 0:
        return False
    sum_sides(w, samples, at)
    square_left = 0.0
    if rules.criterion == SQUARED_ERROR:
        for i in samples[:at]:
            square_left += w.square[i]
    on_left = impurity_of(rules.criterion, w.left, square_left)
    on_right = impurity_of(rules.criterion, w.right, square - square_left)
    improvement = (weight / w.nodes[0].weighted_n_node_samples) * (
        impurity - (w.right[-1] / weight * on_right) - (w.left[-1] / weight * on_left)
    )
    if improvement + PURE < 0.0:
        return False
    new.feature, new.threshold = feature, threshold
    push(w, top, start + at, end, depth + 1, node, 1, constant)
    push(w, top + 1, start, start + at, depth + 1, node, 0, constant)
    w.impurity[top], w.impurity[top + 1] = on_right, on_left
    if depth + 1 < rules.max_depth:
        for p in range(samples.size):
            w.goes_left[samples[p]] = p < at
        for j in range(constant, w.features.size):
            other = w.features[j]
            if other != feature:
                part_order(w, w.orders[other][start:end])
    return True


# All trees of a node


@compiled
def weigh(w: Work, criterion: int, i: int, target: FloatArray, weight: AnyArray) -> None:
    """Write what the criterion needs of row ``i``.

    ``weight`` has one entry in regression, and one for each class in classification.
    """
    total, square, copies = 0.0, 0.0, 0
    for k in range(weight.size):
        total += weight[k]
        copies += weight[k] > 0
    for k in range(target.size):
        if criterion == SQUARED_ERROR:
            w.part[i, k] = total * target[k]
            square += w.part[i, k] * target[k]
        else:
            w.part[i, k] = weight[k]
    w.part[i, target.size] = total
    w.square[i], w.copies[i] = square, copies


@compiled
def start_tree(w: Work, base: AnyArray) -> int:
    """Set samples and orders to the rows of positive weight in this tree; return how many."""
    size = 0
    for i in range(w.samples.size):
        w.samples[size] = i
        size += w.copies[i] > 0
    for feature in range(base.shape[0]):
        order, place = w.orders[feature], 0
        for i in base[feature]:
            order[place] = i
            place += w.copies[i] > 0
    return size


@compiled
def answer(w: Work, out: FloatArray) -> None:
    """Add a tree's predictions for all rows."""
    for i in range(out.shape[0]):
        node = 0
        while w.nodes[node].left_child >= 0:
            at = w.nodes[node]
            node = at.right_child if w.x[at.feature, i] > at.threshold else at.left_child
        for k in range(out.shape[1]):
            out[i, k] += w.value[node, k]


@njit(nogil=True, error_model="numpy", cache=True)  # type: ignore[untyped-decorator]
def grow_forest(
    rules: Rules,
    x: AnyArray,
    base: AnyArray,
    target: FloatArray,
    weight: FloatArray,
    drawn: AnyArray,
    states: AnyArray,
    answers: FloatArray,
    nodes: AnyArray,
    value: FloatArray,
) -> tuple[int, int]:
    """Grow trees and write the mean of their answers for all rows; rows of weight 0 are only predicted.

    ``base`` has the rows sorted by each feature, ``drawn`` how often each row, or each of its copies, is
    drawn for each tree. ``nodes`` and ``value`` take the last tree, whose number of nodes and depth are
    returned.
    """
    (features, rows), outputs, count, depth = x.shape, target.shape[1], 0, 0
    w = Work(
        x=x,
        nodes=nodes,
        value=value,
        part=np.empty((rows, outputs + 1)),
        square=np.empty(rows),
        copies=np.empty(rows, np.int64),
        orders=np.empty((features, rows), np.uint32),
        samples=np.empty(rows, np.uint32),
        spare=np.empty(rows, np.uint32),
        goes_left=np.empty(rows, np.uint8),
        features=np.empty(features, np.uint32),
        constants=np.empty(features, np.uint32),
        state=np.empty(1, np.int64),
        stack=np.empty((rows + 1, 6), np.int64),
        impurity=np.empty(rows + 1),
        total=np.empty(outputs + 1),
        left=np.empty(outputs + 1),
        right=np.empty(outputs + 1),
    )
    if not rules.bootstrap:
        for i in range(rows):
            weigh(w, rules.criterion, i, target[i], weight[i])
    answers[:] = 0.0
    for tree in range(len(states)):
        w.state[0] = states[tree]
        if rules.bootstrap:
            for i in range(rows):
                weigh(w, rules.criterion, i, target[i], drawn[tree, i])
        count, depth = grow(rules, w, start_tree(w, base))
        answer(w, answers)
    if len(states) > 1:
        answers /= len(states)
    return count, depth
