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
    rows : how many rows were new; ``error`` is the mean loss of what was predicted of them before they
        were learned, NaN where there were none, and ``errors`` that of every node. Of a newcomer it is the
        loss of what its circle says of its rows; where the circle was found by these very rows, that
        flatters it.
    refitted : nodes whose models have changed; ``refits`` counts them as often as they were fitted.
    waiting : nodes that should have been fitted again, and stay as they are: their rows are not at hand,
        or the ripple was to stop before them.
    movement : the largest change of a node's answers on the public rows, relative to their size.
    drifting : nodes whose neighbours no longer agree with their rows; ``moves`` says who has gone over to
        which new neighbours.
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
        """Return plain values for a file: counts where a list would tell of nodes that may leave."""
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
