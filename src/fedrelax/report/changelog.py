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

    when: str
    text: str
    error: float | None


def events_of(saved: SavedResult) -> list[Event]:
    """Return the story of a network, oldest first; empty if nothing happened since training."""
    events = []
    for line in [] if saved.living is None else saved.living["story"]:
        what = line["what"]
        text = f"{listing(line['nodes'], most=3)} {WORDS.get(what, what)}"
        if what == "join" and line["neighbours"]:
            text += f" next to {listing(line['neighbours'], most=3)}"
        if what == "update":
            text += f" {counted(line['rows'], 'row')}"
        text += f"; {counted(line['refitted'], 'node')} refitted"
        events.append(Event(line["when"], text, line["error"]))
    return events


LEAD = (
    "Nodes that joined, learned new rows or left, and the mean loss on new rows, each predicted before it "
    "was learned."
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
    lines = ""
    for event in events:
        error = "" if event.error is None else f"{event.error:.4g}"
        when = html.escape(event.when[:16].replace("T", " "))
        what = f'<td class="name">{html.escape(event.text)}</td>'
        lines += f'<tr><td>{when}</td>{what}<td class="number">{error}</td></tr>'
    return (
        '<section id="story" aria-labelledby="story-title">'
        '<h2 id="story-title">Since it was trained</h2>'
        f'<p class="lead">{LEAD}</p>'
        '<div class="scroll" tabindex="0" role="region" aria-label="What happened">'
        f"<table>{HEAD}<tbody>{lines}</tbody></table></div></section>"
    )
