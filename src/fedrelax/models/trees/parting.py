"""Partitioning a node's rows: its samples by a threshold, its sorted columns by the side each row went to.

Counters are unsigned, because numba checks every signed index for counting from the end.
"""

from __future__ import annotations

import numpy as np

from fedrelax.models.trees.compile import compiled
from fedrelax.models.trees.state import Room
from fedrelax.typing import AnyArray


@compiled
def part_by_threshold(x: AnyArray, samples: AnyArray, threshold: float, spare: AnyArray) -> int:
    """Move the rows at or below the threshold to the front; return how many there are.

    The order is that of scikit-learn's swaps: a row above the threshold changes places with the last
    row not yet looked at, which is looked at next. In other words: the holes at the front are filled
    with rows from the back, starting at the end. The back, read from the end, holds the first row
    above the threshold, then all rows moved by one place, with each that went to the front replaced
    by the next row above the threshold. There is no branch on the side of a row: it would be
    mispredicted every other time.
    """
    if samples.size == 2:
        one, other = samples[0], samples[1]
        stays = x[one] <= threshold
        samples[0], samples[1] = (one, other) if stays else (other, one)
        return (1 if stays else 0) + (1 if x[other] <= threshold else 0)
    above, holes, below = spare[0], spare[1], spare[2]
    size, high, came = np.uint64(samples.size), np.uint64(0), np.uint64(0)
    for p in range(size):
        i = samples[p]
        above[high] = i
        holes[high] = p
        high += np.uint64(x[i] > threshold)
    low = size - high
    if high == 0:
        return int(np.int64(low))
    place = size - np.uint64(1)
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
    return int(np.int64(low))


@compiled
def part_order(order: AnyArray, room: Room, keep_left: bool, keep_right: bool) -> None:
    """Move the rows that go left to the front and keep the order on both sides.

    A side that becomes a leaf, or has few rows, needs no order.
    """
    low, size = np.uint64(0), np.uint64(order.size)
    if keep_right:
        spare = room.spare[0]
        for p in range(size):
            i = order[p]
            order[low] = i
            spare[p - low] = i
            low += np.uint64(room.goes_left[i])
        for p in range(size - low):
            order[low + p] = spare[p]
    elif keep_left:
        for i in order:
            order[low] = i
            low += np.uint64(room.goes_left[i])
