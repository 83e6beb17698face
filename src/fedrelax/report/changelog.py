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
        for move in line["moves"]:
            text += f"; {move['node']} moved to {listing(move['neighbours'], most=3)}"
        if line["drifting"]:
            text += f"; drifted from their neighbours: {listing(line['drifting'], most=3)}"
        text += f"; {counted(line['refitted'], 'node')} refitted"
        events.append(Event(what, line["when"], text, line["error"], rows))
    return events


def running_error(events: list[Event]) -> list[tuple[int, float]]:
    """Return the mean loss on all new rows so far, each predicted before it was learned, by row count.

    Newcomers' rows do not count: their circle was chosen by these very rows.

    >>> events = [Event("update", "", "", 2.0, 1), Event("join", "", "", 0.5, 9)]
    >>> running_error([*events, Event("update", "", "", 1.0, 3)])
    [(1, 2.0), (4, 1.25)]
    """
    rows, total, means = 0, 0.0, []
    for event in events:
        if event.what == "update" and event.error is not None and event.rows:
            rows, total = rows + event.rows, total + event.error * event.rows
            means.append((rows, total / rows))
    return means


LEAD = (
    "Nodes that joined, learned new rows, found other neighbours or left, and the mean loss on new rows, "
    "each predicted before it was learned."
)
HEAD = (
    '<thead><tr><th scope="col">time</th><th scope="col">what happened</th>'
    '<th scope="col" class="number">error before learning</th></tr></thead>'
)
WIDTH, HEIGHT, EDGE = 640, 160, 36


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
        f'<p class="lead">{html.escape(LEAD)}</p>{_curve(running_error(events))}'
        '<div class="scroll" tabindex="0" role="region" aria-label="What happened">'
        f"<table>{HEAD}<tbody>{lines}</tbody></table></div></section>"
    )


def _curve(points: list[tuple[int, float]]) -> str:
    """Return the running error as a line over the number of rows, which takes at least two points."""
    if len(points) < 2:
        return ""
    rows, errors = zip(*points, strict=True)
    top = max(errors) or 1.0
    across, up = (WIDTH - 2 * EDGE) / max(rows[-1] - rows[0], 1), (HEIGHT - 2 * EDGE) / top
    path = " ".join(
        f"{EDGE + (row - rows[0]) * across:.1f},{HEIGHT - EDGE - error * up:.1f}"
        for row, error in points
    )
    label = f"Running error before learning: {errors[0]:.4g} at first, {errors[-1]:.4g} at the end"
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}" style="max-width:{WIDTH}px">'
        f'<polyline points="{path}" fill="none" stroke="currentColor" stroke-width="2"/>'
        f'<text x="{EDGE}" y="{HEIGHT - 10}" font-size="13" fill="currentColor">{rows[0]:,} rows</text>'
        f'<text x="{WIDTH - EDGE}" y="{HEIGHT - 10}" font-size="13" text-anchor="end" '
        f'fill="currentColor">{rows[-1]:,} rows</text>'
        f'<text x="{EDGE}" y="18" font-size="13" fill="currentColor">{label}</text></svg>'
    )
