"""The changelog of a network: what each change did, and how well neighbours fitted new rows."""

from __future__ import annotations

import datetime
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedrelax.typing import Label


def now() -> str:
    """Return the current time, in UTC, as files have it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Change:
    """A node that joined or left, or new rows that were learned.

    what : "join", "update" or "leave"; ``nodes`` are those that did, ``when`` is the time.
    neighbours : whom a newcomer listens to, and how much.
    rows : the number of new rows; ``error`` is the mean loss of their predictions before they were
        learned, NaN if there were none, and ``errors`` the same by node. For a newcomer it is the loss of
        its neighbours' answers on its rows; it is too low where these were found by these very rows.
    refitted : nodes whose models changed; ``refits`` is the number of fits.
    waiting : nodes that should have been refitted but stay as they are: their rows are not available, or
        the ripple was told to stop before them.
    movement : the largest change of a node's answers on the public rows, relative to their size.
    drifting : nodes whose neighbours no longer agree with their rows; ``moves`` gives the new neighbours
        of those that moved.
    notes : what else there is to say, a sentence each.
    """

    what: str
    nodes: tuple[Label, ...]
    when: str = field(default_factory=now)
    neighbours: Mapping[Label, float] = field(default_factory=dict)
    rows: int = 0
    error: float = float("nan")
    errors: Mapping[Label, float] = field(default_factory=dict)
    refitted: tuple[Label, ...] = ()
    refits: int = 0
    waiting: tuple[Label, ...] = ()
    movement: float = 0.0
    drifting: tuple[Label, ...] = ()
    moves: Mapping[Label, tuple[Label, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for a file: counts instead of lists that would name nodes that may leave."""
        return {
            "what": self.what,
            "when": self.when,
            "nodes": list(self.nodes),
            "neighbours": list(self.neighbours),
            "rows": self.rows,
            "error": self.error,
            "refitted": len(self.refitted),
            "waiting": len(self.waiting),
            "movement": self.movement,
            "drifting": list(self.drifting),
            "moves": [(label, list(near)) for label, near in self.moves.items()],
            "notes": list(self.notes),
            "seconds": self.seconds,
        }


RECENT, BEFORE = 3, 2
"""Updates that may count as recent, and how many before these are needed to tell that anything changed."""


@dataclass(frozen=True)
class Past:
    """The losses of updates: the last ones as (loss, rows), and the sum of those before them."""

    total: float = 0.0
    rows: int = 0
    updates: int = 0
    recent: tuple[tuple[float, int], ...] = ()

    def then(self, loss: float, rows: int) -> Past:
        """Return this with one more update."""
        recent = (*self.recent, (loss, rows))
        if len(recent) <= RECENT:
            return Past(self.total, self.rows, self.updates, recent)
        (old, count), *rest = recent
        return Past(self.total + old * count, self.rows + count, self.updates + 1, tuple(rest))

    @property
    def losses(self) -> tuple[float, ...]:
        """All sums and losses in it."""
        return (self.total, *(loss * rows for loss, rows in self.recent))

    def changes(self) -> list[tuple[float, float]]:
        """Return, for the last update, the last two and so on, the change of the logarithm of the loss.

        Each comes with its standard error, from the numbers of rows.

        >>> [(round(change, 2), round(error, 2))
        ...  for change, error in Past().then(1.0, 8).then(1.0, 8).then(4.0, 4).changes()]
        [(1.39, 0.79)]
        """
        changes = []
        for last in range(1, len(self.recent) + 1):
            earlier, latest = self.recent[:-last], self.recent[-last:]
            if self.updates + len(earlier) < BEFORE:
                break
            rows = sum(count for _, count in latest)
            rows_before = self.rows + sum(count for _, count in earlier)
            total = sum(loss * count for loss, count in latest)
            total_before = self.total + sum(loss * count for loss, count in earlier)
            change = _log(total / rows) - _log(total_before / rows_before)
            changes.append((change, math.sqrt(2.0 / rows + 2.0 / rows_before)))
        return changes


def _log(value: float) -> float:
    return math.log(max(value, sys.float_info.min))
