"""The tables that the command line prints: from data to renderables; nothing is printed here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any

from rich import box
from rich.console import Group, JustifyMethod
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fedrelax.comparison import Comparison
from fedrelax.errors import visible
from fedrelax.evaluation import TOGETHER, WAYS, Evaluation
from fedrelax.evaluation.evaluation import percent
from fedrelax.report.data import ReportData, columns
from fedrelax.report.data.rounding import short

MOST_LINES = 20
LONGEST_NAME = 25


Cell = str | Text


def plain_table(
    title: str,
    heads: Sequence[str],
    lines: Iterable[Sequence[Cell]],
    texts: Collection[str],
    bold: str = "",
) -> Table:
    """Return a table in the common style; all columns but ``texts`` are numbers.

    The line that begins with ``bold`` is.
    """
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    for head in heads:
        side: JustifyMethod = "left" if head in texts else "right"
        table.add_column(head, justify=side, no_wrap=head not in texts, overflow="ellipsis")
    for line in lines:
        table.add_row(*line, style="bold" if line[0] == bold else None)
    return table


def evaluation_report(data: ReportData) -> Group:
    """Return the nodes, the errors over all rows, and the verdict."""
    assert data.evaluation is not None
    words = Text(data.evaluation.verdict, style="bold")
    return Group(node_table(data), "", total_table(data.evaluation), "", words)


def node_table(data: ReportData) -> Table:
    """Return a line per node, the largest gains first; with many nodes, only the best and the worst."""
    evaluation = data.evaluation
    assert evaluation is not None
    number = {label: k for k, label in enumerate(data.graph.labels)}
    chosen = ranked = [number[label] for label in evaluation.ranked()["node"]]
    if len(ranked) > MOST_LINES:
        tested, half = ranked[: len(evaluation.tested)], MOST_LINES // 2
        chosen = [*tested[:half], *tested[half:][-half:]]
    cells: dict[str, list[Text]] = {}
    for column in columns.NODES:
        values = None if column.in_terminal is None else column.values(data)
        if column.in_terminal is not None and values is not None:
            write = partial(_cell, column.kind, evaluation)
            cells[column.in_terminal] = [write(values[k]) for k in chosen]
    title = f"{evaluation.measure.name} on the test rows of each node"
    table = plain_table(title, [*cells], zip(*cells.values(), strict=True), ("node", "model"))
    if len(ranked) > MOST_LINES:
        left = f"{len(ranked) - len(chosen)} nodes in between are left out; nodes.csv has all"
        table.caption, table.caption_justify = left, "left"
    return table


def _cell(kind: str, evaluation: Evaluation, value: Any) -> Text:
    """Return a value as a column of this kind shows it."""
    if kind in ("name", "text"):
        return Text(short(value, LONGEST_NAME))
    if kind == "error":
        return Text(evaluation.measure.show(value))
    if kind == "gain":
        return Text(percent(value), style="green" if value > 0 else "red" if value < 0 else "")
    # a count, in a column with gaps, is a float
    return Text("-" if value is None or value != value else f"{int(value):,}")


def total_table(evaluation: Evaluation) -> Table:
    """Return the errors over all test rows and the wins and losses per node."""
    show, errors = evaluation.measure.show, evaluation.errors
    lines = [[evaluation.measure.name, *(show(errors[way]) for way in WAYS)]]
    counts = [evaluation.against(way).counts for way in WAYS if way != TOGETHER]
    for kind, words in (
        ("better", "better together"),
        ("worse", "worse together"),
        ("equal", "equal"),
    ):
        lines.append([f"nodes {words}", *(str(count[kind]) for count in counts), ""])
    return plain_table("Over all test rows", ["", *WAYS], lines, [""])


def fact_table(facts: dict[str, str]) -> Table:
    """Return facts in two columns: the name and the value."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, escape(visible(value)))
    return table


def comparison_report(comparison: Comparison) -> Group:
    """Return the table of the ways, those that were left out, and the advice."""
    parts: list[Any] = [way_table(comparison), ""]
    refused = comparison.refused
    for reason in dict.fromkeys(refused.values()):
        names = ", ".join(name for name, why in refused.items() if why == reason)
        parts.append(Text(f"Not compared: {names}: {reason}.", style="dim"))
    if refused:
        parts.append("")
    if comparison.splits < comparison.planned:
        splits = f"{comparison.splits} of {comparison.planned} splits"
        parts += [Text(f"Only {splits} were measured before the run stopped."), ""]
    return Group(*parts, Text(comparison.advice, style="bold"))


def way_table(comparison: Comparison) -> Table:
    """Return a line per way, the lowest error first, all to the same decimals."""
    measure, rows = comparison.measure, list[list[Cell]]()
    decimals = measure.decimals(float(comparison.errors.mean(axis=0).max()), digits=4)
    unit = f",{measure.unit}" if measure.unit else ""
    for line in comparison.table.to_dict("records"):
        names = ("error", "difference", "difference_low", "difference_high")
        error, gap, low, high = (measure.scale * line[name] for name in names)
        compared: list[Cell] = ["", "", ""]
        if line["way"] != TOGETHER:
            better, worse = Text("better", style="green"), Text("worse", style="red")
            verdict = better if high < 0 else worse if low > 0 else Text()
            interval = f"{low:+.{decimals}f} to {high:+.{decimals}f}"
            compared = [f"{gap:+.{decimals}f}", interval, verdict]
        rows.append([str(line["way"]), f"{error:.{decimals}f}", *compared])
    title = f"{measure.name} on test rows: mean of {comparison.splits} splits, 95 % intervals"
    heads = ("way", f"error{unit}", "minus\ntogether", "interval", "")
    return plain_table(title, heads, rows, ["way"], bold=TOGETHER)
