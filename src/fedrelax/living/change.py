"""What a change did: one entry in the story of a network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedrelax.typing import Label

JOIN, UPDATE, LEAVE = "join", "update", "leave"


@dataclass(frozen=True)
class Change:
    """A node that joined or left, or new rows that were learned.

    what : "join", "update" or "leave"; ``nodes`` are those that did, ``when`` is the time.
    neighbours : whom a newcomer listens to, and how much.
    rows : the number of new rows; ``error`` is the mean loss of their predictions before they were
        learned, NaN if there were none, and ``errors`` the same by node. For a newcomer it is the loss of
        its circle's answers on its rows; it is too low where the circle was found by these very rows.
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
    when: str
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
            "moves": [{"node": i, "neighbours": list(near)} for i, near in self.moves.items()],
            "notes": list(self.notes),
            "seconds": self.seconds,
        }
