"""Hooks around a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

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
