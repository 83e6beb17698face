"""Rows of all nodes, equal or unequal in number, read in groups that fit into a small buffer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from fedrelax.engines.linear.blocks import Blocks
from fedrelax.errors import FedRelaxError
from fedrelax.typing import AnyArray, FloatArray, IntArray

BUFFER_NUMBERS = 1 << 20
"""Numbers in a buffer of rows: 8 MB."""


class NodeRows:
    """Rows of n nodes: stacked ``(n, m, d)``, or ``(N, d)`` with row offsets of length n + 1."""

    def __init__(self, values: npt.ArrayLike, offsets: npt.ArrayLike | None, *, name: str) -> None:
        array = np.asarray(values)
        self.name = name
        if offsets is None:
            if array.ndim != 3:
                raise FedRelaxError(
                    f"{name}: expected stacked rows of shape (nodes, rows, features), found shape "
                    f"{array.shape}; pass (rows, features) together with offsets for unequal nodes"
                )
            n, m, _ = array.shape
            self.offsets: IntArray = np.arange(n + 1, dtype=np.int64) * m
            array = array.reshape(n * m, array.shape[2])
        else:
            self.offsets = np.asarray(offsets, dtype=np.int64)
            if array.ndim != 2 or self.offsets.ndim != 1 or self.offsets.size < 1:
                raise FedRelaxError(
                    f"{name}: offsets go with rows of shape (rows, features), found {array.shape}"
                )
            if self.offsets[0] != 0 or self.offsets[-1] != len(array):
                raise FedRelaxError(
                    f"{name}: offsets must run from 0 to the number of rows {len(array)}, found "
                    f"{self.offsets[0]} to {self.offsets[-1]}"
                )
        self.flat = array
        self.n = self.offsets.size - 1
        self.d = array.shape[1]
        self.counts: IntArray = np.diff(self.offsets)
        if (self.counts < 0).any():
            raise FedRelaxError(f"{name}: offsets must not decrease")
        self.most = int(self.counts.max(initial=0))

    def groups(
        self, other: AnyArray | None = None
    ) -> Iterator[tuple[IntArray, IntArray, AnyArray]]:
        """Yield nodes, ``take`` (c, m) that indexes the flat rows, and a mask of the real ones.

        Nodes of similar size are grouped, so that padding stays small; a group fits into the buffer.
        """
        order = np.argsort(self.counts, kind="stable")
        width = self.d + (0 if other is None else other.shape[1])
        lo = 0
        while lo < self.n:
            hi = lo + max(1, BUFFER_NUMBERS // max(1, int(self.counts[order[lo]]) * width))
            hi = min(hi, self.n, lo + BUFFER_NUMBERS // 8)
            m = int(self.counts[order[hi - 1]])
            if (hi - lo) * m * width > 2 * BUFFER_NUMBERS:
                hi = lo + max(1, BUFFER_NUMBERS // max(1, m * width))
                m = int(self.counts[order[hi - 1]])
            nodes = order[lo:hi]
            steps = np.arange(m)
            mask = steps < self.counts[nodes, None]
            take = np.where(mask, self.offsets[nodes, None] + steps, 0)
            yield nodes, take, mask
            lo = hi

    def padded(self, take: IntArray, mask: AnyArray, intercept: bool) -> FloatArray:
        """Return a group's rows (c, m, d) in float64, padded with zeros, a constant column last."""
        c, m = take.shape
        rows = np.empty((c, m, self.d + intercept), dtype=np.float64)
        if m and len(self.flat):
            rows[:, :, : self.d] = self.flat[take]
        if intercept:
            rows[:, :, -1] = 1.0
        if not mask.all():
            rows[~mask] = 0.0
        return rows


def uses_rows(n_rows: int, d: int) -> bool:
    """Tell whether rows take less memory than their d x d product: ``m < d``."""
    return n_rows < d


def build_blocks(
    rows: NodeRows,
    *,
    intercept: bool,
    targets: AnyArray | None = None,
    scaling: str = "mean",
) -> tuple[Blocks, AnyArray, FloatArray]:
    """Return ``G_i = X_i' X_i / m_i``, ``b_i = X_i' y_i / m_i`` and ``|y_i|^2 / m_i``.

    With ``scaling`` "rows", nothing is divided by m_i. Without targets, the last two are empty. A node
    without rows gets zeros.
    """
    d = rows.d + intercept
    q = 0 if targets is None else targets.shape[1]
    low_rank = uses_rows(rows.most, d)
    stored = np.zeros((rows.n, rows.most if low_rank else d, d))
    moment = np.zeros((rows.n, d, q))
    power = np.zeros((rows.n, q))
    for nodes, take, mask in rows.groups(targets):
        X = rows.padded(take, mask, intercept)
        root = np.sqrt(np.maximum(rows.counts[nodes], 1))[:, None, None]
        if scaling == "mean":
            X /= root
        flipped = X.transpose(0, 2, 1)
        if low_rank:
            stored[nodes, : X.shape[1]] = X
        else:
            stored[nodes] = flipped @ X
        sound = np.isfinite(X).all(axis=(1, 2))
        if targets is not None and X.shape[1]:
            y = np.where(mask[:, :, None], targets[take], 0.0)
            if scaling == "mean":
                y /= root
            moment[nodes] = flipped @ y
            power[nodes] = np.square(y).sum(axis=1)
            sound &= np.isfinite(y).all(axis=(1, 2))
        if not sound.all():
            raise FedRelaxError(
                f"{rows.name}: node {int(nodes[~sound][0])} (counting from 0) has a value that is "
                "not a finite number; clean or impute its rows"
            )
    return Blocks(stored, low_rank=low_rank), moment, power
