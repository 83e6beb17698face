"""The tables that the command line prints: from data to renderables; nothing is printed here."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rich import box
from rich.console import Console, ConsoleOptions, Group, JustifyMethod
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
WITH_INTERVALS = ("error", "difference")
"""The numbers of a comparison that have intervals; the first one goes first where there is no room."""


class Shown(NamedTuple):
    """A column of a table; ``key`` names it where it may be left out."""

    head: str
    cells: Sequence[str | Text]
    key: str = ""
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
        table.add_column(column.head, justify=side, no_wrap=True)
    for line in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*line, style="bold" if line[0] == bold else None)
    return table


class Fitting:
    """A table that leaves out columns, one after the other, until it fits the width of the terminal.

    ``spare`` names those that can go, the first one first.
    """

    def __init__(
        self, title: str, columns: Sequence[Shown], spare: Sequence[str], bold: str = ""
    ) -> None:
        self._title, self._columns, self._spare, self._bold = title, columns, spare, bold

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        wide = options.update(width=1000)
        for count in range(len(self._spare) + 1):
            kept = [one for one in self._columns if one.key not in self._spare[:count]]
            table = plain_table(self._title, *kept, bold=self._bold)
            if table.__rich_measure__(console, wide).maximum <= options.max_width:
                break
        yield table


def evaluation_report(data: ReportData) -> Group:
    """Return the nodes, the errors over all rows, and the verdict."""
    assert data.evaluation is not None
    words = Text(data.evaluation.verdict, style="bold")
    return Group(node_table(data), "", total_table(data.evaluation), "", words)


def node_table(data: ReportData, most: int = MOST_LINES) -> Fitting:
    """Return a line per node, the largest gains first; with many nodes, only the best and the worst."""
    evaluation = data.evaluation
    assert evaluation is not None
    number = {label: k for k, label in enumerate(data.graph.labels)}
    lines = [number[label] for label in evaluation.ranked()["node"]]
    tested = lines[: len(evaluation.tested)]
    few = len(lines) <= most
    head = lines if few else tested[: most // 2]
    tail = [] if few else tested[most // 2 :][-(most - most // 2) :]
    left = len(lines) - len(head) - len(tail)
    rest = Text(f"... {left} more" if tail else f"... {left} without test rows", style="dim")
    shown: list[Shown] = []
    for column in columns.NODES:
        name = column.in_terminal
        values = None if name is None else column.values(data)
        if name is not None and values is not None:
            write = _written(column.kind, evaluation)
            cells = [write(values[k]) for k in (*head, *tail)]
            if left:
                cells.insert(len(head), Text() if shown else rest)
            shown.append(Shown(name, cells, name, column.kind not in ("name", "text")))
    title = f"{evaluation.measure.name} on the test rows of each node"
    return Fitting(title, shown, ("test", "rows", "pooled", "model"))


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
    for names, reason in left_out(comparison.refused):
        parts.append(Text(f"Not compared: {names}: {reason}.", style="dim"))
    if comparison.refused:
        parts.append("")
    return Group(*parts, Text(comparison.advice, style="bold"))


def way_table(comparison: Comparison) -> Fitting:
    """Return a line per way, the lowest error first, with intervals, all to the same decimals."""
    measure, lines = comparison.measure, comparison.table.to_dict("records")
    decimals = measure.decimals(float(comparison.errors.mean(axis=0).max()), digits=4)
    unit = f",{measure.unit}" if measure.unit else ""

    def pair(head: str, name: str, sign: str) -> list[Shown]:
        def texts(line: Mapping[Hashable, Any]) -> tuple[str, str]:
            if name == "difference" and line["way"] == TOGETHER:
                return "", ""
            ends = (measure.scale * line[f"{name}{end}"] for end in ("", "_low", "_high"))
            mean, low, high = (f"{value:{sign}.{decimals}f}" for value in ends)
            return mean, f"{low} to {high}"

        means, intervals = zip(*map(texts, lines), strict=True)
        return [Shown(head, means), Shown("interval", intervals, name)]

    def verdict(line: Mapping[Hashable, Any]) -> Text:
        better, worse = line["difference_high"] < 0, line["difference_low"] > 0
        return Text("better", style="green") if better else Text("worse" * worse, style="red")

    shown = [
        Shown("way", [line["way"] for line in lines], number=False),
        *pair(f"error{unit}", "error", ""),
        *pair("minus\ntogether", "difference", "+"),
        Shown("", [verdict(line) for line in lines]),
    ]
    title = f"{measure.name} on test rows: mean of {comparison.splits} splits, 95 % intervals"
    return Fitting(title, shown, WITH_INTERVALS, bold=TOGETHER)


def left_out(refused: Mapping[str, str]) -> list[tuple[str, str]]:
    """Group the ways that were left out by reason: their names and the reason.

    >>> left_out({"FedAvg": "trees", "Ditto": "trees", "FedMD": "too big"})
    [('FedAvg, Ditto', 'trees'), ('FedMD', 'too big')]
    """
    by_reason: dict[str, list[str]] = {}
    for name, reason in refused.items():
        by_reason.setdefault(reason, []).append(name)
    return [(", ".join(names), reason) for reason, names in by_reason.items()]
