"""The random numbers of scikit-learn's trees and forests, reproduced one by one.

A tree draws features and thresholds by a 32-bit xorshift; its seed and the rows of a bootstrap
come from numpy's ``RandomState``, a Mersenne twister.
"""

from __future__ import annotations

import numpy as np

from fedrelax.models.trees.compile import called, compiled
from fedrelax.typing import AnyArray, FloatArray

WORDS = 624
"""Length of the twister's state; one more entry holds the position of the next word."""
SHIFT = 397
LOW = 0xFFFFFFFF
MAX_DRAW = 2147483647


@compiled
def draw(state: AnyArray) -> int:
    """Return the next number of the xorshift whose state is ``state[0]``: 0 to 2^31 - 1."""
    s = state[0]
    if s == 0:
        s = 1
    s ^= (s << 13) & LOW
    s ^= s >> 17
    s ^= (s << 5) & LOW
    state[0] = s
    return s & MAX_DRAW  # type: ignore[no-any-return]


@called
def seed_twister(twister: AnyArray, seed: int) -> None:
    """Set the twister as ``numpy.random.RandomState(seed)`` does."""
    s = seed & LOW
    for place in range(WORDS):
        twister[place] = s
        s = (1812433253 * (s ^ (s >> 30)) + place + 1) & LOW
    twister[WORDS] = WORDS


@called
def _refill(twister: AnyArray) -> None:
    for place in range(WORDS):
        after = place + 1 if place + 1 < WORDS else 0
        far = place + SHIFT if place + SHIFT < WORDS else place + SHIFT - WORDS
        word = (twister[place] & 0x80000000) | (twister[after] & 0x7FFFFFFF)
        mixed = twister[far] ^ (word >> 1)
        if word & 1:
            mixed ^= 0x9908B0DF
        twister[place] = mixed
    twister[WORDS] = 0


@compiled
def next_word(twister: AnyArray) -> int:
    """Return the next 32 random bits."""
    if twister[WORDS] == WORDS:
        _refill(twister)
    word = twister[twister[WORDS]]
    twister[WORDS] += 1
    word ^= word >> 11
    word ^= (word << 7) & 0x9D2C5680
    word ^= (word << 15) & 0xEFC60000
    word ^= word >> 18
    return word  # type: ignore[no-any-return]


@compiled
def next_below(twister: AnyArray, limit: int) -> int:
    """Return what ``RandomState.randint(0, limit)`` draws."""
    if limit <= 1:
        return 0
    mask = limit - 1
    for shift in (1, 2, 4, 8, 16):
        mask |= mask >> shift
    found = next_word(twister) & mask
    while found > limit - 1:
        found = next_word(twister) & mask
    return found


@compiled
def next_share(twister: AnyArray) -> float:
    """Return what ``RandomState.random_sample()`` draws: 53 bits in [0, 1)."""
    high = next_word(twister) >> 5
    low = next_word(twister) >> 6
    return (high * 67108864.0 + low) / 9007199254740992.0


@called
def bootstrap(
    twister: AnyArray, chance: FloatArray, copies: int, rows: int, equal: bool, drawn: FloatArray
) -> None:
    """Draw ``rows`` times from the first ``copies`` places with replacement; count in ``drawn``.

    ``chance`` holds the cumulative shares of their weights; with ``equal`` (all weights 1) places
    are drawn as integers, as scikit-learn does without ``sample_weight``.
    """
    for place in range(copies):
        drawn[place] = 0.0
    for _ in range(rows):
        if equal:
            drawn[next_below(twister, copies)] += 1.0
            continue
        share = next_share(twister)
        low, high = 0, copies - 1
        while low < high:
            middle = (low + high) >> 1
            if chance[middle] <= share:
                low = middle + 1
            else:
                high = middle
        drawn[low] += 1.0


@called
def running_shares(weights: FloatArray, total: float, chance: FloatArray) -> None:
    """Write the cumulative shares of the weights in ``total``, scaled to end at 1."""
    chance[0] = weights[0] / total
    for place in range(1, weights.size):
        chance[place] = chance[place - 1] + weights[place] / total
    last = chance[weights.size - 1]
    for place in range(weights.size):
        chance[place] /= last


@called
def pairwise_sum(values: FloatArray) -> float:
    """Add up in the order of ``numpy.sum``: eight partial sums, and long arrays in halves."""
    size = values.size
    if size < 8:
        total = 0.0
        for value in values:
            total += value
        return total
    if size > 128:
        half = (size // 2) - (size // 2) % 8
        return pairwise_sum(values[:half]) + pairwise_sum(values[half:])
    part: FloatArray = np.zeros(8)
    whole = size - size % 8
    for place in range(8):
        part[place] = values[place]
    for place in range(8, whole):
        part[place % 8] += values[place]
    total = ((part[0] + part[1]) + (part[2] + part[3])) + (
        (part[4] + part[5]) + (part[6] + part[7])
    )
    for value in values[whole:]:
        total += value
    return float(total)
