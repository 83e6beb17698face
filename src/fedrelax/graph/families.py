"""Graphs from a formula: complete graphs, stochastic blocks, and the overlap of mixtures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from numbers import Real
from operator import index

import numpy as np
from scipy import sparse

from fedrelax.errors import FedRelaxError
from fedrelax.graph.matrices import from_pairs
from fedrelax.graph.tables import read_table
from fedrelax.typing import FloatArray, IntArray, Label
from fedrelax.validation import RandomState, generator

SUM_ROUNDING = 1e-6
"""How far the sum of a node's shares may be from 1."""


def stochastic_block(
    sizes: Sequence[int], p_in: float, p_out: float, random_state: RandomState
) -> tuple[sparse.csr_array, IntArray]:
    """Return a random adjacency and every node's block.

    For each pair of blocks, the number of edges is drawn first (binomial), then which ones: the
    work grows with the number of edges, not with the number of pairs of nodes.
    """
    try:
        counts = [index(size) for size in sizes]
    except TypeError:
        raise FedRelaxError(f"sizes is {sizes!r}; give a list of whole numbers") from None
    if not counts or min(counts) < 1:
        raise FedRelaxError(f"sizes is {sizes!r}; give at least one block and one node in each")
    for name, p in (("p_in", p_in), ("p_out", p_out)):
        if not isinstance(p, Real) or not 0 <= p <= 1:
            raise FedRelaxError(f"{name} is {p!r}; give a probability between 0 and 1")
    rng = generator(random_state)
    first = np.cumsum(counts) - counts
    ends: list[tuple[IntArray, IntArray]] = []
    for a, size in enumerate(counts):
        i, j = _triangle(_draw(size * (size - 1) // 2, p_in, rng))
        ends.append((first[a] + i, first[a] + j))
        for b in range(a + 1, len(counts)):
            i, j = np.divmod(_draw(size * counts[b], p_out, rng), counts[b])
            ends.append((first[a] + i, first[b] + j))
    rows, columns = (np.concatenate(side) for side in zip(*ends, strict=True))
    matrix = from_pairs(int(sum(counts)), rows, columns, np.ones(len(rows)))
    return matrix, np.repeat(np.arange(len(counts), dtype=np.int64), counts)


def mixture_overlap(
    shares: object, labels: Iterable[object] | None
) -> tuple[FloatArray, tuple[Label, ...]]:
    """Return A_ij = sum_k min(rho_ik, rho_jk) for the shares rho, and the nodes' labels."""
    rho, names = read_table(shares, labels, "share")
    negative = np.argwhere(rho < 0)
    if len(negative):
        i, k = negative[0]
        raise FedRelaxError(
            f"node {names[i]!r} has the negative share {rho[i, k]}; give shares >= 0"
        )
    total = rho.sum(axis=1)
    off = np.flatnonzero(np.abs(total - 1) > SUM_ROUNDING)
    if len(off):
        raise FedRelaxError(
            f"the shares of node {names[off[0]]!r} sum to {total[off[0]]}; "
            "divide each node's shares by their sum so that they sum to 1"
        )
    matrix = np.zeros((len(names), len(names)))
    for share in rho.T:
        matrix += np.minimum.outer(share, share)
    np.fill_diagonal(matrix, 0)
    return matrix, names


def check_factor(name: str, factor: float) -> None:
    """Refuse a weight or factor that is not a finite number >= 0."""
    if not isinstance(factor, Real) or not isfinite(factor) or factor < 0:
        raise FedRelaxError(f"{name} is {factor!r}; give a finite number that is not negative")


def _draw(n_pairs: int, p: float, rng: np.random.Generator) -> IntArray:
    drawn: IntArray = rng.choice(n_pairs, rng.binomial(n_pairs, p), replace=False)
    return drawn


def _triangle(number: IntArray) -> tuple[IntArray, IntArray]:
    """Return the pair i > j >= 0 with ``number`` = i (i - 1) / 2 + j."""
    i = ((1 + np.sqrt(1 + 8.0 * number)) // 2).astype(np.int64)
    i -= i * (i - 1) // 2 > number  # the square root may be off by one for large numbers
    i += i * (i + 1) // 2 <= number
    return i, number - i * (i - 1) // 2
