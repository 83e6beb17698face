"""Callbacks, and what a run needs to resume after it was stopped."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Self

from fedrelax.errors import FedRelaxError
from fedrelax.runtime.history import Record
from fedrelax.typing import Label, SparseMatrix

if TYPE_CHECKING:
    from fedrelax.runtime.rounds import Outcome


class Callback:
    """Override what you need: each run has one ``begin`` and one ``end``.

    Callbacks are never copied: copies of an estimator share them, so the user's own objects are called.
    """

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def choosing(self, done: int, total: int) -> bool | str | None:
        """Run while "auto" tries candidates, after each of ``total`` trials; before ``begin``.

        Return True, or a reason, to end the search and go on with the best so far. ``total`` may shrink,
        as candidates that are clearly behind are dropped.
        """

    def begin(self, rounds: int, n_nodes: int) -> None:
        """Run before the first models are trained; at most ``rounds`` rounds will follow."""

    def wired(self, labels: tuple[Label, ...], edges: SparseMatrix) -> None:
        """Run before round 0 and whenever the graph has changed.

        ``edges`` is the graph in use, a symmetric CSR matrix in the order of ``labels``; do not modify it.
        """

    def after_round(self, record: Record) -> bool | str | None:
        """Run after every round (round 0: the starting models); return True, or a reason, to stop."""

    def end(self, outcome: Outcome) -> None:
        """Run after the last round."""


class StopOnLocalLoss(Callback):
    """Stop once the local loss has changed by at most ``tol`` of itself in ``rounds`` consecutive rounds.

    The paper names this rule besides a fixed number of rounds. Predictions may still be changing:
    ``FedRelax(tol=)`` looks at those. Whenever the graph changes, counting starts again.
    """

    def __init__(self, tol: float = 1e-3, rounds: int = 2) -> None:
        if not tol >= 0 or rounds < 1:
            raise FedRelaxError(f"tol={tol!r} must be at least 0, and rounds={rounds!r} at least 1")
        self.tol, self.rounds = tol, rounds

    def begin(self, rounds: int, n_nodes: int) -> None:
        """Forget the last run."""
        self._last, self._still = math.nan, 0

    def wired(self, labels: tuple[Label, ...], edges: SparseMatrix) -> None:
        """Start counting again."""
        self._still = 0

    def after_round(self, record: Record) -> str | None:
        """Stop after enough rounds without change."""
        moved = abs(record.local_loss - self._last)
        self._still = self._still + 1 if moved <= self.tol * abs(record.local_loss) else 0
        self._last = record.local_loss
        return "local loss converged" if self._still >= self.rounds else None


ROUNDS = "rounds"
"""The name under which the state of a run's rounds is saved."""

Identity = Mapping[str, str]
"""What identifies a run: checksums of rows, graph and public rows; models and settings in words."""


class Keeper(Callback):
    """A callback that also saves what a run needs to resume: see ``fedrelax.storage.Checkpoint``.

    States are plain values: numbers, strings, lists, tuples, dicts, arrays, sparse matrices and messages.
    """

    @abstractmethod
    def recall(self, what: str, identity: Identity) -> Any | None:
        """Return the state saved under a name, or None; refuse the state of another run."""

    @abstractmethod
    def keep(
        self, what: str, identity: Identity, state: Callable[[], Any], round: int, ends: bool
    ) -> None:
        """Save a state if one is due; ``ends`` says that no round follows this one."""

    @abstractmethod
    def using(self, what: str) -> AbstractContextManager[None]:
        """Return a context in which a state is used: errors inside are reported as faults of its file."""


def keeper_in(callbacks: Sequence[Any]) -> Keeper | None:
    """Return the callback that saves states, if there is one."""
    found = [callback for callback in callbacks if isinstance(callback, Keeper)]
    if len(found) > 1:
        raise FedRelaxError(f"callbacks holds {len(found)} checkpoints; a run can have only one")
    return found[0] if found else None
