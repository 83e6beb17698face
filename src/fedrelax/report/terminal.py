"""The tables that the command line prints: from data to renderables; nothing is printed here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

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


class Shown(NamedTuple):
    """A column of a table."""

    head: str
    cells: Sequence[str | Text]
    number: bool = True


def plain_table(title: str, *columns: Shown, bold: str = "") -> Table:
    """Return a table in the common style; the line that begins with ``bold`` is."""
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    for column in columns:
        side: JustifyMethod = "right" if column.number else "left"
        table.add_column(column.head, justify=side, no_wrap=column.number, overflow="ellipsis")
    for line in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*line, style="bold" if line[0] == bold else None)
    return table


def evaluation_report(data: ReportData) -> Group:
    """Return the nodes, the errors over all rows, and the verdict."""
    assert data.evaluation is not None
    words = Text(data.evaluation.verdict, style="bold")
    return Group(node_table(data), "", total_table(data.evaluation), "", words)


def node_table(data: ReportData, most: int = MOST_LINES) -> Table:
    """Return a line per node, the largest gains first; with many nodes, only the best and the worst."""
    evaluation = data.evaluation
    assert evaluation is not None
    number = {label: k for k, label in enumerate(data.graph.labels)}
    lines = ranked = [number[label] for label in evaluation.ranked()["node"]]
    if len(ranked) > most:
        tested = ranked[: len(evaluation.tested)]
        lines = [*tested[: most // 2], *tested[most // 2 :][-(most // 2) :]]
    shown = []
    for column in columns.NODES:
        values = None if column.in_terminal is None else column.values(data)
        if column.in_terminal is not None and values is not None:
            write = _written(column.kind, evaluation)
            cells = [write(values[k]) for k in lines]
            shown.append(Shown(column.in_terminal, cells, column.kind not in ("name", "text")))
    table = plain_table(f"{evaluation.measure.name} on the test rows of each node", *shown)
    if len(ranked) > most:
        left = f"{len(ranked) - len(lines)} nodes in between are left out; nodes.csv has all"
        table.caption, table.caption_justify = left, "left"
    return table


def _written(kind: str, evaluation: Evaluation) -> Callable[[Any], Text]:
    """Return how a column writes its values."""
    if kind in ("name", "text"):
        return lambda value: Text(short(value, LONGEST_NAME))
    if kind == "error":
        return lambda value: Text(evaluation.measure.show(value))
    if kind == "gain":
        return _gain  # a count, in a column with gaps, is a float
    return lambda value: Text("-" if value is None or value != value else f"{int(value):,}")


def _gain(gain: float) -> Text:
    return Text(percent(gain), style="green" if gain > 0 else "red" if gain < 0 else "")


def total_table(evaluation: Evaluation) -> Table:
    """Return the errors over all test rows and the wins and losses per node."""
    words = ("nodes better together", "nodes worse together", "nodes equal")
    names = Shown("", [evaluation.measure.name, *words], number=False)

    def cells(way: str) -> list[str]:
        compared = way != TOGETHER
        counts = evaluation.against(way).counts.values() if compared else [""] * len(words)
        return [evaluation.measure.show(evaluation.errors[way]), *map(str, counts)]

    return plain_table("Over all test rows", names, *(Shown(way, cells(way)) for way in WAYS))


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
    by_reason: dict[str, list[str]] = {}
    for name, reason in comparison.refused.items():
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        parts.append(Text(f"Not compared: {', '.join(names)}: {reason}.", style="dim"))
    if comparison.refused:
        parts.append("")
    if comparison.splits < comparison.planned:
        splits = f"{comparison.splits} of {comparison.planned} splits"
        parts += [Text(f"Only {splits} were measured before the run stopped."), ""]
    return Group(*parts, Text(comparison.advice, style="bold"))


def way_table(comparison: Comparison) -> Table:
    """Return a line per way, the lowest error first, all to the same decimals."""
    measure, lines = comparison.measure, comparison.table.to_dict("records")
    decimals = measure.decimals(float(comparison.errors.mean(axis=0).max()), digits=4)
    unit = f",{measure.unit}" if measure.unit else ""
    ways, errors, gaps, intervals, verdicts = [], [], [], [], []
    for line in lines:
        ways.append(str(line["way"]))
        errors.append(f"{measure.scale * line['error']:.{decimals}f}")
        names = ("difference", "difference_low", "difference_high")
        gap, low, high = (measure.scale * line[name] for name in names)
        other = line["way"] != TOGETHER
        gaps.append(f"{gap:+.{decimals}f}" if other else "")
        intervals.append(f"{low:+.{decimals}f} to {high:+.{decimals}f}" if other else "")
        better, worse = Text("better", style="green"), Text("worse", style="red")
        verdicts.append(better if high < 0 else worse if low > 0 else Text())
    return plain_table(
        f"{measure.name} on test rows: mean of {comparison.splits} splits, 95 % intervals",
        Shown("way", ways, number=False),
        Shown(f"error{unit}", errors),
        Shown("minus\ntogether", gaps),
        Shown("interval", intervals),
        Shown("", verdicts),
        bold=TOGETHER,
    )
