"""What a notebook shows of a result or an estimator: a fragment of HTML.

It contains no script and loads nothing; names are escaped text. Colours come from the page around it.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedrelax.errors import counted
from fedrelax.evaluation import gains
from fedrelax.graph import Graph
from fedrelax.report.data import ReportData, report_data
from fedrelax.report.data.rounding import coupling_text, edges_text, short
from fedrelax.report.page.assembly import part
from fedrelax.solvers import Result
from fedrelax.wiring import wiring_name

MOST_LINES, MOST_NODES = 10, 500
SHORT = {"local_loss": "loss on own rows", "validation_loss": "validation loss"}


def result_html(result: Result, facts: Sequence[str] = (), more: str = "") -> str:
    """Return the summary of a result: what came out, by round and at the first nodes."""
    data, stayed = report_data(result), len(result.stayed)
    edges = f"{result.graph.n_edges:,} edges"
    if result.kept is not None:
        edges = edges_text(result.graph.n_edges, result.kept.n_edges)
        if len(result.graph) <= MOST_NODES:  # finding groups would take a while
            edges += f", in {counted(len(result.clusters), 'group')}"
    rounds = f"{counted(result.n_rounds, 'round')} ({result.reason})"
    if stayed:
        rounds += f", {counted(stayed, 'node')} kept the model trained alone"
    size = html.escape("; ".join([edges, *facts, f"{rounds}, {result.engine} engine"]))
    lead = f'<p class="lead">{html.escape(_verdict(data))}</p><p>{size}.</p>'
    nodes = _nodes(data, result.kept or result.graph)
    return f'<div class="fedrelax"><style>{part("notebook.css")}</style>{lead}{nodes}{more}</div>'


def estimator_html(fitted: Any) -> str:
    """Return the summary of a fitted estimator, with its settings folded away."""
    chosen = "" if fitted.choice_ is None else " (chosen on training rows)"
    facts = [f"{coupling_text(fitted.alpha_)}, wiring {wiring_name(fitted.wiring_)}{chosen}"]
    settings = html.escape(repr(fitted))
    folded = f"<details><summary>Settings</summary><pre>{settings}</pre></details>"
    return result_html(fitted.result_, facts, folded)


def _verdict(data: ReportData) -> str:
    curve, nodes = data.history["validation_loss"], counted(len(data.graph), "node")
    if not np.isfinite(curve).any():
        return f"{nodes} trained together"
    first, last = curve[0], curve[min(data.n_rounds, len(curve) - 1)]
    gain = float(gains(first, last))
    change = f"{abs(gain):.0f} % {'lower' if gain >= 0 else 'higher'} than alone ({first:.3g})"
    return f"{nodes}: the validation loss is {last:.3g}, {change}"


def _nodes(data: ReportData, used: Graph) -> str:
    import pandas as pd

    shown = data.graph.labels[:MOST_LINES]
    columns: list[tuple[str, Any]] = [
        ("node", [short(label) for label in shown]),
        ("model", [short(data.models[label]) for label in shown]),
        ("neighbours", [len(used.neighbours(label)) for label in shown]),
    ]
    for name, words in SHORT.items():
        if np.isfinite(data.alone(name)).any():
            columns += [(f"{words}, alone", data.alone(name)), ("together", data.kept(name))]
    frame = pd.DataFrame({k: values[: len(shown)] for k, (_, values) in enumerate(columns)})
    frame = frame.set_axis([head for head, _ in columns], axis=1)
    table: str = frame.to_html(index=False, border=0, na_rep="-", float_format="{:.3g}".format)
    left = len(data.graph) - len(shown)
    return table + (f'<p class="quiet">and {left:,} more</p>' if left else "")
