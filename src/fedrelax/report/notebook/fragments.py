"""What a notebook shows of a result, an estimator, a network or a graph: a fragment of HTML.

It contains no script and loads nothing; names are escaped text. Colours come from the page around it, so
that it fits light and dark ones.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fedrelax.errors import counted
from fedrelax.evaluation import gains
from fedrelax.graph import Graph
from fedrelax.network import Network
from fedrelax.report.data import ReportData, report_data
from fedrelax.report.data.edges import edges_of
from fedrelax.report.data.node_values import node_values, usual_colour
from fedrelax.report.data.report_data import places_of
from fedrelax.report.data.rounding import coupling_text, short
from fedrelax.report.notebook.svg import colours, curve_svg, graph_svg
from fedrelax.report.palette import CURVES, LIGHT
from fedrelax.solvers import Result
from fedrelax.wiring import wiring_name

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
    parts = [
        f'<p class="lead">{_text(_verdict(data))}</p>',
        f"<p>{_text('; '.join([_size(result), *facts, _rounds(result)]))}.</p>",
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
    settings = f"<details><summary>Settings</summary><pre>{_text(repr(fitted))}</pre></details>"
    return result_html(fitted.result_, facts, settings)


def graph_html(graph: Graph) -> str:
    """Return a graph as one line of text and a picture."""
    lead = f'<p class="lead">{_text(repr(graph))}</p>'
    return _fragment([lead, f'<div class="row">{_graph(graph)}</div>'])


def network_html(network: Network) -> str:
    """Return a network as one line of text, a picture of its graph, and a table of its first nodes."""
    parts = [f'<p class="lead">{_text(repr(network))}</p>']
    if len(network):
        graph = network.graph
        parts.append(f'<div class="row">{_graph(graph)}</div>')
        lines = []
        for node in list(network)[:MOST_LINES]:
            held = 0 if node.validation is None else len(node.validation[1])
            lines.append([short(node.label), _kind(node.model), f"{len(node.y):,}", f"{held:,}"])
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


def _rounds(result: Result) -> str:
    rounds = f"{counted(result.n_rounds, 'round')} ({result.reason})"
    stayed = ""
    if result.stayed:
        stayed = f", {counted(len(result.stayed), 'node')} kept the model trained alone"
    return f"{rounds}{stayed}, {result.engine} engine"


def _kind(model: Any) -> str:
    return short(type(model).__name__)


# Pictures


def _graph(graph: Graph, data: ReportData | None = None) -> str:
    """Return a picture of a graph, coloured by a run if there is one."""
    if len(graph) > MOST_NODES:
        return f'<p class="quiet">Graphs of more than {MOST_NODES} nodes are not drawn here.</p>'
    frame = _edges(graph) if data is None else data.edge_frame()
    edges = edges_of(frame, graph.labels, MOST_EDGES)
    stand = places_of(graph, edges)
    found = None if data is None else node_values(data, usual_colour(data))
    shades, words = colours(found, len(graph))
    caption = f'<p class="quiet">{_text(words)}</p>' if words else ""
    return f"<div>{graph_svg(graph.labels, stand, edges, shades)}{caption}</div>"


def _edges(graph: Graph) -> Any:
    """Return the edges of a graph as ``Result.edges_to_frame`` has them."""
    import pandas as pd

    frame = pd.DataFrame(list(graph.edges()), columns=["source", "target", "weight"])
    return frame.assign(used=frame["weight"], discrepancy=np.nan, discrepancy_back=np.nan)


def _curves(data: ReportData) -> str:
    parts = []
    for name, words in SHORT.items():
        values, colour = data.history[name], LIGHT[CURVES[name][1]]
        if not np.isfinite(values).any():
            continue
        ends = f"{values[0]:.3g} → {values[-1]:.3g}"
        parts.append(f"<p>{_text(f'{words}: {ends}')}</p>{curve_svg(values, colour, words)}")
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
    head = "".join(f"<th>{_text(name)}</th>" for name in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in line)}</tr>" for line in lines
    )
    left = total - len(lines)
    rest = f'<p class="quiet">and {left:,} more</p>' if left else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


def _text(text: str) -> str:
    return html.escape(text)


def _fragment(parts: Iterable[str]) -> str:
    return f'<div class="fedrelax"><style>{STYLE}</style>{"".join(parts)}</div>'
