"""Many trees or forests at once: from rows, targets and weights to predictions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.models.trees.estimators import (
    GrownTree,
    Problem,
    bootstraps,
    first_state,
    tree_seeds,
)
from fedrelax.models.trees.kernel import grow_all
from fedrelax.models.trees.rules import SQUARED_ERROR, Rules
from fedrelax.typing import AnyArray, FloatArray, IntArray

PART = 64
"""Forests of so many nodes are grown by one thread at a time; their bootstraps are in memory together."""


class Blocks(NamedTuple):
    """Sets of rows one after another, each stored column by column as 32-bit numbers.

    ``columns[starts[b] * features + f * sizes[b] + r]`` is feature f of row r of set b; at the
    same places, ``orders`` has the row numbers of set b sorted by feature f.
    """

    columns: AnyArray
    orders: AnyArray
    starts: IntArray
    sizes: IntArray


class Sorted:
    """A cache of sorted sets of rows, by identity of their arrays, from one batch to the next."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[AnyArray, AnyArray, AnyArray]] = {}
        self._blocks: Blocks | None = None

    def __call__(self, arrays: Iterable[AnyArray]) -> tuple[Blocks, dict[int, int]]:
        """Return the sorted sets and the number of each; those of the last call are not sorted again."""
        wanted, known = {id(X): X for X in arrays}, self._known
        if self._blocks is None or wanted.keys() != known.keys():
            self._known = {key: known.get(key) or _sorted(X) for key, X in wanted.items()}
            rows, columns, orders = zip(*self._known.values(), strict=True)
            sizes = np.array([len(X) for X in rows], dtype=np.int64)
            starts = np.cumsum(sizes) - sizes
            self._blocks = Blocks(np.concatenate(columns), np.concatenate(orders), starts, sizes)
        return self._blocks, {key: place for place, key in enumerate(self._known)}


def _sorted(X: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray]:
    with np.errstate(over="ignore"):
        columns = X.T.astype(np.float32, order="C")
    if not np.isfinite(columns).all():
        raise FedRelaxError("a row holds NaN, infinity or a number too large for 32 bits")
    orders = columns.argsort(axis=1, kind="stable").astype(np.uint32)
    return X, columns.ravel(), orders.ravel()


class Packed(NamedTuple):
    """Problems in the form the compiled loop takes.

    Problem p has the sets of rows ``used[used_ends[p] : used_ends[p + 1]]``, and their rows are those from
    ``row_ends[p]`` to ``row_ends[p + 1]`` of targets, weights and answers. Rows that are only predicted
    have weight 0.
    """

    blocks: Blocks
    used: IntArray
    used_ends: IntArray
    row_ends: IntArray
    target: FloatArray
    weight: FloatArray
    seeds: list[int]
    states: IntArray
    asked: list[list[slice]]
    """For each problem, where the predictions for each set of rows in its ``asked`` will be."""


def pack(rules: Rules, problems: Sequence[Problem], memory: Sorted) -> Packed:
    """Number each problem's sets of rows: first those the trees are grown on, then those only predicted."""
    blocks, number = memory(X for problem in problems for X in (*problem.X, *problem.asked))
    used, used_ends, row_ends, asked = [], [0], [0], []
    target, weight = [], []
    for problem in problems:
        row, where = row_ends[-1], {}
        grown = zip(problem.X, problem.target, problem.weight, strict=True)
        only_asked = ((X, None, None) for X in problem.asked)
        for X, goal, given in (*grown, *only_asked):
            if goal is None and id(X) in where:
                continue
            if goal is None or given is None:
                goal, given = np.zeros((len(X), problem.target[0].shape[1])), np.zeros(len(X))
            if not len(X) == len(goal) == len(given):
                raise FedRelaxError(
                    f"{len(X)} rows have {len(goal)} targets and {len(given)} weights; "
                    "give each row one of both"
                )
            used.append(number[id(X)])
            where[id(X)] = slice(row, row + len(X))
            target.append(goal)
            weight.append(given)
            row += len(X)
        asked.append([where[id(X)] for X in problem.asked])
        used_ends.append(len(used))
        row_ends.append(row)
    goals, weights = np.concatenate(target).astype(float), np.concatenate(weight).astype(float)
    if not (np.isfinite(goals).all() and np.isfinite(weights).all()):
        raise FedRelaxError("a target or a weight is NaN or infinite")
    seeds = [problem.seed for problem in problems]
    states = [[first_state(each) for each in tree_seeds(rules, seed)] for seed in seeds]
    return Packed(
        blocks,
        np.array(used),
        np.array(used_ends),
        np.array(row_ends),
        goals,
        weights,
        seeds,
        np.array(states),
        asked,
    )


def answers(
    rules: Rules, problems: Sequence[Problem], memory: Sorted, threads: int | None = None
) -> list[list[FloatArray]]:
    """Grow all trees and return each problem's predictions for the rows it asks for.

    The number of threads (None: one per core) does not change the result.
    """
    packed = pack(rules, problems, memory)
    found = answers_of(rules, packed, threads)
    return [[found[rows] for rows in asked] for asked in packed.asked]


def answers_of(rules: Rules, packed: Packed, threads: int | None = None) -> FloatArray:
    """Grow all trees and return their predictions for all rows, one problem after another."""
    found, count = np.empty_like(packed.target), len(packed.seeds)
    threads = _cores() if threads is None else threads
    parts = max(1 if threads == 1 else min(count, 8 * threads), -(-count // PART))
    ends = np.linspace(0, count, parts + 1).astype(int).tolist()
    nothing = _store(0, 0, 1)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda part: _run(rules, packed, *part, found, *nothing), pairwise(ends)))
    return found


def grown(rules: Rules, problem: Problem) -> list[GrownTree]:
    """Return the trees of one problem."""
    packed = pack(rules, [problem], Sorted())
    store = _store(rules.trees, len(packed.weight), packed.target.shape[1])
    _run(rules, packed, 0, 1, np.empty_like(packed.target), *store)
    link, number, value, shape = store
    trees, end = [], 0
    for size, depth in shape.tolist():
        own = slice(end, end + size)
        trees.append(GrownTree(link[own], number[own], value[own], depth))
        end += size
    return trees


def _store(trees: int, rows: int, outputs: int) -> tuple[AnyArray, ...]:
    """Return memory for trees: the parts of ``GrownTree``, then each one's number of nodes and depth."""
    nodes = trees * max(1, 2 * rows - 1)
    return (
        np.empty((nodes, 4), np.int64),
        np.empty((nodes, 3)),
        np.empty((nodes, outputs)),
        np.empty((trees, 2), np.int64),
    )


def _run(
    rules: Rules, packed: Packed, first: int, last: int, found: FloatArray, *store: AnyArray
) -> None:
    """Grow the trees of some problems."""
    begin, end = packed.row_ends[first], packed.row_ends[last]
    target, weight = packed.target[begin:end], packed.weight[begin:end, None]
    weight = weight if rules.criterion == SQUARED_ERROR else weight * target
    row_ends = packed.row_ends[first : last + 1] - begin
    drawn = np.empty((0, weight.shape[1]), dtype=np.int64)
    if rules.bootstrap:
        drawn = np.concatenate(
            [
                bootstraps(rules, seed, weight[low:high].ravel()).reshape(-1, weight.shape[1])
                for seed, (low, high) in zip(
                    packed.seeds[first:last], pairwise(row_ends), strict=True
                )
            ]
        )
    grow_all(
        rules,
        *packed.blocks,
        packed.used,
        packed.used_ends[first : last + 1],
        row_ends,
        target,
        weight,
        drawn,
        packed.states[first:last],
        found[begin:end],
        *store,
    )


def _cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
