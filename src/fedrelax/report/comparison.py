"""A comparison of ways as a table and as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text

from fedrelax.comparison import Comparison
from fedrelax.comparison.ways import LOCAL, POOLED, TOGETHER
from fedrelax.report.tables import plain_table
from fedrelax.typing import FloatArray

# Okabe and Ito's colours, which people with any kind of colour vision can tell apart; the shapes
# differ too.
LOOKS = {LOCAL: ("#E69F00", "o"), TOGETHER: ("#0072B2", "D"), POOLED: ("#D55E00", "s")}
OTHER = ("#666666", "v")


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
    """Return a line per way, the least error first, with intervals."""
    numbers = _Numbers.of(found)
    table = plain_table(
        f"{found.measure} on test rows: mean of {found.splits} splits, 95 % intervals"
    )
    table.add_column("way", no_wrap=True)
    for name in (f"error{numbers.unit}", "interval", "minus\nFedRelax", "interval", ""):
        table.add_column(name, justify="right", no_wrap=True)
    for line in _lines(found):
        cells = [line["way"], *numbers.cells(line, "error", sign="")]
        if line["way"] == TOGETHER:
            table.add_row(*cells, "", "", "", style="bold")
            continue
        better, worse = line["difference_high"] < 0, line["difference_low"] > 0
        verdict = Text("better", style="green") if better else Text("worse" * worse, style="red")
        table.add_row(*cells, *numbers.cells(line, "difference", sign="+"), verdict)
    return table


def _lines(found: Comparison) -> list[dict[str, Any]]:
    """Return the lines of the table; no error is shown below zero, and no share above 100 %."""
    most = 1.0 if found.measure == "error rate" else np.inf
    lines: list[dict[str, Any]] = found.table.to_dict("records")
    for line in lines:
        line["error_low"] = max(line["error_low"], 0.0)
        line["error_high"] = min(line["error_high"], most)
    return lines


@dataclass(frozen=True)
class _Numbers:
    """Numbers of one table: shares of wrong labels in percent, else so many decimals for all."""

    unit: str
    scale: float
    decimals: int

    @classmethod
    def of(cls, found: Comparison) -> _Numbers:
        if found.measure == "error rate":
            return cls(", %", 100.0, 1)
        largest = float(found.errors.mean(axis=0).max()) or 1.0
        return cls("", 1.0, max(0, 3 - int(np.floor(np.log10(largest)))))

    def cells(self, line: Mapping[str, Any], name: str, sign: str) -> tuple[str, str]:
        """Return the mean and the interval."""
        mean, low, high = (
            f"{self.scale * line[name + end]:{sign}.{self.decimals}f}"
            for end in ("", "_low", "_high")
        )
        return mean, f"{low} to {high}"


def left_out(refused: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the ways that share a reason together: their names and the reason.

    >>> left_out({"FedAvg": "trees", "Ditto": "trees", "FedMD": "too big"})
    [('FedAvg, Ditto', 'trees'), ('FedMD', 'too big')]
    """
    by_reason: dict[str, list[str]] = {}
    for name, reason in refused.items():
        by_reason.setdefault(reason, []).append(name)
    return [(", ".join(names), reason) for reason, names in by_reason.items()]


def save_comparison_picture(path: Path, found: Comparison) -> None:
    """Draw the ways below each other: errors on the left, differences to FedRelax on the right.

    The differences decide: errors of all ways go up and down together from split to split, so
    their intervals may overlap where the differences are clear. Needs matplotlib (the extra
    ``report``).
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    lines = _lines(found)[::-1]
    scale = 100.0 if found.measure == "error rate" else 1.0
    figure = Figure(figsize=(11, 1.7 + 0.42 * len(lines)), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, sharey=True)
    ours = found.errors[:, found.ways.index(TOGETHER)]
    for place, line in enumerate(lines):
        errors = found.errors[:, found.ways.index(line["way"])]
        _draw_line(left, place, line, "error", scale, errors)
        _draw_line(right, place, line, "difference", scale, errors - ours)
    left.set_yticks(range(len(lines)), [line["way"] for line in lines])
    left.set_ylim(-0.7, len(lines) - 0.4)
    unit = ", %" if found.measure == "error rate" else ""
    left.set_xlabel(f"{found.measure} on test rows{unit}")
    points = ", percentage points" if found.measure == "error rate" else ""
    right.set_xlabel(f"{found.measure} minus that of FedRelax{points}")
    right.axvline(0.0, color="#444444", linewidth=1, zorder=0)
    right.set_title("left of the line: better than FedRelax", fontsize=9, loc="left")
    for axes in (left, right):
        axes.grid(axis="x", color="#EEEEEE")
        axes.set_axisbelow(True)
    figure.suptitle(
        f"Mean of {found.splits} random splits with 95 % intervals; single splits in grey",
        fontsize=11,
    )
    figure.savefig(path, dpi=110)


def _draw_line(
    axes: Any, place: int, line: Mapping[str, Any], name: str, scale: float, splits: FloatArray
) -> None:
    """Draw a way's mean and interval, and the single splits a little below."""
    colour, marker = LOOKS.get(line["way"], OTHER)
    ends = [scale * line[f"{name}_low"], scale * line[f"{name}_high"]]
    axes.plot(ends, [place, place], color=colour, linewidth=2, zorder=2)
    axes.scatter(scale * line[name], place, s=52, color=colour, marker=marker, zorder=3)
    below = np.full(len(splits), place - 0.25)
    axes.scatter(scale * splits, below, s=14, color="#AAAAAA", linewidths=0, zorder=1)
