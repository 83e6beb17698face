"""The pictures: panels side by side with bands of one standard error, safe for the colour-blind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedrelax.paper.catalog import Figure, Line
from fedrelax.paper.runs import Measured

# Okabe and Ito's colours; line styles distinguish the lines where colours cannot.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))
MOST_PLAIN, FEW_TICKS = 1000.0, 5.0
"""Ratios of a log axis's ends below which its ticks, and also its minor ticks, get plain numbers."""


def draw(figure: Figure, measured: Mapping[Line, Measured], runs: int, paths: list[Path]) -> None:
    """Save the figure under every path; the suffix gives the format."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    columns = len(figure.panels)
    page = Canvas(figsize=(3.5 * columns + 0.8, 4.2), layout="constrained")
    FigureCanvasAgg(page)
    axes = page.subplots(1, columns, sharey=True, squeeze=False)[0]
    for axis, (title, lines) in zip(axes, figure.panels.items(), strict=True):
        axis.set_title(title, fontsize=10)
        _draw_panel(axis, [measured[line] for line in lines], figure.log)
    _scale(axes[0], figure)
    axes[0].set_ylabel(figure.ylabel)
    page.suptitle(f"{figure.title}\nmean of {runs} runs, band: ± 1 standard error", fontsize=11)
    _legends(page, axes, figure)
    with rc_context({"svg.hashsalt": "fedrelax", "svg.fonttype": "none"}):
        for path in paths:
            plain = {"Date": None} if path.suffix == ".svg" else None
            page.savefig(path, dpi=130, metadata=plain)


def _draw_panel(axis: Any, lines: Sequence[Measured], log: bool) -> None:
    longest = max(len(one.drawn.mean) for one in lines)
    for number, one in enumerate(lines):
        curve, colour = one.drawn, COLOURS[number % len(COLOURS)]
        steps = np.arange(len(curve.mean))
        axis.plot(
            steps, curve.mean, color=colour, linestyle=STYLES[number % len(STYLES)], linewidth=2,
            label=one.line.label, marker="o" if len(steps) < 10 else None, markersize=4,
        )  # fmt: skip
        low, high = curve.mean - curve.sem, curve.mean + curve.sem
        if log:
            low = np.maximum(low, 1e-3 * curve.mean)
        axis.fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0)
        if one.bounds is not None:
            axis.axhline(one.bounds.mean(), color=colour, linestyle=(0, (2, 2)), linewidth=1.2)
    if any(one.by_local or one.by_oracle for one in lines):
        axis.axhline(1.0, color="#777777", linewidth=0.8, zorder=0)
    axis.set_xlabel("round" if longest < 10 else "iteration")
    if longest < 10:
        axis.set_xticks(range(longest))
    axis.grid(color="#EEEEEE")
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def _scale(axis: Any, figure: Figure) -> None:
    """Set the common y axis after everything is drawn; a short log axis gets plain numbers."""
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    if not figure.log:
        axis.set_ylim(bottom=0)
        return
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    if high / low < MOST_PLAIN:
        axis.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        plain = StrMethodFormatter("{x:g}") if high / low < FEW_TICKS else NullFormatter()
        axis.yaxis.set_minor_formatter(plain)


def _legends(page: Any, axes: Any, figure: Figure) -> None:
    """Draw one legend for all panels if they have the same lines, else one below each."""
    groups = {tuple(line.label for line in lines) for lines in figure.panels.values()}
    if len(groups) == 1:
        handles, labels = axes[0].get_legend_handles_labels()
        page.legend(
            handles, labels, loc="outside lower center", ncols=max(3, len(labels)), frameon=False
        )
        return
    short = max(len(label) for labels in groups for label in labels) < 16
    for axis in axes:
        axis.legend(
            loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3 if short else 2, frameon=False,
            fontsize=8.5, handlelength=2.6, columnspacing=1.0,
        )  # fmt: skip
