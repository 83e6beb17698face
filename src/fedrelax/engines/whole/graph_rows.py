"""Training rows on a graph, and how a setting is judged on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fedrelax.engines.whole.closed import NodeSums, level_and_shape
from fedrelax.engines.whole.graphs import Mesh, graph_evidence, solve_graph
from fedrelax.engines.whole.ridge_rows import FAINT, Fold, Rows, ridge_of, square
from fedrelax.typing import FloatArray

WORTH = 1e-4
"""A step must lower the error on folds by this share, or minus twice the log evidence by 0.1."""


@dataclass(frozen=True)
class Setting:
    """One candidate: powers of ten, and the equal pull between all nodes as a share of the graph's.

    ``bend`` and ``bend_strength`` are the penalty and the pull of curves.
    """

    penalty: float
    strength: float
    level: float
    share: float = 0.0
    bend: float = 0.0
    bend_strength: float = 0.0

    @property
    def words(self) -> str:
        """The setting in words."""
        words = f"penalty {10**self.penalty:.3g}, pull {10**self.strength:.3g} along the graph"
        words += f", {10**self.level:.3g} of it on the level"
        return words + (f", {self.share:g} of it between all nodes alike" if self.share else "")


class GraphRows:
    """Training rows with one set of columns on a graph, which judge settings.

    The last ``bends`` columns before the constant one are curves.
    """

    def __init__(self, rows: Rows, mesh: Mesh, bends: int = 0) -> None:
        self.rows, self.mesh, self.bends = rows, mesh, bends
        plain = np.delete(rows.X, np.s_[rows.X.shape[1] - 1 - bends : -1], axis=1)
        self._Q, self._mean = plain.T @ plain / len(plain), plain.mean(axis=0)
        self._scores: dict[Setting, float] = {}

    def matrices(self, setting: Setting) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the diagonal of the ridge R, the coupling P along edges, and E between all nodes."""
        d, unit = self.rows.X.shape[1], self.rows.pull
        curved = np.arange(d - 1 - self.bends, d - 1)
        plain = np.setdiff1d(np.arange(d), curved)
        ridge, P = ridge_of(10**setting.penalty, d), np.zeros((d, d))
        ridge[curved] = 10**setting.bend
        shape = level_and_shape(self._Q, self._mean, 10**setting.level)
        P[np.ix_(plain, plain)] = 10**setting.strength * unit * shape
        P[curved, curved] = 10**setting.bend_strength * unit
        E = setting.share * P
        if not setting.share and self.mesh.parts > 1:
            E[-1, -1] = FAINT
        return ridge, P, E

    def score(self, setting: Setting) -> float:
        """Judge a setting by the error on folds if there are any, else by evidence; lower is better."""
        if setting not in self._scores:
            self._scores[setting] = self._judged(setting)
        return self._scores[setting]

    def _judged(self, setting: Setting) -> float:
        R, P, E = self.matrices(setting)
        if self.rows.folds:
            return fold_error(self.rows, lambda kept: solve_graph(kept, self.mesh, R, P, E).models)
        sums = self.rows.sums
        return graph_evidence(sums, self.mesh, solve_graph(sums, self.mesh, R, P, E))

    def improves(self, setting: Setting, best: Setting) -> bool:
        """Tell whether a setting is better than the best so far by more than a trifle."""
        least = WORTH * self.score(best) if self.rows.folds else 0.1
        return self.score(setting) < self.score(best) - least

    def models(self, setting: Setting) -> FloatArray:
        """Return the models (n, d) of a setting."""
        return solve_graph(self.rows.sums, self.mesh, *self.matrices(setting)).models

    def with_folds(self, folds: Sequence[Fold]) -> GraphRows:
        """Return the same rows with other folds."""
        if self.rows.folds is folds:
            return self
        return GraphRows(self.rows.with_folds(folds), self.mesh, self.bends)


def fold_error(rows: Rows, solve: Callable[[NodeSums], FloatArray]) -> float:
    """Return the mean squared error on folds; ``solve`` gets the sums over the other rows."""
    left = []
    for (_, fold), kept in zip(rows.folds, rows.kept, strict=True):
        models = solve(kept)[rows.node[fold]]
        left.append(rows.y[fold] - np.einsum("ri,ri->r", rows.X[fold], models))
    return square(np.concatenate(left))
