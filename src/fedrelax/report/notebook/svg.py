"""Small pictures as SVG text for a notebook: a graph, and a curve. Text is escaped, and nothing runs.

Lines take the colour of the text around them, so that they show on light and on dark pages.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Sequence

import numpy as np

from fedrelax.evaluation.evaluation import percent
from fedrelax.report.data.edges import EdgeTable
from fedrelax.report.data.layout import Places
from fedrelax.report.data.node_values import NodeValues, spreads
from fedrelax.report.data.rounding import short
from fedrelax.report.palette import CATEGORIES, DIVERGING, LIGHT, OTHER, SEQUENTIAL, mixed
from fedrelax.typing import FloatArray, IntArray, Label

SHADES = {"gain": DIVERGING[1:-1], "number": SEQUENTIAL[1:-1]}
"""Without the ends, which do not show on every page."""
WIDE, HIGH, MARGIN = 300, 230, 12


def colours(found: NodeValues | None, count: int) -> tuple[list[str | None], str]:
    """Return a colour per node (None: not known) and what the colours mean, in words."""
    if found is None:
        return [LIGHT["together"]] * count, ""
    if found.kind == "category":
        ranked = [value for value, _ in Counter(found.values).most_common(len(CATEGORIES))]
        shades = dict(zip(ranked, CATEGORIES, strict=False))
        return [shades.get(value, OTHER) for value in found.values], found.label
    values, (low, high, log) = np.asarray(found.values, dtype=float), found.span()
    with np.errstate(divide="ignore", invalid="ignore"):
        place, (start, end) = (
            (np.log(values), np.log([low, high])) if log else (values, (low, high))
        )
    share = (place - start) / (end - start) if high > low else np.full(len(values), 0.5)
    found_by = [
        mixed(SHADES[found.kind], s) if np.isfinite(v) else None
        for s, v in zip(share, values, strict=True)
    ]
    if found.kind == "gain":
        return found_by, f"{found.label}: orange {percent(low)}, grey 0 %, blue {percent(high)}"
    return found_by, f"{found.label}: dark {low:.3g}, light {high:.3g}"


def graph_svg(
    labels: Sequence[Label], stand: Places, edges: EdgeTable, shades: Sequence[str | None]
) -> str:
    """Return nodes and edges; a node shows its name when pointed at."""
    points = stand.points
    low, high = points.min(axis=0), points.max(axis=0)
    scale = min((WIDE - 2 * MARGIN) / max(high[0] - low[0], 1e-9),
                (HIGH - 2 * MARGIN) / max(high[1] - low[1], 1e-9), 1e4)  # fmt: skip
    x = WIDE / 2 + scale * (points[:, 0] - (low[0] + high[0]) / 2)
    y = HIGH / 2 - scale * (points[:, 1] - (low[1] + high[1]) / 2)
    radius = float(np.clip(34 / np.sqrt(len(points)), 1.8, 7))
    used = edges.used > 0
    faint = float(np.clip(9 / np.sqrt(used.sum() + 1), 0.12, 0.6))
    dashes = f'stroke="{LIGHT["dropped"]}" stroke-dasharray="3 3" opacity="{faint / 3:.2f}"'
    parts = [
        _lines(x, y, edges.ends[~used], dashes),
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
    if spreads(values):
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
