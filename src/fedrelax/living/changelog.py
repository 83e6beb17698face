"""The changelog of a network: what each change did, and how well neighbours fitted new rows."""

from __future__ import annotations

import datetime
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
    waiting : nodes that should have been refitted but stay as they are, as their rows are not available.
    movement : the largest change of a node's answers on the public rows, relative to their size.
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
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for a file: counts instead of lists that would name nodes that may leave."""
        plain = {
            name: value for name, value in vars(self).items() if name not in ("refits", "errors")
        }
        plain |= {name: list(plain[name]) for name in ("nodes", "neighbours", "notes")}
        return plain | {name: len(plain[name]) for name in ("refitted", "waiting")}
