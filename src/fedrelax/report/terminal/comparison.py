"""A comparison of ways as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from fedrelax.comparison import Comparison
from fedrelax.evaluation import TOGETHER
from fedrelax.report.terminal.tables import add_numbers, plain_table


def comparison_report(found: Comparison) -> Group:
    """Return the table of the ways, those that were left out, and the advice."""
    parts: list[Any] = [way_table(found), ""]
    for names, reason in left_out(found.refused):
        parts.append(Text(f"Not compared: {names}: {reason}.", style="dim"))
    if found.refused:
        parts.append("")
    if found.splits < found.planned:
        words = f"Only {found.splits} of {found.planned} splits were measured before the stop."
        parts += [Text(words), ""]
    return Group(*parts, Text(found.advice, style="bold"))


def way_table(found: Comparison) -> Table:
    """Return a line per way, the least error first, with intervals and one number of decimals."""
    measure = found.measure
    decimals = measure.decimals(float(found.errors.mean(axis=0).max()), digits=4)
    unit = f",{measure.unit}" if measure.unit else ""
    table = plain_table(
        f"{measure.name} on test rows: mean of {found.splits} splits, 95 % intervals"
    )
    table.add_column("way", no_wrap=True)
    add_numbers(table, f"error{unit}", "interval", "minus\ntogether", "interval", "")

    def cells(line: Mapping[str, Any], name: str, sign: str) -> tuple[str, str]:
        mean, low, high = (
            f"{measure.scale * line[name + end]:{sign}.{decimals}f}"
            for end in ("", "_low", "_high")
        )
        return mean, f"{low} to {high}"

    for line in found.lines():
        errors = cells(line, "error", "")
        if line["way"] == TOGETHER:
            table.add_row(line["way"], *errors, "", "", "", style="bold")
            continue
        better, worse = line["difference_high"] < 0, line["difference_low"] > 0
        verdict = Text("better", style="green") if better else Text("worse" * worse, style="red")
        table.add_row(line["way"], *errors, *cells(line, "difference", "+"), verdict)
    return table


def left_out(refused: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the ways that share a reason together: their names and the reason.

    >>> left_out({"FedAvg": "trees", "Ditto": "trees", "FedMD": "too big"})
    [('FedAvg, Ditto', 'trees'), ('FedMD', 'too big')]
    """
    by_reason: dict[str, list[str]] = {}
    for name, reason in refused.items():
        by_reason.setdefault(reason, []).append(name)
    return [(", ".join(names), reason) for reason, names in by_reason.items()]
