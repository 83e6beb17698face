"""One tree: node after node, depth first, or best first where the number of leaves is limited."""

from __future__ import annotations

import numpy as np

from fedrelax.models.trees.compile import compiled
from fedrelax.models.trees.criteria import impurity_of, rest_impurity, sum_left, sum_rows
from fedrelax.models.trees.few import FEW
from fedrelax.models.trees.gains import at_once
from fedrelax.models.trees.parting import part_by_threshold, part_order
from fedrelax.models.trees.rules import SQUARED_ERROR, Rules
from fedrelax.models.trees.splits import find_split
from fedrelax.models.trees.state import Limits, Nodes, Room, TreeRows
from fedrelax.typing import AnyArray

PURE = float(np.finfo(np.float64).eps)
"""Impurity up to which a node counts as pure."""


@compiled
def grow(
    rules: Rules, limits: Limits, rows: TreeRows, room: Room, nodes: Nodes, size: int
) -> tuple[int, int]:
    """Grow a tree on the first ``size`` samples; return the number of nodes and the depth."""
    for feature in range(room.features.size):
        room.features[feature] = feature
    best_first = rules.max_leaves > 0
    stack, top, count = room.stack, 1, 0
    waiting, left_to_split, deepest = 0, rules.max_leaves - 1, 0
    stack[0] = -1
    while top > 0 or waiting > 0:
        if top == 0:
            node, waiting = _take_best(room.frontier, waiting, nodes)
            if nodes.span[node, 5] == 1:
                continue
            if left_to_split == 0:
                _close(room, nodes, node)
                continue
            left_to_split -= 1
        else:
            top -= 1
            node = count
            count += 1
            leaf = _add_node(rules, limits, rows, room, nodes, size, node, stack[top])
            deepest = max(deepest, nodes.span[node, 3])
            if best_first:
                room.frontier[waiting] = node
                waiting += 1
                continue
            if leaf:
                continue
        stack[top] = 2 * node + 1
        stack[top + 1] = 2 * node
        top += 2
    return count, deepest


@compiled
def _take_best(frontier: AnyArray, waiting: int, nodes: Nodes) -> tuple[int, int]:
    """Take the node with the best split from the frontier; return it and how many still wait."""
    first = 0
    for place in range(1, waiting):
        if nodes.below[frontier[place], 2] > nodes.below[frontier[first], 2]:
            first = place
    node = frontier[first]
    frontier[first] = frontier[waiting - 1]
    return node, waiting - 1


@compiled
def _close(room: Room, nodes: Nodes, node: int) -> None:
    """Make a node a leaf and record it for its rows."""
    nodes.link[node, 0] = -1
    nodes.link[node, 1] = -1
    nodes.link[node, 2] = -2
    nodes.number[node, 0] = -2.0
    nodes.span[node, 5] = 1
    nodes.below[node, 2] = 0.0
    for i in room.samples[nodes.span[node, 0] : nodes.span[node, 2]]:
        room.leaf[i] = node


@compiled
def _add_node(
    rules: Rules,
    limits: Limits,
    rows: TreeRows,
    room: Room,
    nodes: Nodes,
    size: int,
    node: int,
    place: int,
) -> bool:
    """Write a node and look for its split; return whether it is a leaf.

    ``place`` is twice the parent's number, plus one for its right child; -1 for the root.
    """
    start, end, depth, known, impurity = 0, size, 0, 0, 0.0
    if place >= 0:
        parent, side = place >> 1, place & 1
        nodes.link[parent, side] = node
        if side == 0:
            start, end = nodes.span[parent, 0], nodes.span[parent, 1]
        else:
            start, end = nodes.span[parent, 1], nodes.span[parent, 2]
        depth = nodes.span[parent, 3] + 1
        known = 0 if rules.max_leaves > 0 else nodes.span[parent, 4]
        impurity = nodes.below[parent, side]
    samples, total = room.samples[start:end], room.total
    weight, square, count = sum_rows(rows, samples, total)
    if place < 0:
        impurity = impurity_of(rules.criterion, total, weight, square)
    for k in range(total.size):
        nodes.value[node, k] = total[k] / weight
    nodes.link[node, 3] = count
    nodes.number[node, 1] = impurity
    nodes.number[node, 2] = weight
    nodes.missing[node] = 0
    nodes.span[node, 0] = start
    nodes.span[node, 2] = end
    nodes.span[node, 3] = depth
    if (
        depth >= rules.max_depth
        or count < limits.min_split
        or count < 2 * limits.min_leaf
        or weight < 2 * limits.min_weight
        or impurity <= PURE
    ):
        _close(room, nodes, node)
        return True
    feature, position, threshold, last, constant = find_split(
        rules, rows, room, limits, start, end, count, weight, known
    )
    if feature < 0:
        _close(room, nodes, node)
        return True
    if not rules.random_splits:
        order = room.orders[last][start:end]
        for p in range(order.size):
            samples[p] = order[p]
    if not rules.random_splits or last != feature:
        part_by_threshold(rows.x[feature], samples, threshold, room.spare)
    count_left = position - start
    if total.size > 1:
        count_left = 0
        for i in samples[: position - start]:
            count_left += rows.copies[i]
    weight_left = sum_left(rows, samples, position - start, total, weight, room.left)
    weight_right = weight - weight_left
    square_left = 0.0
    if rules.criterion == SQUARED_ERROR:
        for i in samples[: position - start]:
            square_left += rows.square[i]
    on_left = impurity_of(rules.criterion, room.left, weight_left, square_left)
    on_right = rest_impurity(rules.criterion, total, room.left, weight_right, square - square_left)
    improvement = (weight / limits.weight) * (
        impurity - (weight_right / weight * on_right) - (weight_left / weight * on_left)
    )
    if improvement + PURE < rules.min_impurity_decrease:
        _close(room, nodes, node)
        return True
    nodes.link[node, 2] = feature
    nodes.number[node, 0] = threshold
    nodes.missing[node] = 1 if count_left > count - count_left else 0
    nodes.span[node, 1] = position
    nodes.span[node, 4] = constant
    nodes.span[node, 5] = 0
    nodes.below[node, 0] = on_left
    nodes.below[node, 1] = on_right
    nodes.below[node, 2] = improvement
    if not rules.random_splits and depth + 1 < rules.max_depth:
        least = max(limits.min_split, 2 * limits.min_leaf)
        if at_once(rules, room):
            least = max(least, FEW + 1)
        keep_left = count_left >= least and on_left > PURE
        keep_right = count - count_left >= least and on_right > PURE
        for i in samples[: position - start]:
            room.goes_left[i] = 1
        for i in samples[position - start :]:
            room.goes_left[i] = 0
        first = 0 if rules.max_leaves > 0 else constant
        for j in range(first, room.features.size):
            other = room.features[j]
            if other != feature:
                part_order(room.orders[other][start:end], room, keep_left, keep_right)
    return False


@compiled
def leaf_of(nodes: Nodes, x: AnyArray, row: int) -> int:
    """Return the leaf that a row falls into."""
    node = 0
    while nodes.link[node, 0] >= 0:
        if x[nodes.link[node, 2], row] <= nodes.number[node, 0]:
            node = nodes.link[node, 0]
        else:
            node = nodes.link[node, 1]
    return node
