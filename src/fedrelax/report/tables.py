"""The tables that the command line prints: from data to renderables, nothing is printed here."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich import box
from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fedrelax.evaluation import show
from fedrelax.report.summary import Summary

MOST_LINES = 20
LONGEST_NAME = 25


def node_table(summary: Summary, most: int = MOST_LINES) -> Table:
    """Return a line per node, the largest gains first; of many nodes, the best and the worst."""
    title = f"{summary.measure} on the test rows of each node"
    table = plain_table(title)
    table.add_column("node", overflow="fold")
    table.add_column("model", overflow="fold")
    for name in ("rows", "test", "alone", "pooled", "together", "gain"):
        table.add_column(name, justify="right", no_wrap=True)
    lines = summary.nodes.sort_values("gain", ascending=False, na_position="last", kind="stable")
    if len(lines) <= most:
        _add_lines(table, summary.measure, lines)
        return table
    tested = lines[lines["gain"].notna()]
    best, worst = tested.head(most // 2), tested.iloc[most // 2 :].tail(most - most // 2)
    _add_lines(table, summary.measure, best)
    left = len(lines) - len(best) - len(worst)
    if left:
        more = f"... {left} more" if len(worst) else f"... {left} without test rows"
        table.add_row(Text(more, style="dim"))
    _add_lines(table, summary.measure, worst)
    return table


def _add_lines(table: Table, measure: str, lines: Any) -> None:
    for line in lines.to_dict("records"):
        gain = line["gain"]
        style = "green" if gain > 0 else "red" if gain < 0 else ""
        table.add_row(
            _short(line["node"]),
            _short(line["model"]),
            str(line["rows"]),
            str(line["test_rows"]),
            *(show(measure, line[way]) for way in ("alone", "pooled", "fedrelax")),
            Text(percent(gain), style=style),
        )


def plain_table(title: str) -> Table:
    """Return an empty table in the common form."""
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )


def _short(value: object) -> Text:
    """Return a name that leaves room for the numbers on a narrow screen."""
    text = Text(" ".join(str(value).split()))
    text.truncate(LONGEST_NAME, overflow="ellipsis")
    return text


def total_table(summary: Summary) -> Table:
    """Return the errors over all test rows and the wins and losses per node."""
    table = plain_table("Over all test rows")
    table.add_column("")
    for name in ("alone", "pooled", "together"):
        table.add_column(name, justify="right", no_wrap=True)
    errors = [show(summary.measure, summary.totals[w]) for w in ("alone", "pooled", "fedrelax")]
    table.add_row(summary.measure, *errors)
    against = [summary.counts(way) for way in ("alone", "pooled")]
    for word in ("better", "worse", "equal"):
        text = f"nodes {word} together" if word != "equal" else "nodes equal"
        table.add_row(text, *(str(counts[word]) for counts in against), "")
    return table


def kind_table(summary: Summary) -> Table:
    """Return a line per kind of model, the largest gain first: who learned most from the others."""
    table = plain_table("By kind of model")
    table.add_column("model")
    for name in ("nodes", "alone", "together", "gain"):
        table.add_column(name, justify="right", no_wrap=True)
    for kind, nodes, alone, ours, gain in by_kind(summary):
        errors = (show(summary.measure, alone), show(summary.measure, ours))
        style = "green" if gain > 0 else "red" if gain < 0 else ""
        table.add_row(escape(kind), str(nodes), *errors, Text(percent(gain), style=style))
    return table


def by_kind(summary: Summary) -> list[tuple[str, int, float, float, float]]:
    """Return (kind, nodes, mean error alone, mean error together, gain), largest gain first."""
    from fedrelax.report.summary import gains

    found = []
    tested = summary.nodes[summary.nodes["test_rows"] > 0]
    for kind, lines in tested.groupby("model", sort=True):
        alone, ours = float(lines["alone"].mean()), float(lines["fedrelax"].mean())
        gain = float(gains(np.array([alone]), np.array([ours]))[0])
        found.append((str(kind), len(lines), alone, ours, gain))
    return sorted(found, key=lambda line: -np.nan_to_num(line[4], nan=-np.inf))


def percent(gain: float) -> str:
    """Return a gain with its sign.

    >>> percent(12.34), percent(-3.0), percent(float("nan"))
    ('+12 %', '-3 %', '-')
    """
    return f"{gain:+.0f} %" if np.isfinite(gain) else "-"


def comparison(summary: Summary) -> Group:
    """Return both tables and the verdict."""
    words = Text(summary.verdict, style="bold")
    return Group(node_table(summary), "", total_table(summary), "", words)


def fact_table(facts: dict[str, str]) -> Table:
    """Return what is known as two columns: the name and the value."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, escape(value))
    return table
