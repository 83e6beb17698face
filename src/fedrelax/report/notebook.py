"""What a notebook shows of a result, an estimator, a network or a graph: a fragment of HTML.

It contains no script and loads nothing; names are escaped text. Colours come from the page around it, and
lines take the colour of its text, so that it fits light and dark ones.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedrelax.errors import counted
from fedrelax.evaluation import gains
from fedrelax.evaluation.evaluation import percent
from fedrelax.graph import Graph
from fedrelax.network import Network
from fedrelax.report.data import ReportData, report_data
from fedrelax.report.data.columns import NodeValues, node_values, spreads
from fedrelax.report.data.layout import EdgeTable, edges_of, places_of
from fedrelax.report.data.rounding import coupling_text, short
from fedrelax.report.palette import CATEGORIES, CURVES, DIVERGING, LIGHT, OTHER, SEQUENTIAL, mixed
from fedrelax.solvers import Result
from fedrelax.typing import FloatArray
from fedrelax.wiring import wiring_name

SHADES = {"gain": DIVERGING[1:-1], "number": SEQUENTIAL[1:-1]}
"""Without the ends, which do not show on every page."""
WIDE, HIGH, MARGIN = 300, 230, 12


def colours(found: NodeValues) -> tuple[list[str | None], str]:
    """Return a colour per node (None: not known) and what the colours mean, in words."""
    if found.kind == "category":
        ranked = [value for value, _ in Counter(found.values).most_common(len(CATEGORIES))]
        shades = dict(zip(ranked, CATEGORIES, strict=False))
        return [shades.get(value, OTHER) for value in found.values], found.label
    values, (low, high, log) = np.asarray(found.values, dtype=float), found.span()
    ends = np.array([low, high])
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled, (start, end) = (np.log(values), np.log(ends)) if log else (values, ends)
    share = (scaled - start) / (end - start) if high > low else np.full(len(values), 0.5)
    mixtures = [
        mixed(SHADES[found.kind], s) if np.isfinite(v) else None
        for s, v in zip(share, values, strict=True)
    ]
    if found.kind == "gain":
        return mixtures, f"{found.label}: orange {percent(low)}, grey 0 %, blue {percent(high)}"
    return mixtures, f"{found.label}: dark {low:.3g}, light {high:.3g}"


def graph_svg(graph: Graph, edges: EdgeTable, shades: Sequence[str | None]) -> str:
    """Return nodes and edges; a node shows its name when pointed at."""
    points = places_of(graph, edges).points
    low, high = points.min(axis=0), points.max(axis=0)
    room = np.array([WIDE, HIGH]) - 2 * MARGIN
    scale = min(*(room / np.maximum(high - low, 1e-9)), 1e4)
    x, y = ((points - (low + high) / 2) * [scale, -scale] + [WIDE / 2, HIGH / 2]).T
    radius = float(np.clip(34 / np.sqrt(len(points)), 1.8, 7))
    used = edges.used > 0
    faint = float(np.clip(9 / np.sqrt(used.sum() + 1), 0.12, 0.6))
    looks = {
        f'stroke="{LIGHT["dropped"]}" stroke-dasharray="3 3" opacity="{faint / 3:.2f}"': ~used,
        f'stroke="currentColor" opacity="{faint:.2f}"': used,
    }
    parts = []
    for look, drawn in looks.items():
        ends = edges.ends[drawn].tolist()
        path = "".join(f"M{x[i]:.0f} {y[i]:.0f}L{x[j]:.0f} {y[j]:.0f}" for i, j in ends)
        if path:
            parts.append(f'<path d="{path}" fill="none" stroke-width=".8" {look}/>')
    for k, label in enumerate(graph.labels):
        parts.append(
            f'<circle cx="{x[k]:.1f}" cy="{y[k]:.1f}" r="{radius:.1f}" fill="{shades[k] or "none"}" '
            f'stroke="currentColor" stroke-width=".4"><title>{html.escape(short(label))}</title>'
            "</circle>"
        )
    return _svg(WIDE, HIGH, f"Graph of {len(graph)} nodes", "".join(parts))


def curve_svg(values: FloatArray, colour: str, name: str) -> str:
    """Return one curve over the rounds, from its first to its last value."""
    wide, high = 190, 52
    shown = np.flatnonzero(np.isfinite(values))
    heights = values[shown]
    if spreads(heights):
        heights = np.log(np.maximum(heights, 1e-9 * heights.max()))
    x = 5 + (wide - 10) * shown / max(len(values) - 1, 1)
    y = high - 6 - (high - 12) * (heights - heights.min()) / (np.ptp(heights) or 1.0)
    path = "L".join(f"{across:.1f} {up:.1f}" for across, up in zip(x, y, strict=True))
    body = (
        f'<path d="M5 {high - 2}H{wide - 5}" stroke="currentColor" opacity=".3"/>'
        f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>'
        f'<circle cx="{x[-1]:.1f}" cy="{y[-1]:.1f}" r="2.6" fill="{colour}"/>'
    )
    return _svg(wide, high, f"{name} by round", body)


def _svg(wide: int, high: int, name: str, body: str) -> str:
    return (
        f'<svg width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" role="img" '
        f'aria-label="{html.escape(name)}" xmlns="http://www.w3.org/2000/svg">{body}</svg>'
    )


MOST_LINES, MOST_NODES, MOST_EDGES = 10, 500, 1500
SHORT = {
    "local_loss": "loss on own rows",
    "gtv": "disagreement (GTV)",
    "validation_loss": "validation loss",
}
STYLE = (
    ".fedrelax{color:inherit;font-size:13px;line-height:1.45;max-width:760px}"
    ".fedrelax p{margin:.15em 0}.fedrelax .lead{font-size:15px;font-weight:600}"
    ".fedrelax .quiet{opacity:.75}.fedrelax svg{max-width:100%;vertical-align:top}"
    ".fedrelax .row{display:flex;flex-wrap:wrap;gap:4px 24px;margin:.5em 0}"
    ".fedrelax .row>div{max-width:320px}"
    ".fedrelax table{border-collapse:collapse;font-size:inherit;color:inherit;background:none;"
    "margin:.4em 0}"
    ".fedrelax td,.fedrelax th{text-align:right;padding:2px 10px 2px 0;border:0;"
    "border-bottom:1px solid rgba(128,128,128,.35);background:none;color:inherit}"
    ".fedrelax th{font-weight:600}.fedrelax td:first-child,.fedrelax th:first-child{text-align:left}"
    ".fedrelax pre{white-space:pre-wrap;color:inherit;background:none}"
)


def result_html(result: Result, facts: Sequence[str] = (), more: str = "") -> str:
    """Return the summary of a result: what came out, the graph, the curves and the first nodes."""
    data = report_data(result)
    stayed = ""
    if result.stayed:
        stayed = f", {counted(len(result.stayed), 'node')} kept the model trained alone"
    rounds = (
        f"{counted(result.n_rounds, 'round')} ({result.reason}){stayed}, {result.engine} engine"
    )
    curves = []
    for name, words in SHORT.items():
        values = data.history[name]
        if np.isfinite(values).any():
            text = html.escape(f"{words}: {values[0]:.3g} → {values[-1]:.3g}")
            picture = curve_svg(values, LIGHT[CURVES[name][1]], words)
            curves.append(f"<p>{text}</p>{picture}")
    return _fragment(
        _verdict(data),
        f"<p>{html.escape('; '.join([_size(result), *facts, rounds]))}.</p>",
        f'<div class="row">{_graph(data.graph, data)}<div>{"".join(curves)}</div></div>',
        _nodes(data, result.graph if result.kept is None else result.kept),
        more,
    )


def estimator_html(fitted: Any) -> str:
    """Return the summary of a fitted estimator, with its settings folded away."""
    wiring = wiring_name(fitted.wiring_)
    chosen = "" if fitted.choice_ is None else " (chosen on training rows)"
    facts = [f"{coupling_text(fitted.alpha_)}, wiring {wiring}{chosen}"]
    settings = html.escape(repr(fitted))
    folded = f"<details><summary>Settings</summary><pre>{settings}</pre></details>"
    return result_html(fitted.result_, facts, folded)


def graph_html(graph: Graph) -> str:
    """Return a graph as one line of text and a picture."""
    return _fragment(repr(graph), f'<div class="row">{_graph(graph)}</div>')


def network_html(network: Network) -> str:
    """Return a network as one line of text, a picture of its graph, and a table of its first nodes."""
    if not len(network):
        return _fragment(repr(network))
    lines = []
    for node in list(network)[:MOST_LINES]:
        held = 0 if node.validation is None else len(node.validation[1])
        kind = short(type(node.model).__name__)
        lines.append([short(node.label), kind, f"{len(node.y):,}", f"{held:,}"])
    heads = ["node", "model", "rows", "validation rows"]
    picture = f'<div class="row">{_graph(network.graph)}</div>'
    return _fragment(repr(network), picture, _table(heads, lines, len(network)))


def _verdict(data: ReportData) -> str:
    curve = data.history["validation_loss"]
    nodes = counted(len(data.graph), "node")
    if not np.isfinite(curve).any():
        return f"{nodes} trained together"
    first, last = curve[0], curve[min(data.n_rounds, len(curve) - 1)]
    gain = float(gains(first, last))
    word = "lower" if gain >= 0 else "higher"
    return (
        f"{nodes}: the validation loss is {last:.3g}, {abs(gain):.0f} % {word} than alone "
        f"({first:.3g})"
    )


def _size(result: Result) -> str:
    before = result.graph.n_edges
    if result.kept is None:
        return f"{before:,} edges"
    after = result.kept.n_edges
    edges = f"{after:,} of {before:,} edges kept" if before >= after else f"{after:,} edges found"
    if len(result.graph) > MOST_NODES:  # finding groups would take a while
        return edges
    return f"{edges}, in {counted(len(result.clusters), 'group')}"


def _graph(graph: Graph, data: ReportData | None = None) -> str:
    """Return a picture of a graph, coloured by a run if there is one."""
    if len(graph) > MOST_NODES:
        return f'<p class="quiet">Graphs of more than {MOST_NODES} nodes are not drawn here.</p>'
    if data is not None:
        shades, words = colours(node_values(data))
        picture = graph_svg(graph, data.edges(MOST_EDGES), shades)
        return f'<div>{picture}<p class="quiet">{html.escape(words)}</p></div>'
    import pandas as pd

    frame = pd.DataFrame(list(graph.edges()), columns=["source", "target", "weight"])
    frame = frame.assign(used=frame["weight"], discrepancy=np.nan, discrepancy_back=np.nan)
    edges = edges_of(frame, graph.labels, MOST_EDGES)
    return f"<div>{graph_svg(graph, edges, [LIGHT['together']] * len(graph))}</div>"


def _nodes(data: ReportData, used: Graph) -> str:
    heads, columns = ["node", "model", "neighbours"], []
    for name in ("local_loss", "validation_loss"):
        if np.isfinite(data.alone(name)).any():
            heads += [f"{SHORT[name]}, alone", "together"]
            columns += [data.alone(name), data.kept(name)]
    lines = []
    for k, label in enumerate(data.graph.labels[:MOST_LINES]):
        neighbours = str(len(used.neighbours(label)))
        numbers = [f"{column[k]:.3g}" if np.isfinite(column[k]) else "-" for column in columns]
        lines.append([short(label), short(data.models[label]), neighbours, *numbers])
    return _table(heads, lines, len(data.graph))


def _table(heads: list[str], lines: list[list[str]], total: int) -> str:
    rows = [
        "".join(f"<{cell}>{html.escape(text)}</{cell}>" for text in line)
        for cell, line in [("th", heads), *(("td", line) for line in lines)]
    ]
    body = "".join(f"<tr>{row}</tr>" for row in rows[1:])
    left = total - len(lines)
    rest = f'<p class="quiet">and {left:,} more</p>' if left else ""
    return f"<table><thead><tr>{rows[0]}</tr></thead><tbody>{body}</tbody></table>{rest}"


def _fragment(lead: str, *parts: str) -> str:
    first = f'<p class="lead">{html.escape(lead)}</p>'
    return f'<div class="fedrelax"><style>{STYLE}</style>{first}{"".join(parts)}</div>'


__all__ = ["MOST_NODES", "estimator_html", "graph_html", "network_html", "result_html"]
