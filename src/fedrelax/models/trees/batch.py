"""Many trees or forests at once: from rows, targets and weights to predictions."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import joblib
import numpy as np
from sklearn.tree._tree import NODE_DTYPE

from fedrelax.errors import FedRelaxError
from fedrelax.models.trees.estimators import (
    GrownTree,
    Problem,
    bootstraps,
    first_state,
    tree_seeds,
)
from fedrelax.models.trees.kernel import grow_forest
from fedrelax.models.trees.rules import SQUARED_ERROR, Rules
from fedrelax.typing import AnyArray, FloatArray, IntArray


class Packed(NamedTuple):
    """Problems in the form the compiled loop takes.

    The rows of problem p, first those its trees are grown on, then those only predicted, have the columns
    ``columns[p]`` (features, rows) and are sorted by each of them in ``orders[p]``. Their targets and
    weights are those from ``ends[p]`` to ``ends[p + 1]``; rows that are only predicted have weight 0.
    """

    columns: list[AnyArray]
    orders: list[AnyArray]
    ends: IntArray
    target: FloatArray
    weight: FloatArray
    seeds: list[int]
    asked: list[list[slice]]
    """For each problem, where the predictions for each set of rows in its ``asked`` will be."""


def pack(problems: Sequence[Problem]) -> Packed:
    """Join and sort each problem's sets of rows."""
    columns, orders, ends, target, weight, asked = [], [], [0], [], [], []
    for problem in problems:
        sets = list(zip(problem.X, problem.target, problem.weight, strict=True))
        grown_on, outputs = {id(X) for X in problem.X}, problem.target[0].shape[1]
        for X in {id(X): X for X in problem.asked if id(X) not in grown_on}.values():
            sets.append((X, np.zeros((len(X), outputs)), np.zeros(len(X))))
        row, where = ends[-1], {}
        for X, goals, weights in sets:
            if not len(X) == len(goals) == len(weights):
                raise FedRelaxError(
                    f"{len(X)} rows have {len(goals)} targets and {len(weights)} weights; "
                    "give each row one of both"
                )
            where[id(X)] = slice(row, row + len(X))
            target.append(goals)
            weight.append(weights)
            row += len(X)
        with np.errstate(over="ignore"):
            rows = np.concatenate([X for X, _, _ in sets]).T.astype(np.float32, order="C")
        if not np.isfinite(rows).all():
            raise FedRelaxError("a row holds NaN, infinity or a number too large for 32 bits")
        columns.append(rows)
        orders.append(rows.argsort(axis=1, kind="stable").astype(np.uint32))
        asked.append([where[id(X)] for X in problem.asked])
        ends.append(row)
    goals, weights = np.concatenate(target).astype(float), np.concatenate(weight).astype(float)
    if not (np.isfinite(goals).all() and np.isfinite(weights).all()):
        raise FedRelaxError("a target or a weight is NaN or infinite")
    seeds = [problem.seed for problem in problems]
    return Packed(columns, orders, np.array(ends), goals, weights, seeds, asked)


def answers(
    rules: Rules, problems: Sequence[Problem], threads: int | None = None
) -> list[list[FloatArray]]:
    """Grow all trees and return each problem's predictions for the rows it asks for.

    The number of threads (None: one per core) does not change the result.
    """
    packed = pack(problems)
    every = answers_of(rules, packed, threads)
    return [[every[rows] for rows in asked] for asked in packed.asked]


def answers_of(rules: Rules, packed: Packed, threads: int | None = None) -> FloatArray:
    """Grow all trees and return their predictions for all rows, one problem after another."""
    every, ends = np.empty_like(packed.target), packed.ends

    def grow(p: int) -> None:
        _grow(rules, _inputs(rules, packed, p), every[ends[p] : ends[p + 1]])

    with ThreadPoolExecutor(threads or joblib.cpu_count()) as pool:
        list(pool.map(grow, range(len(packed.seeds))))
    return every


def grown(rules: Rules, problem: Problem) -> list[GrownTree]:
    """Return the trees of one problem."""
    packed = pack([problem])
    *rows, drawn, states = _inputs(rules, packed, 0)
    unused = np.empty_like(packed.target)
    each = (slice(tree, tree + 1) for tree in range(rules.trees))
    return [_grow(rules, (*rows, drawn[tree], states[tree]), unused) for tree in each]


def _inputs(rules: Rules, packed: Packed, p: int) -> tuple[AnyArray, ...]:
    """Return columns, orders, targets, weights, bootstraps and random states of a problem."""
    rows, seed = slice(packed.ends[p], packed.ends[p + 1]), packed.seeds[p]
    target, weight = packed.target[rows], packed.weight[rows, None]
    if rules.criterion != SQUARED_ERROR:
        weight = weight * target
    drawn = np.empty((0, *weight.shape), dtype=np.int64)
    if rules.bootstrap:
        drawn = bootstraps(rules, seed, weight.ravel()).reshape(-1, *weight.shape)
    states = np.array([first_state(each) for each in tree_seeds(rules, seed)])
    return packed.columns[p], packed.orders[p], target, weight, drawn, states


def _grow(rules: Rules, inputs: tuple[AnyArray, ...], answers: FloatArray) -> GrownTree:
    """Grow trees from their ``_inputs`` and write their answers; return the last tree."""
    rows, outputs = answers.shape
    nodes, value = np.zeros(2 * rows, dtype=NODE_DTYPE), np.empty((2 * rows, outputs))
    x, orders, target, weight, drawn, states = inputs
    count, depth = grow_forest(
        rules, x, orders, target, weight, drawn, states, answers, nodes, value
    )
    return GrownTree(nodes[:count], value[:count], depth)
