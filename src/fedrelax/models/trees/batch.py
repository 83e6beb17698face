"""Many trees or forests at once: from rows, targets and weights to predictions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.models.trees.blocks import Blocks, Sorted
from fedrelax.models.trees.kernel import grow_all
from fedrelax.models.trees.rules import Rules
from fedrelax.typing import AnyArray, FloatArray


class Problem(NamedTuple):
    """One node's part: sets of rows with targets and weights, a seed, and rows to predict.

    Targets are numbers, or class probabilities, of shape (rows, outputs).
    """

    X: Sequence[AnyArray]
    target: Sequence[FloatArray]
    weight: Sequence[FloatArray]
    seed: int
    asked: Sequence[AnyArray] = ()


class GrownTree(NamedTuple):
    """The nodes of one tree, as scikit-learn keeps them."""

    link: AnyArray
    """left child, right child, feature, number of rows"""
    number: FloatArray
    """threshold, impurity, weight"""
    missing: AnyArray
    value: FloatArray
    depth: int


class Packed(NamedTuple):
    """Problems in the form the compiled loop takes."""

    blocks: Blocks
    used: AnyArray
    used_ends: AnyArray
    sources: AnyArray
    row_ends: AnyArray
    features: int
    target: FloatArray
    weight: FloatArray
    seeds: AnyArray
    asked: list[list[slice]]
    """For each problem, where the predictions for each set of rows in its ``asked`` will be."""


NOTHING = (
    np.empty((0, 4), np.int64),
    np.empty((0, 3)),
    np.empty(0, np.uint8),
    np.empty((0, 1)),
    np.empty((0, 0, 2), np.int64),
)


def answers(
    rules: Rules,
    forest: bool,
    problems: Sequence[Problem],
    memory: Sorted,
    threads: int | None = None,
) -> list[list[FloatArray]]:
    """Grow all trees and return each problem's predictions for the rows it asks for.

    The number of threads (None: one per core) does not change the result.
    """
    packed = pack(rules, forest, problems, memory)
    found = answers_of(rules, packed, threads)
    return [[found[rows] for rows in asked] for asked in packed.asked]


def answers_of(rules: Rules, packed: Packed, threads: int | None = None) -> FloatArray:
    """Grow all trees and return their predictions for all rows, one problem after another."""
    found = np.empty((packed.row_ends[-1], packed.target.shape[1]))
    count = len(packed.row_ends) - 1
    threads = min(_cores() if threads is None else threads, count)
    if threads == 1:
        _run(rules, packed, 0, count, found, NOTHING)
    else:
        parts = np.linspace(0, count, min(count, 8 * threads) + 1).astype(int).tolist()
        with ThreadPoolExecutor(threads) as pool:
            waiting = [
                pool.submit(_run, rules, packed, first, last, found, NOTHING)
                for first, last in pairwise(parts)
            ]
            for each in waiting:
                each.result()
    return found


def grown(rules: Rules, forest: bool, problem: Problem) -> list[GrownTree]:
    """Return the trees of one problem."""
    packed = pack(rules, forest, [problem], Sorted())
    outputs = packed.target.shape[1]
    capacity = rules.trees * max(1, 2 * len(packed.weight) - 1)
    store = (
        np.empty((capacity, 4), np.int64),
        np.empty((capacity, 3)),
        np.empty(capacity, np.uint8),
        np.empty((capacity, outputs)),
        np.empty((1, rules.trees, 2), np.int64),
    )
    _run(rules, packed, 0, 1, np.empty((packed.row_ends[-1], outputs)), store)
    ends = np.concatenate([[0], np.cumsum(store[4][0, :, 0])])
    return [
        GrownTree(
            store[0][first:last],
            store[1][first:last],
            store[2][first:last],
            store[3][first:last],
            int(depth),
        )
        for first, last, depth in zip(ends[:-1], ends[1:], store[4][0, :, 1], strict=True)
    ]


def _run(
    rules: Rules,
    packed: Packed,
    first: int,
    last: int,
    found: FloatArray,
    store: Sequence[AnyArray],
) -> None:
    grow_all()(
        first,
        last,
        rules,
        *packed.blocks[:4],
        packed.used,
        packed.used_ends,
        packed.sources,
        packed.row_ends,
        packed.features,
        packed.target,
        packed.weight,
        packed.seeds,
        found,
        *store,
    )


def pack(rules: Rules, forest: bool, problems: Sequence[Problem], memory: Sorted) -> Packed:
    """Number each problem's sets of rows: first those the trees are grown on, then those only predicted."""
    arrays = [X for problem in problems for X in (*problem.X, *problem.asked)]
    blocks = memory(arrays)
    place, sizes = blocks.place, blocks.sizes.tolist()
    used, used_ends, sources, row_ends = [], [0], [], [0]
    asked: list[list[slice]] = []
    source = row = 0
    for problem in problems:
        where: dict[int, slice] = {}
        for X in problem.X:
            block = place[id(X)]
            size = sizes[block]
            used.append(block)
            sources.append(source)
            where[block] = slice(row, row + size)
            source += size
            row += size
        mine = []
        for X in problem.asked:
            block = place[id(X)]
            if block not in where:
                size = sizes[block]
                used.append(block)
                sources.append(-1)
                where[block] = slice(row, row + size)
                row += size
            mine.append(where[block])
        asked.append(mine)
        used_ends.append(len(used))
        row_ends.append(row)
    target = np.concatenate([part for problem in problems for part in problem.target])
    weight = np.concatenate([part for problem in problems for part in problem.weight])
    _check(target, weight, source)
    return Packed(
        blocks,
        np.array(used, dtype=np.int64),
        np.array(used_ends, dtype=np.int64),
        np.array(sources, dtype=np.int64),
        np.array(row_ends, dtype=np.int64),
        arrays[0].shape[1],
        np.ascontiguousarray(target, dtype=np.float64),
        np.ascontiguousarray(weight, dtype=np.float64),
        _seeds(rules, forest, [problem.seed for problem in problems]),
        asked,
    )


def _check(target: FloatArray, weight: FloatArray, rows: int) -> None:
    if len(target) != rows or len(weight) != rows:
        raise FedRelaxError(
            f"{rows} rows have {len(target)} targets and {len(weight)} weights; give each row one of both"
        )
    if not (np.isfinite(target).all() and np.isfinite(weight).all()):
        raise FedRelaxError("a target or a weight is NaN or infinite")


def _seeds(rules: Rules, forest: bool, seeds: Sequence[int]) -> AnyArray:
    """Return the seed of every tree; a forest draws those of its trees as scikit-learn does."""
    if not forest:
        return np.array(seeds, dtype=np.int64)[:, None]
    drawn = {
        seed: np.random.RandomState(seed).randint(2**31 - 1, size=rules.trees)
        for seed in set(seeds)
    }
    return np.array([drawn[seed] for seed in seeds], dtype=np.int64)


def _cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
