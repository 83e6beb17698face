"""What the compiled functions pass to one another: limits, rows, nodes and working memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedrelax.models.trees.compile import bare, called, compiled
from fedrelax.models.trees.draws import WORDS
from fedrelax.typing import AnyArray, FloatArray

AT_ONCE = 1024
"""Splits evaluated together, so that they stay in the processor's cache."""


class Limits(NamedTuple):
    """The rules that depend on the number and weight of a tree's rows."""

    min_split: int
    min_leaf: int
    min_weight: float
    weight: float


class TreeRows(NamedTuple):
    """The rows of one tree, as the criterion sees them.

    ``part[i, k]`` is weight times target k, or the weight of class k; ``square`` is weight times
    squared target (summed over targets), and ``copies`` the number of labelled copies that the row
    stands for. In regression, ``pair`` has the first target's ``part`` and ``weight`` side by side.
    """

    x: AnyArray
    part: FloatArray
    weight: FloatArray
    square: FloatArray
    copies: AnyArray
    pair: FloatArray


class Nodes(NamedTuple):
    """The nodes of one tree; ``span`` and ``below`` are used only while it grows."""

    link: AnyArray
    """left child, right child, feature, number of rows"""
    number: FloatArray
    """threshold, impurity, weight"""
    missing: AnyArray
    value: FloatArray
    span: AnyArray
    """start, place of the split, end, depth, constant features, whether it is a leaf"""
    below: FloatArray
    """impurity on the left, impurity on the right, improvement"""


class Room(NamedTuple):
    """Working memory of one thread."""

    orders: AnyArray
    """Row numbers sorted by each feature; those of a node are adjacent."""
    samples: AnyArray
    spare: AnyArray
    """Three scratch lists of rows or of places."""
    goes_left: AnyArray
    features: AnyArray
    constants: AnyArray
    stack: AnyArray
    frontier: AnyArray
    leaf: AnyArray
    total: FloatArray
    left: FloatArray
    alone: FloatArray
    """Gains of splits of two or three rows: each row alone on the left, each alone on the right."""
    gain: FloatArray
    place: AnyArray
    """The best split by each feature; place 0 for a constant one."""
    sums: FloatArray
    weights: FloatArray
    gains: FloatArray
    """For all splits by several features: sum of targets and of weights on the left, and the gain."""
    state: AnyArray
    twister: AnyArray


@called
def new_rows(features: int, rows: int, outputs: int) -> TreeRows:
    """Allocate the rows of a tree."""
    return TreeRows(
        np.empty((features, rows), np.float32),
        np.empty((rows, outputs)),
        np.empty(rows),
        np.empty(rows),
        np.empty(rows, np.int64),
        np.empty(2 * rows),
    )


@called
def new_nodes(capacity: int, outputs: int) -> Nodes:
    """Allocate the nodes of a tree."""
    return Nodes(
        np.empty((capacity, 4), np.int64),
        np.empty((capacity, 3)),
        np.empty(capacity, np.uint8),
        np.empty((capacity, outputs)),
        np.empty((capacity, 6), np.int64),
        np.empty((capacity, 3)),
    )


@called
def new_room(features: int, rows: int, outputs: int) -> Room:
    """Allocate the working memory for growing a tree."""
    return Room(
        np.empty((features, rows), np.uint32),
        np.empty(rows, np.uint32),
        np.empty((3, rows), np.uint32),
        np.empty(rows, np.uint8),
        np.empty(features, np.uint32),
        np.empty(features, np.uint32),
        np.empty(2 * rows + 2, np.int64),
        np.empty(2 * rows + 2, np.int64),
        np.empty(rows, np.int64),
        np.empty(outputs),
        np.empty(outputs),
        np.empty((2, 3)),
        np.empty(features),
        np.empty(features, np.int64),
        np.empty(max(rows, AT_ONCE)),
        np.empty(max(rows, AT_ONCE)),
        np.empty(max(rows, AT_ONCE)),
        np.empty(1, np.int64),
        np.empty(WORDS + 1, np.int64),
    )


@compiled
def bare_rows(rows: TreeRows) -> TreeRows:
    """Return the arrays without their owner."""
    return TreeRows(
        bare(rows.x),
        bare(rows.part),
        bare(rows.weight),
        bare(rows.square),
        bare(rows.copies),
        bare(rows.pair),
    )


@compiled
def bare_nodes(nodes: Nodes) -> Nodes:
    """Return the arrays without their owner."""
    return Nodes(
        bare(nodes.link),
        bare(nodes.number),
        bare(nodes.missing),
        bare(nodes.value),
        bare(nodes.span),
        bare(nodes.below),
    )


@compiled
def bare_room(room: Room) -> Room:
    """Return the arrays without their owner."""
    return Room(
        bare(room.orders),
        bare(room.samples),
        bare(room.spare),
        bare(room.goes_left),
        bare(room.features),
        bare(room.constants),
        bare(room.stack),
        bare(room.frontier),
        bare(room.leaf),
        bare(room.total),
        bare(room.left),
        bare(room.alone),
        bare(room.gain),
        bare(room.place),
        bare(room.sums),
        bare(room.weights),
        bare(room.gains),
        bare(room.state),
        bare(room.twister),
    )
