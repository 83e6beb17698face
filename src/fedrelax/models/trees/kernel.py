"""The compiled loop: trees or forests of many nodes, grown and evaluated in one go, without Python's lock.

A tree is that of scikit-learn to the last digit where no feature has repeated values: features are drawn
by the same generator in the same order, and sums run in the same order. Nodes of full trees have so few
rows that splits tie up to rounding, so nothing less would give the same trees with and without numba.

Everything compiled is in this file, because numba keeps machine code on disk until its file changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numba import njit
from numba.extending import intrinsic

from fedrelax.models.trees.rules import GINI, SQUARED_ERROR, Rules
from fedrelax.typing import AnyArray, FloatArray

F = TypeVar("F", bound=Callable[..., Any])

LOG_2 = math.log(2.0)
PURE = float(np.finfo(np.float64).eps)
"""Impurity up to which a node counts as pure."""
SAME = np.float32(1e-7)
"""Values of a feature that differ by no more than this are not split."""
FEW = 3
"""So few rows are sorted when a feature is looked at; more are kept sorted by every feature."""
MAX_DRAW = 2147483647


def compiled(function: F) -> F:
    """Compile a function inline into its callers; a division by zero gives infinity, as in C."""
    return cast(F, njit(nogil=True, error_model="numpy", forceinline=True)(function))


def kept(function: F) -> F:
    """Compile a function at its first call and keep the machine code on disk for later runs."""
    return cast(F, njit(nogil=True, error_model="numpy", cache=True)(function))


class Work(NamedTuple):
    """The rows and nodes of the tree that a thread is growing, and its scratch memory."""

    x: AnyArray
    """(features, rows)"""
    part: FloatArray
    """Weight times target k, or the weight of class k; in the last column the row's weight."""
    square: FloatArray
    """Weight times squared target, summed over targets."""
    copies: AnyArray
    """Number of labelled copies that the row stands for."""
    base: AnyArray
    orders: AnyArray
    """Rows sorted by each feature: all of them, and those of the tree, where a node's are adjacent."""
    samples: AnyArray
    spare: AnyArray
    goes_left: AnyArray
    leaf: AnyArray
    features: AnyArray
    constants: AnyArray
    state: AnyArray
    stack: AnyArray
    total: FloatArray
    left: FloatArray
    right: FloatArray
    """Sums of ``part`` over a node's rows and over those on each side of a split."""
    sums: FloatArray
    weights: FloatArray
    gains: FloatArray
    """For each split by a feature: sum of targets and of weights on the left, and the gain."""
    link: AnyArray
    """Of each node: left child, right child, feature, number of rows."""
    number: FloatArray
    """Threshold, impurity, weight."""
    value: FloatArray
    span: AnyArray
    """Start, place of the split, end, depth, constant features."""
    below: FloatArray
    """Impurity on the left and on the right."""


@kept
def new_work(features: int, rows: int, outputs: int) -> Work:
    """Allocate memory for trees of at most ``rows`` rows."""
    nodes = 2 * rows
    return Work(
        x=np.empty((features, rows), np.float32),
        part=np.empty((rows, outputs + 1)),
        square=np.empty(rows),
        copies=np.empty(rows, np.int64),
        base=np.empty((features, rows), np.uint32),
        orders=np.empty((features, rows), np.uint32),
        samples=np.empty(rows, np.uint32),
        spare=np.empty((3, rows), np.uint32),
        goes_left=np.empty(rows, np.uint8),
        leaf=np.empty(rows, np.int64),
        features=np.empty(features, np.uint32),
        constants=np.empty(features, np.uint32),
        state=np.empty(1, np.int64),
        stack=np.empty(nodes + 2, np.int64),
        total=np.empty(outputs + 1),
        left=np.empty(outputs + 1),
        right=np.empty(outputs + 1),
        sums=np.empty(rows),
        weights=np.empty(rows),
        gains=np.empty(rows),
        link=np.empty((nodes, 4), np.int64),
        number=np.empty((nodes, 3)),
        value=np.empty((nodes, outputs)),
        span=np.empty((nodes, 5), np.int64),
        below=np.empty((nodes, 2)),
    )


def _without_owners(typing: Any, arrays: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        values = given[0]
        for place, kind in enumerate(signature.args[0].types):
            view = context.make_array(kind)(context, builder, builder.extract_value(values, place))
            view.meminfo = view.meminfo.type(None)
            view.parent = view.parent.type(None)
            values = builder.insert_value(values, view._getvalue(), place)
        return values

    return arrays(arrays), build


bare = cast(Callable[[Work], Work], intrinsic(_without_owners))
"""Returns a tuple of arrays without their owners, so that references to them are not counted.

At a small node, counting takes longer than the work itself. The owners must outlive the bare arrays.
"""


# Sums, impurities and gains


@compiled
def add_rows(part: FloatArray, rows: AnyArray, sign: float, sums: FloatArray) -> None:
    """Add the parts of rows, times ``sign``, to ``sums``."""
    if sums.size == 2:
        target, weight = sums[0], sums[1]
        for i in rows:
            target += sign * part[i, 0]
            weight += sign * part[i, 1]
        sums[0], sums[1] = target, weight
        return
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
def count_of(w: Work, samples: AnyArray) -> int:
    """Return how many labelled copies the rows stand for."""
    if w.total.size == 2:
        return samples.size
    count = 0
    for i in samples:
        count += w.copies[i]
    return count


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
def sort_few(x: AnyArray, samples: AnyArray) -> None:
    """Sort a few rows by a feature."""
    for p in range(1, samples.size):
        i, place = samples[p], p
        while place > 0 and x[samples[place - 1]] > x[i]:
            samples[place] = samples[place - 1]
            place -= 1
        samples[place] = i


@compiled
def part_by_threshold(x: AnyArray, samples: AnyArray, threshold: float, spare: AnyArray) -> None:
    """Move the rows at or below the threshold to the front.

    The order is that of scikit-learn's swaps: a row above the threshold changes places with the last
    row not yet looked at, which is looked at next. So the holes at the front are filled with rows from
    the back, starting at the end, and the back, read from the end, holds the first row above the
    threshold, then all rows moved by one place, with each that went to the front replaced by the next
    row above the threshold. There is no branch on a row's side, which could not be predicted.
    """
    if samples.size == 2:
        if x[samples[0]] > threshold:
            samples[0], samples[1] = samples[1], samples[0]
        return
    above, holes, below = spare[0], spare[1], spare[2]
    high, came, place = np.uint64(0), np.uint64(0), np.uint64(samples.size - 1)
    for p in range(np.uint64(samples.size)):
        i = samples[p]
        above[high] = i
        holes[high] = p
        high += np.uint64(x[i] > threshold)
    here = samples[place]
    samples[place] = above[0]
    for _ in range(high - np.uint64(1)):
        goes = np.uint64(x[here] <= threshold)
        below[came] = here
        came += goes
        place -= np.uint64(1)
        following = samples[place]
        samples[place] = above[came] if goes else here
        here = following
    below[came] = here
    came += np.uint64(x[here] <= threshold)
    for k in range(came):
        samples[holes[k]] = below[k]


@compiled
def part_order(w: Work, order: AnyArray, keep_left: bool, keep_right: bool) -> None:
    """Move the rows that go left to the front and keep the order on both sides.

    A side that becomes a leaf, or has few rows, needs no order. Counters are unsigned, because numba
    checks every signed index for counting from the end; there is no branch on the side of a row.
    """
    low, size, spare = np.uint64(0), np.uint64(order.size), w.spare[0]
    if keep_right:
        for p in range(size):
            i = order[p]
            order[low] = i
            spare[p - low] = i
            low += np.uint64(w.goes_left[i])
        for p in range(size - low):
            order[low + p] = spare[p]
    elif keep_left:
        for i in order:
            order[low] = i
            low += np.uint64(w.goes_left[i])


@compiled
def best_place(
    rules: Rules, w: Work, x: AnyArray, order: AnyArray, count: int, best: float
) -> tuple[float, int]:
    """Return gain and place of the best split of sorted rows; ``best`` and 0 if none gains more."""
    place, places, count_left, least = 0, order.size - 1, 0, rules.min_samples_leaf
    if w.total.size == 2:
        # Squared error of one target: the gains of all splits, several at a time since none is skipped.
        total, weight = w.total[0], w.total[1]
        left, weight_left = 0.0, 0.0
        for p in range(places):
            i = order[p]
            left += w.part[i, 0]
            weight_left += w.part[i, 1]
            w.sums[p] = left
            w.weights[p] = weight_left if x[order[p + 1]] > x[i] + SAME else np.nan
        for p in range(places):
            left, weight_left = w.sums[p], w.weights[p]
            right, weight_right = total - left, weight - weight_left
            w.gains[p] = left * left / weight_left + right * right / weight_right
        for p in range(least - 1, places - least + 1):
            if w.gains[p] > best:
                best, place = w.gains[p], p + 1
        return best, place
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
        if samples.size > FEW:
            order = w.orders[feature][start:end]
        else:
            sort_few(x, samples)
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
        if samples.size > FEW:
            samples[:] = order
        part_by_threshold(w.x[best_feature], samples, best_threshold, w.spare)
    return best_feature, best_at, best_threshold, constant


# One tree


@compiled
def grow(rules: Rules, w: Work, size: int) -> tuple[int, int]:
    """Grow a tree on the first ``size`` samples, depth first; return the number of nodes and the depth."""
    for feature in range(w.features.size):
        w.features[feature] = feature
    top, count, deepest = 1, 0, 0
    w.stack[0] = -1
    while top > 0:
        top -= 1
        if not add_node(rules, w, size, count, w.stack[top]):
            w.stack[top], w.stack[top + 1] = 2 * count + 1, 2 * count
            top += 2
        deepest = max(deepest, w.span[count, 3])
        count += 1
    return count, deepest


@compiled
def close(w: Work, node: int) -> bool:
    """Make a node a leaf and record it for its rows; return True."""
    w.link[node, 0], w.link[node, 1], w.link[node, 2] = -1, -1, -2
    w.number[node, 0] = -2.0
    for i in w.samples[w.span[node, 0] : w.span[node, 2]]:
        w.leaf[i] = node
    return True


@compiled
def add_node(rules: Rules, w: Work, size: int, node: int, place: int) -> bool:
    """Write a node and look for its split; return whether it is a leaf.

    ``place`` is twice the parent's number, plus one for its right child; -1 for the root.
    """
    start, end, depth, known, impurity = 0, size, 0, 0, 0.0
    if place >= 0:
        parent, side = place >> 1, place & 1
        w.link[parent, side] = node
        start, end = w.span[parent, side], w.span[parent, side + 1]
        depth = w.span[parent, 3] + 1
        known = w.span[parent, 4]
        impurity = w.below[parent, side]
    samples, total, square = w.samples[start:end], w.total, 0.0
    total[:] = 0.0
    add_rows(w.part, samples, 1.0, total)
    if rules.criterion == SQUARED_ERROR:
        for i in samples:
            square += w.square[i]
    weight, count = total[-1], count_of(w, samples)
    if place < 0:
        impurity = impurity_of(rules.criterion, total, square)
    for k in range(total.size - 1):
        w.value[node, k] = total[k] / weight
    w.link[node, 3] = count
    w.number[node, 1], w.number[node, 2] = impurity, weight
    w.span[node, 0], w.span[node, 2], w.span[node, 3] = start, end, depth
    if depth >= rules.max_depth or count < rules.min_samples_split or impurity <= PURE:
        return close(w, node)
    feature, at, threshold, constant = find_split(rules, w, start, end, count, known)
    if feature < 0:
        return close(w, node)
    count_left = count_of(w, samples[:at])
    sum_sides(w, samples, at)
    square_left = 0.0
    if rules.criterion == SQUARED_ERROR:
        for i in samples[:at]:
            square_left += w.square[i]
    on_left = impurity_of(rules.criterion, w.left, square_left)
    on_right = impurity_of(rules.criterion, w.right, square - square_left)
    improvement = (weight / w.number[0, 2]) * (
        impurity - (w.right[-1] / weight * on_right) - (w.left[-1] / weight * on_left)
    )
    if improvement + PURE < 0.0:
        return close(w, node)
    w.link[node, 2] = feature
    w.number[node, 0] = threshold
    w.span[node, 1], w.span[node, 4] = start + at, constant
    w.below[node, 0], w.below[node, 1] = on_left, on_right
    if depth + 1 >= rules.max_depth:
        return False
    keep_left = at > FEW and count_left >= rules.min_samples_split and on_left > PURE
    keep_right = (
        samples.size - at > FEW
        and count - count_left >= rules.min_samples_split
        and on_right > PURE
    )
    for i in samples[:at]:
        w.goes_left[i] = 1
    for i in samples[at:]:
        w.goes_left[i] = 0
    for j in range(constant, w.features.size):
        other = w.features[j]
        if other != feature:
            part_order(w, w.orders[other][start:end], keep_left, keep_right)
    return False


# All trees of all nodes


@compiled
def gather(w: Work, columns: AnyArray, starts: AnyArray, sizes: AnyArray, blocks: AnyArray) -> None:
    """Copy the columns of a node's sets of rows side by side."""
    features, offset = w.x.shape[0], 0
    for block in blocks:
        size = sizes[block]
        begin = starts[block] * features
        for feature in range(features):
            for r in range(size):
                w.x[feature, offset + r] = columns[begin + r]
            begin += size
        offset += size


@compiled
def merge(w: Work, orders: AnyArray, starts: AnyArray, sizes: AnyArray, blocks: AnyArray) -> int:
    """Merge the sorted columns of sets of rows, without rows of weight 0; return how many remain."""
    features, total = w.x.shape[0], 0
    for feature in range(features):
        x, merged = w.x[feature], w.base[feature]
        offset, total = 0, 0
        for block in blocks:
            size = sizes[block]
            begin = starts[block] * features + feature * size
            order = orders[begin : begin + size]
            joining = 0
            for row in range(offset, offset + size):
                joining += w.copies[row] > 0
            low, place = total - 1, total + joining - 1
            total += joining
            for p in range(size - 1, -1, -1):
                i = offset + order[p]
                if w.copies[i] > 0:
                    while low >= 0 and x[merged[low]] > x[i]:
                        merged[place] = merged[low]
                        low -= 1
                        place -= 1
                    merged[place] = i
                    place -= 1
            offset += size
    return total


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
def start_tree(w: Work, rows: int, size: int) -> int:
    """Set samples and orders to the rows of positive weight in this tree; return how many."""
    kept = 0
    for i in range(rows):
        w.leaf[i] = -1
        if w.copies[i] > 0:
            w.samples[kept] = i
            kept += 1
    for feature in range(w.base.shape[0]):
        order, place = w.orders[feature], 0
        for i in w.base[feature][:size]:
            order[place] = i
            place += w.copies[i] > 0
    return kept


@compiled
def answer(w: Work, out: FloatArray) -> None:
    """Add a tree's predictions for all rows; for those it was grown on, the leaf is already known."""
    for i in range(out.shape[0]):
        node = w.leaf[i]
        if node < 0:
            node = 0
            while w.link[node, 0] >= 0:
                above = w.x[w.link[node, 2], i] > w.number[node, 0]
                node = w.link[node, 1 if above else 0]
        for k in range(out.shape[1]):
            out[i, k] += w.value[node, k]


@kept
def grow_all(
    rules: Rules,
    columns: AnyArray,
    orders: AnyArray,
    starts: AnyArray,
    sizes: AnyArray,
    blocks: AnyArray,
    block_ends: AnyArray,
    row_ends: AnyArray,
    target: FloatArray,
    weight: FloatArray,
    drawn: AnyArray,
    states: AnyArray,
    answers: FloatArray,
    link: AnyArray,
    number: FloatArray,
    value: FloatArray,
    shape: AnyArray,
) -> int:
    """Grow the trees of all problems and write their answers.

    ``batch.Packed`` explains the arguments. ``drawn`` has how often each row, or each of its copies, is
    drawn for each tree; the last four take the trees themselves, if ``shape`` is not empty.
    """
    outputs, most, stored, place = target.shape[1], 0, 0, 0
    for job in range(len(row_ends) - 1):
        most = max(most, row_ends[job + 1] - row_ends[job])
    owners = new_work(columns.size // max(1, starts[-1] + sizes[-1]), most, outputs)
    w = bare(owners)
    for job in range(len(row_ends) - 1):
        mine = blocks[block_ends[job] : block_ends[job + 1]]
        begin, rows = row_ends[job], row_ends[job + 1] - row_ends[job]
        gather(w, columns, starts, sizes, mine)
        for i in range(rows):
            weigh(w, rules.criterion, i, target[begin + i], weight[begin + i])
        size = merge(w, orders, starts, sizes, mine)
        out = answers[begin : begin + rows]
        out[:] = 0.0
        for tree in range(rules.trees):
            w.state[0] = states[job, tree]
            if rules.bootstrap:
                for i in range(rows):
                    weigh(w, rules.criterion, i, target[begin + i], drawn[place])
                    place += 1
            count, depth = grow(rules, w, start_tree(w, rows, size))
            answer(w, out)
            if shape.size > 0:
                link[stored : stored + count] = w.link[:count]
                number[stored : stored + count] = w.number[:count]
                value[stored : stored + count] = w.value[:count]
                shape[tree, 0], shape[tree, 1] = count, depth
                stored += count
        if rules.trees > 1:
            out /= rules.trees
    # Using the owners here keeps what the bare arrays point to from being freed earlier.
    return stored + len(owners)
