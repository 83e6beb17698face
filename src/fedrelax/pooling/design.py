"""The columns of all candidates of partial pooling, and what public rows tell of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import qr

from fedrelax.linear.arrays import centre_and_spread
from fedrelax.models.curves import Curves, Values
from fedrelax.pooling.columns import Columns
from fedrelax.pooling.exchange import Reply, Smooth
from fedrelax.pooling.rows import ClassRows, NumberRows, OwnRows
from fedrelax.typing import AnyArray, FloatArray, IntArray

BEYOND = 0.25
"""How far curves go on beyond the range of the public rows, which are blends, by this share of it."""
MOST_KNOTS, MOST_LINES = 12, 36
"""The most knots in the smooth line of a column, and of all columns together."""
MOST_WORK = 1e8
"""Nodes times columns cubed up to which columns are added."""
INDEPENDENT = 1e-4
"""The least part of a column's standard deviation that columns before it do not explain."""


@dataclass(frozen=True)
class Design:
    """The columns of all candidates, made from public rows (m, p).

    ``owner`` (m,) says which node has drawn each public row from its own; None if nobody in particular.
    """

    public: FloatArray
    owner: IntArray | None
    rows: IntArray
    """How many rows each node has."""
    columns: Columns
    classes: int = 0
    """How many classes there are; 0 for numbers."""
    smooth: Smooth | None = None
    """Functions of the nodes, if a graph joins some of them more than others."""

    @classmethod
    def of(
        cls,
        public: FloatArray,
        owner: IntArray | None,
        rows: IntArray,
        *,
        level: float = 0.0,
        size: float = 1.0,
        classes: int = 0,
        curves: bool = True,
        nodes: int | None = None,
        smooth: Smooth | None = None,
    ) -> Design:
        """Make the columns; ``level`` and ``size`` are those of the target, if it is a number.

        Curves are left out if they would take too long for all nodes, or for so many ``nodes``.
        """
        centre, spread = centre_and_spread(public)
        plain, p = Columns(centre, spread, level, size), public.shape[1]
        if not curves:
            return cls(public, owner, rows, plain, classes, smooth)
        Z = (public - centre) / spread
        knots = max(min(MOST_KNOTS, MOST_LINES // max(p, 1)), 1)
        bases: dict[str, Curves | Values] = {
            "curves": Curves.of(Z, beyond=BEYOND),
            "lines": Curves.of(Z, knots, power=1, beyond=BEYOND),
        }
        if owner is not None:
            bases["values"] = Values.of(public, owner)
        scores = max(classes - 1, 1)
        added: dict[str, Any] = {
            name: basis
            for name, basis in bases.items()
            if len(basis) and scores * (nodes or len(rows)) * (p + len(basis)) ** 3 <= MOST_WORK
        }
        return cls(public, owner, rows, replace(plain, **added), classes, smooth)

    @property
    def scores(self) -> int:
        """How many scores a model has."""
        return max(self.classes - 1, 1)

    @property
    def curvature(self) -> float:
        """The curvature of a row, at most, if all classes are as frequent."""
        return 1.0 / 4 if self.classes == 2 else 1.0 / max(self.classes, 1)

    @cached_property
    def answers(self) -> FloatArray:
        """The columns of the public rows."""
        return self.columns(self.public)

    @property
    def told(self) -> int:
        """How many numbers a node reports of a candidate, at most."""
        places = 1 if self.smooth is None else self.smooth.values.shape[1]
        return Reply.size(self.scores, self.answers.shape[1], places)

    @cached_property
    def telling(self) -> FloatArray:
        """The columns of those public rows on which nodes answer: no more than tell a model.

        Answers of a linear model on the other rows follow from these.
        """
        order = qr(self.answers.T, mode="r", pivoting=True)[1]
        return np.asarray(self.answers[np.sort(order[: self.answers.shape[1]])])

    @cached_property
    def plain(self) -> IntArray:
        """The columns of the table that say more than a constant and the columns before them.

        Answers on the public rows would not tell the coefficients of others from those of these.
        """
        return self.independent(np.arange(len(self.columns.centre)))

    def independent(self, places: IntArray, before: IntArray | None = None) -> IntArray:
        """Return those of some columns that a constant and the columns before them do not explain."""
        first = np.append(-1, [] if before is None else before).astype(np.int64)
        A = self.answers[:, np.concatenate([first, places])]
        sizes = np.abs(np.diag(np.linalg.qr(A, mode="r")))
        sizes = np.append(sizes, np.zeros(A.shape[1] - len(sizes)))[len(first) :]
        most = np.sqrt(np.square(A[:, len(first) :]).sum(axis=0))
        return np.asarray(places[sizes > INDEPENDENT * most])

    def own_rows(self, X: FloatArray, y: AnyArray, node: IntArray, n: int) -> OwnRows:
        """Return the rows of n nodes, given the node of each; ``y`` are numbers or codes of classes."""
        A = self.columns(X)
        if self.classes:
            return ClassRows.made(A, y, node, n, self.classes)
        return NumberRows.made(A, (y - self.columns.level) / self.columns.size, node, n)

    @cached_property
    def estimate(self) -> FloatArray:
        """Estimates of the nodes' curvature, from the public rows of each."""
        A, counts = self.answers, self.curvature * self.rows
        if self.owner is None:
            return counts[:, None, None] * (A.T @ A) / len(A)
        grams = np.zeros((len(counts), A.shape[1], A.shape[1]))
        for i, count in enumerate(counts):
            own = A[self.owner == i]
            grams[i] = count * (own.T @ own) / max(len(own), 1)
        return grams
