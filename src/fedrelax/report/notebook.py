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
from fedrelax.report.data.rounding import coupling_text, short
from fedrelax.solvers import Result
from fedrelax.wiring import wiring_name

MOST_LINES, MOST_NODES = 10, 500
SHORT = {"local_loss": "loss on own rows", "validation_loss": "validation loss"}
STYLE = (
    ".fedrelax{color:inherit;font-size:13px;line-height:1.45;max-width:760px}"
    ".fedrelax p{margin:.15em 0}.fedrelax .lead{font-size:15px;font-weight:600}"
    ".fedrelax .quiet{opacity:.75}"
    ".fedrelax table{border-collapse:collapse;font-size:inherit;color:inherit;background:none;"
    "margin:.4em 0}"
    ".fedrelax td,.fedrelax th{text-align:right;padding:2px 10px 2px 0;border:0;"
    "border-bottom:1px solid rgba(128,128,128,.35);background:none;color:inherit}"
    ".fedrelax th{font-weight:600}.fedrelax td:first-child,.fedrelax th:first-child{text-align:left}"
    ".fedrelax pre{white-space:pre-wrap;color:inherit;background:none}"
)


def result_html(result: Result, facts: Sequence[str] = (), more: str = "") -> str:
    """Return the summary of a result: what came out, by round and at the first nodes."""
    data = report_data(result)
    stayed = ""
    if result.stayed:
        stayed = f", {counted(len(result.stayed), 'node')} kept the model trained alone"
    rounds = (
        f"{counted(result.n_rounds, 'round')} ({result.reason}){stayed}, {result.engine} engine"
    )
    return _fragment(
        _verdict(data),
        f"<p>{html.escape('; '.join([_size(result), *facts, rounds]))}.</p>",
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


def _nodes(data: ReportData, used: Graph) -> str:
    heads, columns = ["node", "model", "neighbours"], []
    for name, words in SHORT.items():
        if np.isfinite(data.alone(name)).any():
            heads += [f"{words}, alone", "together"]
            columns += [data.alone(name), data.kept(name)]
    lines = []
    for k, label in enumerate(data.graph.labels[:MOST_LINES]):
        neighbours = str(len(used.neighbours(label)))
        numbers = [f"{column[k]:.3g}" if np.isfinite(column[k]) else "-" for column in columns]
        lines.append([short(label), short(data.models[label]), neighbours, *numbers])
    return _table(heads, lines, len(data.graph))


def _table(heads: list[str], lines: list[list[str]], total: int) -> str:
    import pandas as pd

    table = pd.DataFrame(lines, columns=heads).to_html(index=False, border=0)
    left = total - len(lines)
    rest = f'<p class="quiet">and {left:,} more</p>' if left else ""
    return f"{table}{rest}"


def _fragment(lead: str, *parts: str) -> str:
    first = f'<p class="lead">{html.escape(lead)}</p>'
    return f'<div class="fedrelax"><style>{STYLE}</style>{first}{"".join(parts)}</div>'
