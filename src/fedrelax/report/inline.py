"""Small pictures as SVG text for a notebook: a graph, and a curve. Texts are escaped, nothing runs.

Lines take the colour of the text around them, so that they show on light and on dark pages.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Sequence

import numpy as np

from fedrelax.report.drawing import CATEGORIES, GREY, SPREAD
from fedrelax.report.edges import EdgeTable
from fedrelax.report.layout import Places
from fedrelax.report.tables import percent
from fedrelax.report.values import NodeValues
from fedrelax.report.words import short
from fedrelax.typing import FloatArray, IntArray, Label

SEQUENTIAL = ("#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39")
GAIN, NEUTRAL, LOSS = "#0072B2", "#b4b4b4", "#D55E00"
WIDE, HIGH, MARGIN = 300, 230, 12


def mixed(stops: Sequence[str], share: float) -> str:
    """Return a colour between stops.

    >>> mixed(("#000000", "#ffffff"), 0.5)
    '#808080'
    """
    place = min(max(share, 0.0), 1.0) * (len(stops) - 1)
    below = min(int(place), len(stops) - 2)
    one, other = ([int(stops[k][i : i + 2], 16) for i in (1, 3, 5)] for k in (below, below + 1))
    part = place - below
    return "#" + "".join(
        f"{round(a + (b - a) * part):02x}" for a, b in zip(one, other, strict=True)
    )


def colours(found: NodeValues | None, count: int) -> tuple[list[str | None], str]:
    """Return a colour per node (None: not known) and what the colours mean, in words."""
    if found is None:
        return [GAIN] * count, ""
    if found.kind == "category":
        ranked = [value for value, _ in Counter(found.values).most_common()]
        shades = {value: CATEGORIES[k] for k, value in enumerate(ranked[: len(CATEGORIES) - 1])}
        return [shades.get(value, GREY) for value in found.values], found.label
    values = np.asarray(found.values, dtype=float)
    known = values[np.isfinite(values)]
    if found.kind == "gain":
        most = float(np.clip(np.quantile(np.abs(known), 0.95), 1, 100)) if len(known) else 1.0
        scale = [
            mixed((LOSS, NEUTRAL, GAIN), (v / most + 1) / 2) if v == v else None for v in values
        ]
        return scale, f"{found.label}: orange {percent(-most)}, grey 0 %, blue {percent(most)}"
    low, high = np.quantile(known, [0.02, 0.98]).tolist()
    log = low > 0 and high / low > SPREAD
    with np.errstate(divide="ignore", invalid="ignore"):
        place, ends = (np.log(values), np.log([low, high])) if log else (values, [low, high])
    share = (place - ends[0]) / (ends[1] - ends[0]) if high > low else np.full(len(values), 0.5)
    shades_by = [
        mixed(SEQUENTIAL, s) if np.isfinite(v) else None for s, v in zip(share, values, strict=True)
    ]
    return shades_by, f"{found.label}: dark {low:.3g}, light {high:.3g}"


def graph_svg(
    labels: Sequence[Label], stand: Places, edges: EdgeTable, shades: Sequence[str | None]
) -> str:
    """Return nodes and edges; a node says its name when someone points at it."""
    points = stand.points
    low, high = points.min(axis=0), points.max(axis=0)
    scale = min((WIDE - 2 * MARGIN) / max(high[0] - low[0], 1e-9),
                (HIGH - 2 * MARGIN) / max(high[1] - low[1], 1e-9), 1e4)  # fmt: skip
    x = WIDE / 2 + scale * (points[:, 0] - (low[0] + high[0]) / 2)
    y = HIGH / 2 - scale * (points[:, 1] - (low[1] + high[1]) / 2)
    radius = float(np.clip(34 / np.sqrt(len(points)), 1.8, 7))
    used = edges.used > 0
    faint = float(np.clip(9 / np.sqrt(used.sum() + 1), 0.12, 0.6))
    parts = [
        _lines(
            x,
            y,
            edges.ends[~used],
            f'stroke="{LOSS}" stroke-dasharray="3 3" opacity="{faint / 3:.2f}"',
        ),
        _lines(x, y, edges.ends[used], f'stroke="currentColor" opacity="{faint:.2f}"'),
    ]
    for k, label in enumerate(labels):
        fill = f'fill="{shades[k]}"' if shades[k] else 'fill="none"'
        parts.append(
            f'<circle cx="{x[k]:.1f}" cy="{y[k]:.1f}" r="{radius:.1f}" {fill} stroke="currentColor" '
            f'stroke-width=".4"><title>{html.escape(short(label))}</title></circle>'
        )
    return _svg(WIDE, HIGH, f"Graph of {len(labels)} nodes", "".join(parts))


def _lines(x: FloatArray, y: FloatArray, ends: IntArray, look: str) -> str:
    if not len(ends):
        return ""
    path = "".join(f"M{x[i]:.0f} {y[i]:.0f}L{x[j]:.0f} {y[j]:.0f}" for i, j in ends.tolist())
    return f'<path d="{path}" fill="none" stroke-width=".8" {look}/>'


def curve_svg(values: FloatArray, colour: str, name: str) -> str:
    """Return one curve over the rounds, from its first to its last value."""
    wide, high = 190, 52
    known = np.isfinite(values)
    shown = values
    if (
        known.any()
        and values[known].min() > 0
        and values[known].max() / values[known].min() > SPREAD
    ):
        shown = np.log(np.maximum(values, 1e-9 * values[known].max()))
    low, top = float(np.min(shown[known])), float(np.max(shown[known]))
    x = 5 + (wide - 10) * np.arange(len(values)) / max(len(values) - 1, 1)
    y = high - 6 - (high - 12) * (shown - low) / ((top - low) or 1.0)
    path = "".join(
        f"{'L' if k else 'M'}{x[n]:.1f} {y[n]:.1f}" for k, n in enumerate(np.flatnonzero(known))
    )
    last = int(np.flatnonzero(known)[-1])
    body = (
        f'<path d="M5 {high - 2}H{wide - 5}" stroke="currentColor" opacity=".3"/>'
        f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>'
        f'<circle cx="{x[last]:.1f}" cy="{y[last]:.1f}" r="2.6" fill="{colour}"/>'
    )
    return _svg(wide, high, f"{name} by round", body)


def _svg(wide: int, high: int, name: str, body: str) -> str:
    return (
        f'<svg width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" role="img" '
        f'aria-label="{html.escape(name)}" xmlns="http://www.w3.org/2000/svg">{body}</svg>'
    )
