"""The tables that the command line prints: from data to renderables; nothing is printed here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fedrelax.comparison import Comparison
from fedrelax.errors import visible
from fedrelax.evaluation import ALONE, POOLED, TOGETHER, WAYS, Evaluation
from fedrelax.evaluation.evaluation import percent
from fedrelax.report.data import ReportData, columns
from fedrelax.report.data.rounding import short

MOST_LINES = 20
LONGEST_NAME = 25
WITH_INTERVALS = ("error", "difference")
"""The numbers of a comparison that have intervals; the first one goes first where there is no room."""


def plain_table(title: str) -> Table:
    """Return an empty table in the common style."""
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )


class Fitting:
    """A table that leaves out columns, one after the other, until it fits the width of the terminal.

    ``make`` returns the table without the columns of the given names; ``spare`` names those that can go,
    the first one first.
    """

    def __init__(self, make: Callable[[Sequence[str]], Table], *spare: str) -> None:
        self._make, self._spare = make, spare

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        wide = options.update(width=1000)
        for count in range(len(self._spare) + 1):
            table = self._make(self._spare[:count])
            if table.__rich_measure__(console, wide).maximum <= options.max_width:
                break
        yield table


def add_numbers(table: Table, *names: str) -> None:
    """Add columns of numbers."""
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)


def evaluation_report(data: ReportData) -> Group:
    """Return the nodes, the errors over all rows, and the verdict."""
    assert data.evaluation is not None
    words = Text(data.evaluation.verdict, style="bold")
    return Group(node_table(data), "", total_table(data.evaluation), "", words)


def node_table(data: ReportData, most: int = MOST_LINES) -> Fitting:
    """Return a line per node, the largest gains first; with many nodes, only the best and the worst."""
    return Fitting(partial(_node_table, data, most), "test", "rows", "pooled", "model")


def _node_table(data: ReportData, most: int, without: Sequence[str]) -> Table:
    evaluation = data.evaluation
    assert evaluation is not None
    table = plain_table(f"{evaluation.measure.name} on the test rows of each node")
    writers = []
    for column in columns.NODES:
        name = column.in_terminal
        values = None if name is None or name in without else column.values(data)
        if name is not None and values is not None:
            if column.kind in ("name", "text"):
                table.add_column(name, no_wrap=True, overflow="ellipsis")
            else:
                add_numbers(table, name)
            writers.append((values, _written(column.kind, evaluation)))
    number = {label: k for k, label in enumerate(data.graph.labels)}
    lines = [number[label] for label in evaluation.ranked()["node"]]
    tested = lines[: len(evaluation.tested)]
    few = len(lines) <= most
    head = lines if few else tested[: most // 2]
    tail = [] if few else tested[most // 2 :][-(most - most // 2) :]
    left = len(lines) - len(head) - len(tail)
    for k in (*head, *[None] * bool(left), *tail):
        if k is None:
            rest = f"... {left} more" if tail else f"... {left} without test rows"
            table.add_row(Text(rest, style="dim"))
        else:
            table.add_row(*(write(values[k]) for values, write in writers))
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
    table = plain_table("Over all test rows")
    table.add_column("")
    add_numbers(table, *WAYS)
    table.add_row(
        evaluation.measure.name, *(evaluation.measure.show(evaluation.errors[way]) for way in WAYS)
    )
    against = [evaluation.against(way).counts for way in (ALONE, POOLED)]
    for word, together in (("better", " together"), ("worse", " together"), ("equal", "")):
        table.add_row(f"nodes {word}{together}", *(str(counts[word]) for counts in against), "")
    return table


def kind_table(evaluation: Evaluation) -> Table:
    """Return a line per kind of model, the largest gain first: who learned most from the others."""
    table = plain_table("By kind of model")
    table.add_column("model")
    add_numbers(table, "nodes", "alone", "together", "gain")
    for kind, nodes, alone, ours, gain in evaluation.by_kind():
        errors = (evaluation.measure.show(alone), evaluation.measure.show(ours))
        table.add_row(escape(kind), str(nodes), *errors, _gain(gain))
    return table


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
    for names, reason in left_out(comparison.refused):
        parts.append(Text(f"Not compared: {names}: {reason}.", style="dim"))
    if comparison.refused:
        parts.append("")
    if comparison.splits < comparison.planned:
        splits = f"{comparison.splits} of {comparison.planned} splits"
        parts += [Text(f"Only {splits} were measured before the run stopped."), ""]
    return Group(*parts, Text(comparison.advice, style="bold"))


def way_table(comparison: Comparison) -> Fitting:
    """Return a line per way, the lowest error first, with intervals, all to the same decimals."""
    return Fitting(partial(_way_table, comparison), *WITH_INTERVALS)


def _way_table(comparison: Comparison, without: Sequence[str]) -> Table:
    measure = comparison.measure
    decimals = measure.decimals(float(comparison.errors.mean(axis=0).max()), digits=4)
    unit = f",{measure.unit}" if measure.unit else ""
    table = plain_table(
        f"{measure.name} on test rows: mean of {comparison.splits} splits, 95 % intervals"
    )
    shown = [name not in without for name in WITH_INTERVALS]
    table.add_column("way", no_wrap=True)
    for name, ends in zip((f"error{unit}", "minus\ntogether"), shown, strict=True):
        add_numbers(table, name, *["interval"] * ends)
    add_numbers(table, "")

    def cells(line: Mapping[str, Any], name: str, sign: str, ends: bool) -> list[str]:
        mean, low, high = (
            f"{measure.scale * line[name + end]:{sign}.{decimals}f}"
            for end in ("", "_low", "_high")
        )
        return [mean, f"{low} to {high}"] if ends else [mean]

    for line in comparison.table.to_dict("records"):
        errors = cells(line, "error", "", shown[0])
        if line["way"] == TOGETHER:
            table.add_row(line["way"], *errors, style="bold")
            continue
        better, worse = line["difference_high"] < 0, line["difference_low"] > 0
        verdict = Text("better", style="green") if better else Text("worse" * worse, style="red")
        table.add_row(line["way"], *errors, *cells(line, "difference", "+", shown[1]), verdict)
    return table


def left_out(refused: Mapping[str, str]) -> list[tuple[str, str]]:
    """Group the ways that were left out by reason: their names and the reason.

    >>> left_out({"FedAvg": "trees", "Ditto": "trees", "FedMD": "too big"})
    [('FedAvg, Ditto', 'trees'), ('FedMD', 'too big')]
    """
    by_reason: dict[str, list[str]] = {}
    for name, reason in refused.items():
        by_reason.setdefault(reason, []).append(name)
    return [(", ".join(names), reason) for reason, names in by_reason.items()]
