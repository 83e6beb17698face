"""Which rows belong to which node, and which of them are held out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np
import numpy.typing as npt

from fedrelax.errors import FedRelaxError
from fedrelax.typing import AnyArray, IntArray, Label

Part = tuple[dict[Label, AnyArray], dict[Label, AnyArray]]
"""The row numbers of every node to train on, and those that are held out."""

TEST_STREAM, FOLD_STREAM = 2, 3
"""Separate the draws of test rows and of folds from other draws under one seed."""
HASH_FACTOR, HASH_BLOCK = np.uint64(0x9E3779B97F4A7C15), 1_000_000
"""An odd number that mixes the bits of a hash, and how many numbers are hashed at a time."""


def hold_out(rows: int, share: float, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Return the row numbers to train on and to hold out; at least one row is left to train on.

    >>> train, held = hold_out(5, 0.4, np.random.default_rng(0))
    >>> len(train), len(held)
    (3, 2)
    >>> [len(part) for part in hold_out(1, 0.4, np.random.default_rng(0))]
    [1, 0]
    """
    count = min(round(rows * share), rows - 1)
    if share <= 0 or count < 1:
        return np.arange(rows), np.arange(0)
    order = rng.permutation(rows)
    return np.sort(order[count:]), np.sort(order[:count])


def training_mask(
    rows: Mapping[Label, AnyArray],
    share: float,
    rng: np.random.Generator,
    groups: AnyArray | None = None,
) -> npt.NDArray[np.bool_]:
    """Return the mask of the training rows: all but a share of every node's row numbers ``rows``.

    With ``groups``, one value for each of all rows, a share of the values is held out, at all nodes. A node
    whose values are all held out has no row to train on; it is up to the caller to leave it out.

    >>> rows = {"a": np.array([0, 2, 4, 6]), "b": np.array([1, 3]), "c": np.array([5])}
    >>> mask = training_mask(rows, 0.5, np.random.default_rng(0))
    >>> {label: int(mask[index].sum()) for label, index in rows.items()}
    {'a': 2, 'b': 1, 'c': 1}
    >>> rows = {"a": np.arange(4), "b": np.arange(4, 8)}
    >>> training_mask(rows, 0.25, np.random.default_rng(0), np.tile([1, 2, 3, 4], 2)).sum().item()
    6
    """
    if groups is None:
        train = np.ones(sum(map(len, rows.values())), dtype=bool)
        for index in rows.values():
            train[index[hold_out(len(index), share, rng)[1]]] = False
        return train
    own = np.concatenate(list(rows.values()))
    values, codes = np.unique(groups[own], return_inverse=True)
    count = min(max(round(len(values) * share), 1), len(values) - 1) if share > 0 else 0
    out = np.zeros(len(values), dtype=bool)
    out[rng.permutation(len(values))[:count]] = True
    train = np.ones(len(groups), dtype=bool)
    train[own[out[codes]]] = False
    return train


def deal(
    rows: Mapping[Label, AnyArray],
    folds: int,
    rng: np.random.Generator,
    groups: AnyArray | None = None,
    times: AnyArray | None = None,
    seeds: Sequence[int] | None = None,
) -> list[Part]:
    """Return, for each fold, the row numbers of every node to train on and those to hold out.

    With ``seeds``, every node's rows are dealt by ``deal_own`` with its own one, as sites do that.

    With ``groups``, the value of every row, whole groups (days, patients) are held out: rows of one value
    are never on both sides, at any node. With ``times``, one later stretch of time after another is held
    out, and all that comes before it is trained on. A node's only row is never held out; a node that would
    be left without a row to train on takes no part in a fold, and folds that hold out nothing are left out.

    >>> rows = {"a": np.arange(4), "b": np.array([4])}
    >>> parts = deal(rows, 2, np.random.default_rng(0))
    >>> [(len(train["a"]), len(held["a"]), len(train["b"])) for train, held in parts]
    [(2, 2, 1), (2, 2, 1)]
    >>> rows = {"a": np.arange(3), "b": np.arange(3, 6)}
    >>> parts = deal(rows, 3, np.random.default_rng(0), groups=np.array([0, 1, 2, 0, 1, 2]))
    >>> [(len(train["a"]), len(held["b"])) for train, held in parts]
    [(2, 1), (2, 1), (2, 1)]
    >>> rng, times = np.random.default_rng(0), np.array([3, 0, 1, 2])
    >>> [held["a"].tolist() for _, held in deal({"a": np.arange(4)}, 4, rng, times=times)]
    [[2], [3], [0]]
    """
    counts, own = [len(index) for index in rows.values()], np.concatenate(list(rows.values()))
    if groups is None and times is None:
        if seeds is None:
            dealt = [_dealt(n, folds, rng) for n in counts]
        else:
            dealt = [deal_own(n, folds, seed) for n, seed in zip(counts, seeds, strict=True)]
        fold_of = np.concatenate(dealt)
    else:
        column = np.asarray(times if groups is None else groups)
        values, codes = np.unique(column[own], return_inverse=True)
        order = np.arange(len(values))
        in_turn = order * folds // len(values)
        fold_of = (in_turn if groups is None else rng.permutation(order % folds))[codes]
    ends = np.cumsum(counts)[:-1]
    nodes = list(zip(rows, np.split(own, ends), np.split(fold_of, ends), strict=True))
    parts = []
    for fold in range(folds):
        train, held = {}, {}
        for label, index, at in nodes:
            left = index[at != fold if times is None else at < fold]
            if len(left):
                train[label], held[label] = left, index[at == fold]
        if any(map(len, held.values())):
            parts.append((train, held))
    return parts


def _dealt(rows: int, folds: int, rng: np.random.Generator) -> IntArray:
    return rng.permutation(np.arange(rows) % folds) if rows > 1 else np.full(rows, -1)


def deal_own(rows: int, folds: int, seed: int) -> IntArray:
    """Return the fold that holds out each row of a node with a seed of its own; -1 for an only row."""
    return _dealt(rows, folds, np.random.default_rng([seed, FOLD_STREAM]))


def as_seed(random_state: Any) -> int:
    """Return a whole number from ``random_state``: a number, None (a new one each time) or a generator.

    >>> as_seed(7), as_seed(np.random.default_rng(0)) == as_seed(np.random.default_rng(0))
    (7, True)
    """
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        return int(random_state)
    if random_state is None:
        random_state = np.random.default_rng()
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    raise FedRelaxError(
        f"random_state={random_state!r} must be a whole number, None, a numpy.random.Generator or a "
        "RandomState"
    )


class RowGroups(Mapping[Label, IntArray]):
    """The row numbers of every node: node i has ``order[offsets[i]:offsets[i + 1]]``.

    >>> groups = group_rows(["a", "b", "a"], 3)
    >>> groups["a"].tolist(), groups.take(np.array([5, 6, 7])).tolist()
    ([0, 2], [5, 7, 6])
    """

    def __init__(self, labels: tuple[Label, ...], order: IntArray, offsets: IntArray) -> None:
        self.labels, self.order, self.offsets = labels, order, offsets
        self._place: dict[Label, int] | None = None

    @classmethod
    def of(
        cls, rows: Mapping[Label, AnyArray], labels: tuple[Label, ...] | None = None
    ) -> RowGroups:
        """Return row numbers by node in this form, for given ``labels``; a node may have no rows."""
        if isinstance(rows, RowGroups) and labels in (None, rows.labels):
            return rows
        names, none = tuple(rows) if labels is None else labels, np.arange(0)
        parts = [np.asarray(rows.get(name, none), dtype=np.int64) for name in names]
        offsets = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        return cls(names, np.concatenate(parts) if parts else none, offsets)

    def take(self, values: AnyArray) -> AnyArray:
        """Return the rows of an array, node by node; the array itself if it is in that order already."""
        if len(self.order) == len(values) and (np.diff(self.order) == 1).all():
            return values
        return values[self.order]

    def arranged(
        self, X: AnyArray, y: AnyArray, kind: str, first: Sequence[Label] = ()
    ) -> RowGroups:
        """Return the same groups in an order that depends on what rows hold, not on where they stand.

        Nodes come in the order of ``first``, the others by name. Where the target is a number (``kind`` is
        "regression"), the rows of a node are sorted by their features, so that units do not matter, either;
        where it is a class, they come in the order of a hash of what they hold.
        """
        names, rank = list(self.labels), np.arange(len(self.labels))
        if tuple(first) != self.labels:
            known, own = set(first), set(names)
            rest = _by_name([name for name in names if name not in known])
            names = [*(name for name in first if name in own), *rest]
            place = dict(zip(names, range(len(names)), strict=True))
            rank = np.fromiter(map(place.__getitem__, self.labels), np.int64, len(names))
        node = np.repeat(rank, np.diff(self.offsets))
        numbers = kind == "regression" and np.asarray(X).dtype.kind in "fiub"

        def keys() -> Iterator[AnyArray]:
            yield from np.asarray(X).reshape(len(X), -1).T if numbers else [row_hashes(X)]
            yield row_hashes(y)

        order = self.order[_sorted(node, (key[self.order] for key in keys()))]
        counts = np.bincount(node, minlength=len(names))
        return RowGroups(tuple(names), order, np.cumsum([0, *counts], dtype=np.int64))

    def held_out(self, share: float, rng: np.random.Generator) -> tuple[RowGroups, RowGroups]:
        """Return the row numbers to train on and those to hold out, a share of every node's."""
        if share <= 0:
            empty = np.zeros(len(self.labels) + 1, dtype=np.int64)
            return self, RowGroups(self.labels, self.order[:0], empty)
        train, held = {}, {}
        for label, index in self.items():
            stay, out = hold_out(len(index), share, rng)
            train[label], held[label] = index[stay], index[out]
        return RowGroups.of(train), RowGroups.of(held)

    def place(self, label: Label) -> int:
        """Return the place of a node among the labels."""
        if self._place is None:
            self._place = {name: place for place, name in enumerate(self.labels)}
        return self._place[label]

    def __getitem__(self, label: Label) -> IntArray:
        i = self.place(label)
        return self.order[self.offsets[i] : self.offsets[i + 1]]

    def __iter__(self) -> Iterator[Label]:
        return iter(self.labels)

    def __len__(self) -> int:
        return len(self.labels)


def _by_name(labels: Sequence[Label]) -> list[Label]:
    """Return labels sorted; labels of several kinds, or without an order, by how they are written."""
    for kind in (str, (int, float)):
        if all(isinstance(label, kind) for label in labels):
            return sorted(labels)  # type: ignore[type-var]
    return sorted(labels, key=repr)


def _sorted(group: IntArray, keys: Iterable[AnyArray]) -> IntArray:
    """Return the order by group and, within one, by the first key, where that is equal by the next, ...

    >>> _sorted(np.array([1, 0, 0]), [np.array([5.0, 2.0, 2.0]), np.array([0.0, 9.0, 8.0])]).tolist()
    [2, 1, 0]
    """
    order = np.argsort(group, kind="stable")
    code = group[order]
    for key in keys:
        starts = np.flatnonzero(np.diff(code, prepend=-1))
        sizes = np.diff(starts, append=len(code))
        for size in np.unique(sizes[sizes > 1]).tolist():
            at = starts[sizes == size, None] + np.arange(size)
            within = np.argsort(key[order[at]], axis=1, kind="stable")
            order[at] = np.take_along_axis(order[at], within, axis=1)
        if len(starts) == len(code):
            break
        one, other = key[order[1:]], key[order[:-1]]
        first = np.diff(code, prepend=-1) != 0  # what differs from the row before
        first[1:] |= (one != other) & ((one == one) | (other == other))  # NaN equals NaN here
        code = np.cumsum(first)
    return order


def row_hashes(values: AnyArray) -> npt.NDArray[np.uint64]:
    """Return a hash of what every row holds; equal rows have equal hashes, wherever they stand.

    >>> a, b, c = row_hashes(np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0]])).tolist()
    >>> a == c, a == b
    (True, False)
    """
    import pandas as pd

    table = np.asarray(values).reshape(len(values), -1)
    if table.dtype.kind not in "fiub":
        table = np.column_stack([pd.util.hash_array(column) for column in table.T])
    width = table.shape[1]
    factors = 2 * np.random.default_rng(width).integers(2**63, size=width, dtype=np.uint64) + 1
    found, step = np.empty(len(table), dtype=np.uint64), max(HASH_BLOCK // max(width, 1), 1)
    for start in range(0, len(table), step):
        block = table[start : start + step]
        if block.dtype != np.uint64:
            block = (block.astype(np.float64) + 0.0).view(np.uint64)  # -0.0 becomes 0.0
        block = (block ^ (block >> np.uint64(32))) * HASH_FACTOR
        block ^= block >> np.uint64(29)
        found[start : start + step] = (block * factors).sum(axis=1, dtype=np.uint64)
    return found ^ (found >> np.uint64(32))


def group_rows(nodes: Any, n_rows: int) -> RowGroups:
    """Return the row numbers of every node, nodes in the order of their first row."""
    import pandas as pd

    if isinstance(nodes, Mapping | Set | str | bytes) or not isinstance(nodes, Iterable):
        raise FedRelaxError(
            f"nodes is a {type(nodes).__name__}; pass one label per row, in the order of the rows"
        )
    if hasattr(nodes, "to_numpy"):
        labels = nodes.to_numpy()
    elif isinstance(nodes, np.ndarray):
        labels = nodes if nodes.dtype.kind in "iu" else nodes.astype(object)
    else:
        labels = np.fromiter(nodes, dtype=object)  # Labels that are tuples stay whole.
    if labels.ndim != 1 or len(labels) != n_rows:
        raise FedRelaxError(f"nodes has shape {labels.shape}, but X has {n_rows} rows")
    try:
        codes, names = pd.factorize(labels)
    except TypeError as error:
        raise FedRelaxError(
            f"nodes holds a label that cannot name a node ({error}); use text or numbers"
        ) from None
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        raise FedRelaxError(f"nodes has a missing label in row {row}; every row needs a node")
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes, minlength=len(names))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    plain = names.tolist() if isinstance(names, np.ndarray) else list(names)
    if labels.dtype.kind not in "iu":
        plain = [name.item() if isinstance(name, np.generic) else name for name in plain]
    return RowGroups(tuple(plain), order, offsets)
