"""What happened to a network since it was trained, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedrelax.errors import counted, listing
from fedrelax.storage import SavedResult

WORDS = {"join": "joined", "update": "learned", "leave": "left"}


@dataclass(frozen=True)
class Event:
    """Nodes that joined, learned or left: when, who, what, and the error before anything was learned."""

    what: str
    when: str
    text: str
    error: float | None
    rows: int


def events_of(saved: SavedResult) -> list[Event]:
    """Return the story of a network, oldest first; empty if nothing happened since training."""
    return [] if saved.living is None else [_event(line) for line in saved.living["story"]]


def running_error(events: list[Event]) -> list[tuple[int, float]]:
    """Return the mean loss on all new rows so far, each predicted before it was learned, by row count.

    Newcomers' rows do not count: their circle was chosen by these very rows.

    >>> events = [Event("update", "", "", 2.0, 1), Event("join", "", "", 0.5, 9)]
    >>> running_error([*events, Event("update", "", "", 1.0, 3)])
    [(1, 2.0), (4, 1.25)]
    """
    rows, total, found = 0, 0.0, []
    for event in events:
        if event.what == "update" and event.error is not None and event.rows:
            rows, total = rows + event.rows, total + event.error * event.rows
            found.append((rows, total / rows))
    return found


def _event(line: Mapping[str, Any]) -> Event:
    who, what = listing(line.get("nodes", ()), most=3), str(line.get("what"))
    text = f"{who} {WORDS.get(what, what)}"
    near, rows, error = line.get("neighbours") or (), line.get("rows"), line.get("error")
    rows = rows if isinstance(rows, int) else 0
    if what == "join" and near:
        text += f" next to {listing(near, most=3)}"
    if what == "update":
        text += f" {counted(rows, 'row')}"
    for move in line.get("moves") or ():
        text += f"; {move.get('node')} moved to {listing(move.get('neighbours', ()), most=3)}"
    drifting = line.get("drifting") or ()
    if drifting:
        text += f"; drifted from their neighbours: {listing(drifting, most=3)}"
    refitted = line.get("refitted")
    text += f"; {counted(refitted if isinstance(refitted, int) else 0, 'node')} refitted"
    known = float(error) if isinstance(error, int | float) else None
    return Event(what, str(line.get("when", "")), text, known, rows)
