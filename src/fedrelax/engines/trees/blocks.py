"""Sets of rows, sorted by every feature once for as long as they are in use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from fedrelax.engines.trees.compile import kept
from fedrelax.errors import FedRelaxError
from fedrelax.typing import AnyArray


class Blocks(NamedTuple):
    """Sets of rows one behind the other, each column by column, as 32-bit numbers.

    ``columns[starts[b] * features + f * sizes[b] + r]`` is feature f of row r of set b, and
    ``orders`` has in the same places the rows sorted by the feature.
    """

    columns: AnyArray
    orders: AnyArray
    starts: AnyArray
    sizes: AnyArray
    place: dict[int, int]


@kept
def _sort(
    blocks: AnyArray,
    orders: AnyArray,
    starts: AnyArray,
    sizes: AnyArray,
    new: AnyArray,
    features: int,
) -> None:
    for block in new:
        size = sizes[block]
        for feature in range(features):
            begin = starts[block] * features + feature * size
            orders[begin : begin + size] = np.argsort(blocks[begin : begin + size], kind="mergesort")


class Sorted:
    """Remembers sorted sets of rows by their identity from one batch to the next."""

    def __init__(self) -> None:
        self._arrays: list[AnyArray] = []
        self._blocks: Blocks | None = None

    def __call__(self, arrays: Iterable[AnyArray]) -> Blocks:
        """Return the sorted sets; those that the last call had are not sorted again."""
        wanted = list({id(X): X for X in arrays}.values())
        old = self._blocks
        if old is not None and len(wanted) == len(self._arrays):
            if all(X is Y for X, Y in zip(wanted, self._arrays, strict=True)):
                return old
        self._blocks = self._sorted(wanted, old)
        self._arrays = wanted
        return self._blocks

    def _sorted(self, wanted: list[AnyArray], old: Blocks | None) -> Blocks:
        features = wanted[0].shape[1]
        sizes = np.array([len(X) for X in wanted], dtype=np.int64)
        ends = np.concatenate([[0], np.cumsum(sizes)])
        columns = np.empty(ends[-1] * features, np.float32)
        orders = np.empty(ends[-1] * features, np.uint32)
        new = []
        for block, X in enumerate(wanted):
            here = slice(ends[block] * features, ends[block + 1] * features)
            known = None if old is None else old.place.get(id(X))
            if old is not None and known is not None:
                begin = old.starts[known] * features
                there = slice(begin, begin + len(X) * features)
                columns[here], orders[here] = old.columns[there], old.orders[there]
                continue
            new.append(block)
            with np.errstate(over="ignore"):
                columns[here] = X.T.astype(np.float32, order="C").ravel()
        if not np.isfinite(columns).all():
            raise FedRelaxError("a row holds NaN, infinity or a number too large for 32 bits")
        _sort(columns, orders, ends[:-1], sizes, np.array(new, dtype=np.int64), features)
        place = {id(X): block for block, X in enumerate(wanted)}
        return Blocks(columns, orders, ends[:-1], sizes, place)
