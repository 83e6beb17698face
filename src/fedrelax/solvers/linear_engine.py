"""Engines for networks of least-squares models: arrays over all nodes instead of sites."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedrelax.linear import (
    ExactUpdate,
    GradientRounds,
    SequentialRounds,
    Solution,
    solve_accelerated,
    solve_conjugate,
)
from fedrelax.runtime import Record
from fedrelax.solvers.linear_measure import Measures
from fedrelax.typing import FloatArray, Label


@dataclass(frozen=True)
class Exchange:
    """How messages follow from models: damped, and all zero at first if asked for."""

    damping: float = 0.0
    zeros_first: bool = False


class ArrayEngine:
    """Models W and messages V, (n, d, q): what all linear engines share.

    A node's message is its model, ``v <- (1 - damping) w + damping v``: predictions on public rows
    are linear in it. ``factor`` is alpha, or alpha / 2 for the paper's objective.
    """

    def __init__(
        self,
        labels: tuple[Label, ...],
        measures: Measures,
        start: FloatArray,
        factor: float,
        exchange: Exchange,
    ) -> None:
        self.labels = labels
        self.given = self.edges = measures.edges
        self.W = start
        self.V: FloatArray | None = None
        self._measures, self._factor, self._exchange = measures, factor, exchange
        self._on_given = measures
        self._change: FloatArray | None = None

    def start(self) -> None:
        """Begin with the models that were given."""

    def share(self, round: int) -> None:
        """Let every node send its model's predictions."""
        old, damping = self.V, self._exchange.damping
        new = self.W
        if round == 0 and self._exchange.zeros_first:
            new = np.zeros_like(new)
        if old is not None and damping:
            new = (1 - damping) * new + damping * old
        self._change = None if old is None else new - old
        self.V = new

    def measure(self, round: int) -> Record:
        """Return the numbers of the present models."""
        assert self.V is not None
        return self._measures.record(round, self.W, self.V, self._factor, self._change)

    def update(self, round: int) -> None:
        """Move all models; W is replaced, never changed in place."""
        raise NotImplementedError

    def snapshot(self) -> tuple[Any, FloatArray]:
        """Return the graph and the models."""
        return self.edges, self.W

    def restore(self, state: tuple[Any, FloatArray]) -> None:
        """Take earlier models and their graph back and share their predictions."""
        edges, self.W = state
        if edges is not self.edges:
            self.rewire(edges)
        self.V = None
        self.share(-1)

    def settle(self, round: int) -> None:
        """Go on: these models settle from wherever they are."""

    def rewire(self, edges: Any) -> None:
        """Go on with another graph."""
        self.edges = edges
        self._measures = self._measures.on(edges)

    def embedding(self) -> FloatArray:
        """Return every node's message so that squared distances are mean squared differences."""
        assert self.V is not None
        return self._measures.variation.embedding(self.V)

    def own_losses(self, edges: Any) -> FloatArray:
        """Return node i's loss on its own rows under neighbour j's model.

        Answers on public rows determine a linear model, so i can know what j would say of its rows.
        """
        assert self.V is not None
        return self._measures.losses_of_others(edges, self.V)

    def discrepancies(self, edges: Any) -> FloatArray:
        """Return d(i, j) for every stored entry of a CSR matrix, in its order."""
        assert self.V is not None
        measures = self._on_given if edges is self.given else self._measures.on(edges)
        return measures.variation.edges(self.W, self.V)


class ExactEngine(ArrayEngine):
    """``w_i <- (H_i + R_i + alpha S_i)^-1 (b_i + alpha sum_j A_ij Q_j v_j)`` for all nodes."""

    def __init__(
        self,
        labels: tuple[Label, ...],
        measures: Measures,
        start: FloatArray,
        factor: float,
        exchange: Exchange,
        exact: ExactUpdate,
        sequential: bool,
    ) -> None:
        super().__init__(labels, measures, start, factor, exchange)
        self._exact = exact
        self._sequential = sequential
        self._passes: SequentialRounds | None = None

    def rewire(self, edges: Any) -> None:
        """Factorise anew for another graph."""
        super().rewire(edges)
        self._exact = self._exact.on(edges)
        self._passes = None

    def update(self, round: int) -> None:
        """Take the argmin at every node, at once or one after the other."""
        exact = self._exact
        if exact.coupling.alpha == 0:
            return
        assert self.V is not None
        if not self._sequential:
            s = exact.coupling(self.V, np.empty_like(self.V), exact.problem.moment)
            self.W = exact.models(s)
            return
        if self._passes is None:
            self._passes = SequentialRounds(exact, self.V, damping=self._exchange.damping)
        self._passes.step()
        self.W = self._passes.models


class GradientEngine(ArrayEngine):
    """One gradient step per node and round, plain or RMSprop: the paper's Algorithm 2."""

    def __init__(
        self,
        labels: tuple[Label, ...],
        measures: Measures,
        start: FloatArray,
        factor: float,
        exchange: Exchange,
        rounds: GradientRounds,
    ) -> None:
        super().__init__(labels, measures, start, factor, exchange)
        self._rounds = rounds

    def rewire(self, edges: Any) -> None:
        """Go on with another graph; the step rule keeps its memory."""
        super().rewire(edges)
        self._rounds.rewire(edges)

    def update(self, round: int) -> None:
        """Take one step."""
        self._rounds.step()
        self.W = self._rounds.models


class AcceleratedEngine(ArrayEngine):
    """One update goes to the fixed point: conjugate gradients, or an accelerated iteration.

    The record after it bears the number of accelerated rounds.
    """

    def __init__(
        self,
        labels: tuple[Label, ...],
        measures: Measures,
        start: FloatArray,
        factor: float,
        exchange: Exchange,
        exact: ExactUpdate,
        tol: float,
        rounds: int,
    ) -> None:
        super().__init__(labels, measures, start, factor, exchange)
        self._exact, self._tol, self._rounds = exact, tol, rounds
        self.solution: Solution | None = None

    def update(self, round: int) -> None:
        """Solve to a relative residual of ``tol``, in at most ``rounds`` rounds."""
        exact = self._exact
        symmetric = exact.problem.common is not None or exact.coupling.symmetric
        solve = solve_conjugate if symmetric else solve_accelerated
        self.solution = solve(exact, tol=self._tol, max_rounds=self._rounds)
        self.W = self.solution.models

    def measure(self, round: int) -> Record:
        """Return the numbers before and after."""
        done = round if self.solution is None else self.solution.rounds
        return super().measure(done)
