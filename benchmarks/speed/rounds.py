"""Plain rounds of exact updates, without acceleration: what the engines are held against."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from fedrelax.errors import FedRelaxError
from fedrelax.linear import ExactUpdate, Solution
from fedrelax.linear.arrays import norm
from fedrelax.typing import AnyArray

DIVERGED = 1e6
"""Growth of the residual since the first round at which a run counts as diverged."""


class SequentialRounds:
    """Gauss-Seidel order: one node after the other, each responding to the newest models."""

    def __init__(self, update: ExactUpdate, *, damping: float = 0.0) -> None:
        self.update, self.damping = update, damping
        self.models = self._messages = update.problem.start(None)

    def measured_step(self) -> float:
        """Run one pass; return how far its models are from what their neighbours' models ask for."""
        update, moment = self.update, self.update.problem.moment
        self.models, self._messages = update.in_turn(self._messages, self.damping)
        change = update.coupling(self.models, np.empty_like(self.models), moment)
        return float(norm(change - update.sources(self.models)) / (norm(moment) or 1.0))


class SimultaneousRounds:
    """The paper's order: every node responds to its neighbours' models of the last round.

    ``damping`` keeps that share of the old models: ``w <- (1 - damping) argmin + damping w``.
    The start is zero models, or ``initial``.
    """

    def __init__(
        self, update: ExactUpdate, initial: npt.ArrayLike | None = None, *, damping: float = 0.0
    ) -> None:
        self.update = update
        self.damping = damping
        self.rounds = 0
        start = update.problem.start(initial)
        self._first = None if initial is None else start
        self.s = start if initial is None else update.sources(start)
        self._next = np.empty_like(self.s)
        self._scale = norm(update.problem.moment) or 1.0

    def step(self) -> None:
        """Run one round without measuring it."""
        self._advance()
        if self.damping:
            self._next *= 1 - self.damping
            self.s *= self.damping
            self._next += self.s
        self.s, self._next = self._next, self.s

    def measured_step(self) -> float:
        """Run one round; return the relative residual ``|b - K w| / |b|`` of the models before."""
        self._advance()
        change = np.subtract(self._next, self.s, out=self._next)
        residual = norm(change) / self._scale
        change *= 1 - self.damping
        self.s += change
        return residual

    def _advance(self) -> None:
        if self._first is None:
            self.update.pass_on(self.s, self._next, self.update.problem.moment)
        else:
            self.update.coupling(self._first, self._next, self.update.problem.moment)
            self._first = None
        self.rounds += 1

    @property
    def models(self) -> AnyArray:
        """All models (n, d, q)."""
        if self._first is not None:
            return self._first.copy()
        return self.update.models(self.s)


def solve_rounds(
    update: ExactUpdate,
    *,
    tol: float = 1e-6,
    max_rounds: int = 10_000,
    damping: float = 0.0,
    order: Literal["simultaneous", "sequential"] = "simultaneous",
) -> Solution:
    """Repeat plain exact rounds until the relative residual is at most ``tol``.

    With one common public set, or in sequential order on the symmetric system, they converge. If
    public sets differ and are small, the paper's simultaneous rounds may diverge.
    """
    kind = SequentialRounds if order == "sequential" else SimultaneousRounds
    rounds = kind(update, damping=damping)
    residuals: list[float] = []
    while len(residuals) < max_rounds and not (residuals and residuals[-1] <= tol):
        residuals.append(rounds.measured_step())
        if not residuals[-1] < DIVERGED * max(1.0, residuals[0]):
            raise FedRelaxError(f"the rounds diverged in round {len(residuals)}")
    return Solution(rounds.models, len(residuals), residuals[-1] <= tol)
