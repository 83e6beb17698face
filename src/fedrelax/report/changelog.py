"""What happened to a network since it was trained, in words and as a section of the page."""

from __future__ import annotations

import html
from dataclasses import dataclass

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
    events = []
    for line in [] if saved.living is None else saved.living["story"]:
        what, rows = line["what"], line["rows"]
        text = f"{listing(line['nodes'], most=3)} {WORDS.get(what, what)}"
        if what == "join" and line["neighbours"]:
            text += f" next to {listing(line['neighbours'], most=3)}"
        if what == "update":
            text += f" {counted(rows, 'row')}"
        for node, neighbours in line["moves"]:
            text += f"; {node} moved to {listing(neighbours, most=3)}"
        if line["drifting"]:
            text += f"; drifted from their neighbours: {listing(line['drifting'], most=3)}"
        text += f"; {counted(line['refitted'], 'node')} refitted"
        events.append(Event(what, line["when"], text, line["error"], rows))
    return events


def running_error(events: list[Event]) -> float | None:
    """Return the mean loss on all new rows so far, each predicted before it was learned.

    Newcomers' rows do not count: their circle was chosen by these very rows.

    >>> events = [Event("update", "", "", 2.0, 1), Event("join", "", "", 0.5, 9)]
    >>> running_error([*events, Event("update", "", "", 1.0, 3)])
    1.25
    """
    learned = [e for e in events if e.what == "update" and e.error is not None and e.rows]
    rows = sum(event.rows for event in learned)
    return sum((event.error or 0.0) * event.rows for event in learned) / rows if rows else None


LEAD = (
    "Nodes that joined, learned new rows, found other neighbours or left, and the mean loss on new rows, "
    "each predicted before it was learned."
)
HEAD = (
    '<thead><tr><th scope="col">time</th><th scope="col">what happened</th>'
    '<th scope="col" class="number">error before learning</th></tr></thead>'
)


def story_section(saved: SavedResult) -> str:
    """Return the section about what happened since training; empty if nothing did."""
    events = events_of(saved)
    if not events:
        return ""
    lines, mean = "", running_error(events)
    lead = LEAD if mean is None else f"{LEAD} Over all new rows it was {mean:.4g}."
    for event in events:
        error = "" if event.error is None else f"{event.error:.4g}"
        when = html.escape(event.when[:16].replace("T", " "))
        what = f'<td class="name">{html.escape(event.text)}</td>'
        lines += f'<tr><td>{when}</td>{what}<td class="number">{error}</td></tr>'
    return (
        '<section id="story" aria-labelledby="story-title">'
        '<h2 id="story-title">Since it was trained</h2>'
        f'<p class="lead">{html.escape(lead)}</p>'
        '<div class="scroll" tabindex="0" role="region" aria-label="What happened">'
        f"<table>{HEAD}<tbody>{lines}</tbody></table></div></section>"
    )
