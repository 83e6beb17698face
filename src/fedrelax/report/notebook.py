"""What a notebook shows of a result, an estimator, a network or a graph: a fragment of HTML.

It contains no script and loads nothing; names are escaped text. Colours come from the page around it, and
lines take the colour of its text, so that it fits light and dark ones.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fedrelax.errors import counted
from fedrelax.evaluation import gains
from fedrelax.evaluation.evaluation import percent
from fedrelax.graph import Graph
from fedrelax.network import Network
from fedrelax.report.data import ReportData, report_data
from fedrelax.report.data.columns import NodeValues, node_values, spreads
from fedrelax.report.data.layout import EdgeTable, Places, edges_of, places_of
from fedrelax.report.data.rounding import coupling_text, short
from fedrelax.report.palette import CATEGORIES, CURVES, DIVERGING, LIGHT, OTHER, SEQUENTIAL, mixed
from fedrelax.solvers import Result
from fedrelax.typing import FloatArray, IntArray, Label
from fedrelax.wiring import wiring_name

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
    parts = [
        f'<p class="lead">{html.escape(_verdict(data))}</p>',
        f"<p>{html.escape('; '.join([_size(result), *facts, rounds]))}.</p>",
        f'<div class="row">{_graph(data.graph, data)}{_curves(data)}</div>',
        _nodes(data, result.graph if result.kept is None else result.kept),
        more,
    ]
    return _fragment(parts)


def estimator_html(fitted: Any) -> str:
    """Return the summary of a fitted estimator, with its settings folded away."""
    wiring = wiring_name(fitted.wiring_)
    chosen = "" if fitted.choice_ is None else " (chosen on training rows)"
    facts = [f"{coupling_text(fitted.alpha_)}, wiring {wiring}{chosen}"]
    settings = (
        f"<details><summary>Settings</summary><pre>{html.escape(repr(fitted))}</pre></details>"
    )
    return result_html(fitted.result_, facts, settings)


def graph_html(graph: Graph) -> str:
    """Return a graph as one line of text and a picture."""
    lead = f'<p class="lead">{html.escape(repr(graph))}</p>'
    return _fragment([lead, f'<div class="row">{_graph(graph)}</div>'])


def network_html(network: Network) -> str:
    """Return a network as one line of text, a picture of its graph, and a table of its first nodes."""
    parts = [f'<p class="lead">{html.escape(repr(network))}</p>']
    if len(network):
        graph = network.graph
        parts.append(f'<div class="row">{_graph(graph)}</div>')
        lines = []
        for node in list(network)[:MOST_LINES]:
            held = 0 if node.validation is None else len(node.validation[1])
            kind = short(type(node.model).__name__)
            lines.append([short(node.label), kind, f"{len(node.y):,}", f"{held:,}"])
        parts.append(_table(("node", "model", "rows", "validation rows"), lines, len(network)))
    return _fragment(parts)


# Words


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
    given = result.graph.n_edges
    if result.kept is None:
        return f"{given:,} edges"
    kept = result.kept.n_edges
    edges = f"{kept:,} of {given:,} edges kept" if given >= kept else f"{kept:,} edges found"
    if len(result.graph) > MOST_NODES:  # finding groups would take a while
        return edges
    return f"{edges}, in {counted(len(result.clusters), 'group')}"


# Pictures


def _graph(graph: Graph, data: ReportData | None = None) -> str:
    """Return a picture of a graph, coloured by a run if there is one."""
    if len(graph) > MOST_NODES:
        return f'<p class="quiet">Graphs of more than {MOST_NODES} nodes are not drawn here.</p>'
    if data is None:
        import pandas as pd

        frame = pd.DataFrame(list(graph.edges()), columns=["source", "target", "weight"])
        frame = frame.assign(used=frame["weight"], discrepancy=np.nan, discrepancy_back=np.nan)
    else:
        frame = data.edge_frame()
    edges = edges_of(frame, graph.labels, MOST_EDGES)
    stand = places_of(graph, edges)
    found = None if data is None else node_values(data)
    shades, words = colours(found, len(graph))
    caption = f'<p class="quiet">{html.escape(words)}</p>' if words else ""
    return f"<div>{graph_svg(graph.labels, stand, edges, shades)}{caption}</div>"


def _curves(data: ReportData) -> str:
    parts = []
    for name, words in SHORT.items():
        values, colour = data.history[name], LIGHT[CURVES[name][1]]
        if not np.isfinite(values).any():
            continue
        ends = f"{values[0]:.3g} → {values[-1]:.3g}"
        parts.append(f"<p>{html.escape(f'{words}: {ends}')}</p>{curve_svg(values, colour, words)}")
    return f"<div>{''.join(parts)}</div>"


# The table


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


def _table(heads: Iterable[str], lines: Sequence[Sequence[str]], total: int) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in line)}</tr>" for line in lines
    )
    left = total - len(lines)
    rest = f'<p class="quiet">and {left:,} more</p>' if left else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


def _fragment(parts: Iterable[str]) -> str:
    return f'<div class="fedrelax"><style>{STYLE}</style>{"".join(parts)}</div>'


__all__ = ["MOST_NODES", "estimator_html", "graph_html", "network_html", "result_html"]
