"""Graphs from a formula: stochastic blocks, the overlap of mixtures, and nearest neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Real

import numpy as np
from scipy import sparse

from fedrelax.errors import FedRelaxError
from fedrelax.graph.matrices import from_pairs
from fedrelax.graph.tables import read_table
from fedrelax.schema.kinds import as_frame, is_frame
from fedrelax.typing import FloatArray, IntArray, Label
from fedrelax.validation import RandomState, check_choice, check_count, generator

SUM_ROUNDING = 1e-6
"""How far the sum of a node's shares may be from 1."""


def stochastic_block(
    sizes: Sequence[int], p_in: float, p_out: float, random_state: RandomState
) -> tuple[sparse.csr_array, IntArray]:
    """Return a random adjacency and every node's block.

    For each pair of blocks, the number of edges is drawn first (binomial), then which ones: the
    work grows with the number of edges, not with the number of pairs of nodes.
    """
    counts = [*sizes]
    for size in counts or [0]:
        check_count("each of sizes", size, least=1)
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


def _draw(n_pairs: int, p: float, rng: np.random.Generator) -> IntArray:
    drawn: IntArray = rng.choice(n_pairs, rng.binomial(n_pairs, p), replace=False)
    return drawn


def _triangle(number: IntArray) -> tuple[IntArray, IntArray]:
    """Return the pair i > j >= 0 with ``number`` = i (i - 1) / 2 + j."""
    i = ((1 + np.sqrt(1 + 8.0 * number)) // 2).astype(np.int64)
    i -= i * (i - 1) // 2 > number  # the square root may be off by one for large numbers
    i += i * (i + 1) // 2 <= number
    return i, number - i * (i - 1) // 2


# Nearest neighbours

LATITUDE, LONGITUDE = ("latitude", "lat"), ("longitude", "lon", "lng", "long")
STEP = 1e-9
"""How far points that coincide are set apart in all, relative to the range of the coordinates."""


def nearest_by_coordinates(
    coordinates: object, k: int, metric: str, labels: Iterable[object] | None
) -> tuple[sparse.csr_array, tuple[Label, ...], FloatArray, bool]:
    """Return the adjacency, labels, positions, and whether these are latitudes and longitudes."""
    check_choice("metric", metric, ("auto", "haversine", "euclidean"))
    globe = metric == "haversine"
    if metric != "euclidean" and is_frame(coordinates):
        frame = as_frame(coordinates)
        lower = {column: str(column).strip().lower() for column in frame.columns}
        latitude = [column for column, name in lower.items() if name in LATITUDE]
        longitude = [column for column, name in lower.items() if name in LONGITUDE]
        if len(latitude) == len(longitude) == 1:
            coordinates, globe = frame[latitude + longitude], True
        elif latitude or longitude:
            raise FedRelaxError(
                f"the columns {list(frame.columns)} do not hold exactly one latitude and one "
                "longitude; rename them, or set metric='euclidean'"
            )
    positions, names = read_table(coordinates, labels, "coordinate")
    points = on_the_sphere(positions, names) if globe else positions
    i, j = neighbour_pairs(points, k, names)
    return from_pairs(len(names), i, j, np.ones(len(i))), names, positions, globe


def neighbour_pairs(
    points: FloatArray, k: int, labels: Sequence[Label]
) -> tuple[IntArray, IntArray]:
    """Return every pair (i, j), i < j, in which one end is among the k nearest of the other.

    Points are searched in sorted order, so the result does not depend on the order of the nodes. Those
    that coincide are set apart by a tiny step each, in the order of their labels, so that they share the
    edges out.
    """
    from scipy.spatial import cKDTree

    check_count("k", k, least=1)
    n = len(points)
    k = min(int(k), n - 1)
    order = np.lexsort(points.T[::-1])
    again = np.append(False, (np.diff(points[order], axis=0) == 0).all(axis=1))
    spread = points[order]
    if again.any():
        text = np.array([repr(label) for label in labels])
        order = np.lexsort((text, *points.T[::-1]))
        first = np.maximum.accumulate(np.where(again, 0, np.arange(n)))
        step = STEP * (float(np.ptp(points)) or 1.0) / n
        spread = np.column_stack([points[order], step * (np.arange(n) - first)])
    near = cKDTree(spread).query(spread, k=k + 1)[1].reshape(n, -1)
    others = near != np.arange(n)[:, None]
    others[others.all(axis=1), -1] = False
    i, j = np.repeat(order, k), order[near[others]]
    pairs = np.unique(np.minimum(i, j) * n + np.maximum(i, j))
    return pairs // n, pairs % n


def on_the_sphere(positions: FloatArray, names: Sequence[Label]) -> FloatArray:
    """Return unit vectors; the chord between two of them grows with the great-circle distance."""
    if positions.shape[1] != 2:
        raise FedRelaxError(
            f"metric 'haversine' needs two columns, latitude and longitude in degrees; "
            f"found {positions.shape[1]}"
        )
    for column, what, most in ((0, "latitude", 90), (1, "longitude", 360)):
        outside = np.flatnonzero(np.abs(positions[:, column]) > most)
        if len(outside):
            raise FedRelaxError(
                f"node {names[outside[0]]!r} has the {what} {positions[outside[0], column]}, "
                f"outside [-{most}, {most}]; give degrees, latitude first"
            )
    pole = np.abs(positions[:, 0]) == 90
    latitude = np.radians(positions[:, 0])
    # One representation for each place: no longitude at a pole, and -180 is 180.
    longitude = np.radians(np.where(pole, 0.0, np.mod(positions[:, 1], 360)))
    across = np.where(pole, 0.0, np.cos(latitude))
    return np.column_stack(
        [across * np.cos(longitude), across * np.sin(longitude), np.sin(latitude)]
    )
