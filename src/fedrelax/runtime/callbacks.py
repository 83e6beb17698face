"""Hooks around a run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

from fedrelax.errors import FedRelaxError
from fedrelax.runtime.history import Record
from fedrelax.typing import Label

if TYPE_CHECKING:
    from fedrelax.runtime.rounds import Outcome


class Callback:
    """Override what you need: each run has one ``begin`` and one ``end``.

    Copies of an estimator share its callbacks: someone is listening to these.
    """

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def choosing(self, done: int, total: int) -> bool | str | None:
        """Run while "auto" tries candidates, after each of ``total`` trials; before ``begin``.

        Return True, or why, to end the search and go on with the best so far. ``total`` may shrink, as
        candidates that are clearly behind are given up.
        """

    def begin(self, rounds: int, n_nodes: int) -> None:
        """Run before the first models are trained; ``rounds`` is the most that will be run."""

    def wired(self, labels: tuple[Label, ...], edges: Any) -> None:
        """Run before round 0 and whenever the graph has changed.

        ``edges`` is the graph in use, a symmetric CSR matrix in the order of ``labels``; read it only.
        """

    def after_round(self, record: Record) -> bool | str | None:
        """Run after every round (round 0: the models that start); return True, or why, to stop."""

    def end(self, outcome: Outcome) -> None:
        """Run after the last round."""


class StopOnLocalLoss(Callback):
    """Stop when the loss on own rows has moved by less than ``tol`` of itself in ``rounds`` rounds running.

    A rule that the paper names beside a number of rounds. Predictions may still move: ``FedRelax(tol=)``
    looks at these. Over a graph that changes, counting begins anew with every change.
    """

    def __init__(self, tol: float = 1e-3, rounds: int = 2) -> None:
        if not tol >= 0 or rounds < 1:
            raise FedRelaxError(f"tol={tol!r} must be at least 0, and rounds={rounds!r} at least 1")
        self.tol, self.rounds = tol, rounds
        self._last, self._still = math.nan, 0

    def begin(self, rounds: int, n_nodes: int) -> None:
        """Forget the last run."""
        self._last, self._still = math.nan, 0

    def wired(self, labels: tuple[Label, ...], edges: Any) -> None:
        """Count anew."""
        self._still = 0

    def after_round(self, record: Record) -> str | None:
        """Stop after enough rounds of rest."""
        moved = abs(record.local_loss - self._last)
        self._still = self._still + 1 if moved <= self.tol * abs(record.local_loss) else 0
        self._last = record.local_loss
        return "local loss at rest" if self._still >= self.rounds else None
