"""The network over time: who joined, left or moved, and the error on new rows before they were learned."""

from __future__ import annotations

import html

from fedrelax.report.data.story import Event, events_of, running_error
from fedrelax.storage import SavedResult

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
    lines = "".join(_line(event) for event in events)
    return (
        '<section id="story" aria-labelledby="story-title">'
        '<h2 id="story-title">Since it was trained</h2>'
        f'<p class="lead">{html.escape(LEAD)}</p>{_curve(running_error(events))}'
        '<div class="scroll" tabindex="0" role="region" aria-label="What happened">'
        f"<table>{HEAD}<tbody>{lines}</tbody></table></div></section>"
    )


def story_link(saved: SavedResult) -> str:
    """Return a link to that section, if there is one."""
    return '<a href="#story">Story</a>' if events_of(saved) else ""


def _line(event: Event) -> str:
    error = "" if event.error is None else f"{event.error:.4g}"
    when = event.when[:16].replace("T", " ")
    what = f'<td class="name">{html.escape(event.text)}</td>'
    return f'<tr><td>{html.escape(when)}</td>{what}<td class="number">{error}</td></tr>'


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
    said = f"Running error before learning: {errors[0]:.4g} at first, {errors[-1]:.4g} at the end"
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{said}" style="max-width:{WIDTH}px">'
        f'<polyline points="{path}" fill="none" stroke="currentColor" stroke-width="2"/>'
        f'<text x="{EDGE}" y="{HEIGHT - 10}" font-size="13" fill="currentColor">{rows[0]:,} rows</text>'
        f'<text x="{WIDTH - EDGE}" y="{HEIGHT - 10}" font-size="13" text-anchor="end" '
        f'fill="currentColor">{rows[-1]:,} rows</text>'
        f'<text x="{EDGE}" y="18" font-size="13" fill="currentColor">{said}</text></svg>'
    )
