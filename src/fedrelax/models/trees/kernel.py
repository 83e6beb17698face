"""The loop over all nodes of a network: trees or forests, grown and evaluated in one go."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from fedrelax.models.trees.compile import compiled, kept, source_mark
from fedrelax.models.trees.draws import (
    MAX_DRAW,
    WORDS,
    bootstrap,
    next_below,
    pairwise_sum,
    running_shares,
    seed_twister,
)
from fedrelax.models.trees.growth import grow, leaf_of
from fedrelax.models.trees.rules import SQUARED_ERROR, Rules
from fedrelax.models.trees.state import (
    Limits,
    Nodes,
    Room,
    TreeRows,
    bare_nodes,
    bare_room,
    bare_rows,
    new_nodes,
    new_room,
    new_rows,
)
from fedrelax.typing import AnyArray, FloatArray


@compiled
def gather(
    rows: TreeRows, columns: AnyArray, starts: AnyArray, sizes: AnyArray, blocks: AnyArray
) -> int:
    """Copy the columns of a node's blocks side by side; return the number of rows."""
    features, offset = rows.x.shape[0], 0
    for block in blocks:
        size = sizes[block]
        begin = starts[block] * features
        for feature in range(features):
            for r in range(size):
                rows.x[feature, offset + r] = columns[begin + r]
            begin += size
        offset += size
    return offset


@compiled
def merge(
    base: AnyArray,
    rows: TreeRows,
    orders: AnyArray,
    starts: AnyArray,
    sizes: AnyArray,
    blocks: AnyArray,
) -> int:
    """Merge the sorted columns of the blocks, leaving out rows of weight 0; return how many remain."""
    features, total = rows.x.shape[0], 0
    for feature in range(features):
        x, merged = rows.x[feature], base[feature]
        offset, total = 0, 0
        for block in blocks:
            size = sizes[block]
            begin = starts[block] * features + feature * size
            order = orders[begin : begin + size]
            weight = rows.weight[offset : offset + size]
            joining = 0
            for p in range(size):
                joining += weight[p] > 0
            low, place = total - 1, total + joining - 1
            total += joining
            for p in range(size - 1, -1, -1):
                row = order[p]
                if weight[row] > 0:
                    i = offset + row
                    while low >= 0 and x[merged[low]] > x[i]:
                        merged[place] = merged[low]
                        low -= 1
                        place -= 1
                    merged[place] = i
                    place -= 1
            offset += size
    return total


@compiled
def limits_of(rules: Rules, copies: int, weight: float) -> Limits:
    """Return the limits that the rules give for a number of rows and their total weight."""
    leaf, split = rules.min_samples_leaf, rules.min_samples_split
    if rules.min_leaf_share > 0:
        leaf = math.ceil(rules.min_leaf_share * copies)
    if rules.min_split_share > 0:
        split = max(2, math.ceil(rules.min_split_share * copies))
    return Limits(max(split, 2 * leaf), leaf, rules.min_weight_share * weight, weight)


@compiled
def weigh(rows: TreeRows, i: int, target: FloatArray, weight: FloatArray, regression: bool) -> None:
    """Write what the criterion needs of row ``i``.

    ``weight`` has one entry in regression, and one for each class in classification.
    """
    if regression:
        square = 0.0
        for k in range(target.size):
            part = weight[0] * target[k]
            rows.part[i, k] = part
            square += part * target[k]
        rows.square[i], rows.weight[i], rows.copies[i] = square, weight[0], 1
        rows.pair[2 * i], rows.pair[2 * i + 1] = rows.part[i, 0], weight[0]
        return
    total, count = 0.0, 0
    for k in range(target.size):
        rows.part[i, k] = weight[k]
        total += weight[k]
        count += weight[k] > 0
    rows.square[i], rows.weight[i], rows.copies[i] = 0.0, total, count


@compiled
def limited_draws(rules: Rules, copies: int, weight: float) -> int:
    """Return how many rows a bootstrap draws."""
    if rules.draws > 0:
        return rules.draws
    if rules.draws_share > 0:
        return max(int(rules.draws_share * weight), 1)
    return copies


@compiled
def start_tree(base: AnyArray, rows: TreeRows, room: Room, rules: Rules, n: int, size: int) -> int:
    """Set samples and orders to the rows of positive weight in this tree; return how many."""
    kept_rows = 0
    for i in range(n):
        room.leaf[i] = -1
        if rows.weight[i] > 0:
            room.samples[kept_rows] = i
            kept_rows += 1
    if rules.random_splits:
        return kept_rows
    for feature in range(base.shape[0]):
        order, whole = room.orders[feature], base[feature]
        if kept_rows == size:
            for p in range(size):
                order[p] = whole[p]
            continue
        place = 0
        for i in whole[:size]:
            order[place] = i
            place += rows.weight[i] > 0
    return kept_rows


@compiled
def answer(nodes: Nodes, rows: TreeRows, room: Room, out: FloatArray) -> None:
    """Add a tree's predictions for all rows; for those it was grown on, the leaf is already known."""
    for i in range(out.shape[0]):
        leaf = room.leaf[i]
        if leaf < 0:
            leaf = leaf_of(nodes, rows.x, i)
        for k in range(out.shape[1]):
            out[i, k] += nodes.value[leaf, k]


@cache
def grow_all() -> Callable[..., int]:
    """Return the compiled loop; ``batch._run`` and ``batch.Packed`` name its arguments."""
    mark = source_mark()

    @kept
    def loop(
        first: int,
        last: int,
        rules: Rules,
        columns: AnyArray,
        orders: AnyArray,
        starts: AnyArray,
        sizes: AnyArray,
        blocks: AnyArray,
        block_ends: AnyArray,
        sources: AnyArray,
        row_ends: AnyArray,
        features: int,
        target: FloatArray,
        weight: FloatArray,
        seeds: AnyArray,
        answers: FloatArray,
        link: AnyArray,
        number: FloatArray,
        missing: AnyArray,
        value: FloatArray,
        shape: AnyArray,
    ) -> int:
        if mark < 0:
            return -1
        outputs, regression = target.shape[1], rules.criterion == SQUARED_ERROR
        most = 0
        for job in range(first, last):
            most = max(most, row_ends[job + 1] - row_ends[job])
        wide = 1 if regression else outputs
        own_rows, own_room = new_rows(features, most, outputs), new_room(features, most, outputs)
        own_nodes = new_nodes(2 * most, outputs)
        rows, room, nodes = bare_rows(own_rows), bare_room(own_room), bare_nodes(own_nodes)
        base = np.empty((features, most), np.uint32)
        goal, own = np.zeros((most, outputs)), np.zeros((most, wide))
        tree_weight = np.zeros(wide)
        flat, drawn, chance = np.empty(most * wide), np.empty(most * wide), np.empty(most * wide)
        stored = 0
        for job in range(first, last):
            mine = blocks[block_ends[job] : block_ends[job + 1]]
            n = gather(rows, columns, starts, sizes, mine)
            i, copies, total, equal = 0, 0, 0.0, True
            for place in range(block_ends[job], block_ends[job + 1]):
                source = sources[place]
                for r in range(sizes[blocks[place]]):
                    for k in range(wide):
                        own[i, k] = 0.0
                    if source >= 0:
                        given = weight[source + r]
                        for k in range(outputs):
                            goal[i, k] = target[source + r, k]
                        for k in range(wide):
                            own[i, k] = given if regression else given * goal[i, k]
                            if own[i, k] > 0:
                                total += own[i, k]
                                equal = equal and own[i, k] == 1.0
                                flat[copies] = own[i, k]
                                copies += 1
                    weigh(rows, i, goal[i], own[i], regression)
                    i += 1
            size = 0
            if not rules.random_splits:
                size = merge(base, rows, orders, starts, sizes, mine)
            if rules.bootstrap or rules.min_weight_share > 0:
                total = pairwise_sum(flat[:copies])
            if rules.bootstrap:
                running_shares(flat[:copies], total, chance)
            out = answers[row_ends[job] : row_ends[job + 1]]
            for i in range(n):
                for k in range(outputs):
                    out[i, k] = 0.0
            draws = limited_draws(rules, copies, total)
            for tree in range(rules.trees):
                seed_twister(room.twister, seeds[job, tree])
                room.state[0] = next_below(room.twister, MAX_DRAW)
                if rules.bootstrap:
                    room.twister[WORDS] = 0
                    bootstrap(room.twister, chance, copies, draws, equal, drawn)
                    place = 0
                    for i in range(n):
                        for k in range(wide):
                            tree_weight[k] = 0.0
                            if own[i, k] > 0:
                                tree_weight[k] = drawn[place]
                                place += 1
                        weigh(rows, i, goal[i], tree_weight, regression)
                    limits = limits_of(rules, copies, float(draws))
                else:
                    limits = limits_of(rules, copies, total)
                grown = start_tree(base, rows, room, rules, n, size)
                count, depth = grow(rules, limits, rows, room, nodes, grown)
                answer(nodes, rows, room, out)
                if shape.size > 0:
                    for node in range(count):
                        missing[stored + node] = nodes.missing[node]
                        for k in range(4):
                            link[stored + node, k] = nodes.link[node, k]
                        for k in range(3):
                            number[stored + node, k] = nodes.number[node, k]
                        for k in range(outputs):
                            value[stored + node, k] = nodes.value[node, k]
                    shape[job - first, tree, 0] = count
                    shape[job - first, tree, 1] = depth
                    stored += count
            if rules.trees > 1:
                for i in range(n):
                    for k in range(outputs):
                        out[i, k] /= rules.trees
        # Using the owners here keeps what the bare arrays point to from being freed earlier.
        if len(own_rows) + len(own_room) + len(own_nodes) == 0:
            return -1
        return stored

    return loop
