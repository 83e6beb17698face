"""Three hooks around a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrelax.runtime.history import Record

if TYPE_CHECKING:
    from fedrelax.runtime.rounds import Outcome


class Callback:
    """Override what you need. ``rounds`` is the most that will be run."""

    def begin(self, rounds: int, n_nodes: int) -> None:
        """Run before the first models are trained."""

    def after_round(self, record: Record) -> bool | None:
        """Run after every round (round 0: the models that start); return True to stop."""

    def end(self, outcome: Outcome) -> None:
        """Run after the last round."""
