"""The pictures saved next to the numbers: of a result, and of a comparison of ways."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedrelax.comparison import Comparison
from fedrelax.evaluation import TOGETHER, WAYS
from fedrelax.report import palette
from fedrelax.report.data import ReportData
from fedrelax.report.data.node_values import node_values
from fedrelax.report.plots.axes import drawable, saved_figure, tidy
from fedrelax.report.plots.curves import draw_curve
from fedrelax.report.plots.gains import MOST_BARS, draw_gains
from fedrelax.report.plots.graph import draw_graph
from fedrelax.typing import FloatArray

MARKS = {"alone": "o", "together": "D", "pooled": "s"}


def save_result_picture(path: Path, data: ReportData) -> None:
    """Draw the errors per node on the left, and a map (if nodes have positions) or GTV on the right."""
    found = data.evaluation
    assert found is not None
    tested, measure = found.tested, data.measure
    height = max(4.5, 0.3 * len(tested) + 1.6) if len(tested) <= MOST_BARS else 5.0
    mapped = data.graph.positions is not None and data.graph.positions.shape[1] == 2
    # Axes of equal scale leave gaps that only "compressed" closes.
    with saved_figure(path, (12, height), "compressed" if mapped else "constrained") as figure:
        gains, right = figure.subplots(1, 2, width_ratios=(1.1, 1) if mapped else (1.6, 1))
        draw_gains(gains, tested, data.labels["error"], measure.scale)
        if mapped:
            draw_graph(right, data, node_values(data, "gain"))
        else:
            draw_curve(right, data, "gtv")
        errors = ", ".join(f"{way} {measure.show(found.errors[way])}" for way in WAYS)
        title = f"{found.headline}. {measure.name} over all test rows: {errors}"
        figure.suptitle(drawable(title), fontsize=11)


def save_comparison_picture(path: Path, found: Comparison) -> None:
    """Draw the ways one below the other: errors on the left, differences from together on the right.

    The differences decide: errors of all ways go up and down together from split to split, so
    their intervals may overlap where the differences are clear. Needs matplotlib (the extra
    ``report``).
    """
    lines, measure = found.table.to_dict("records")[::-1], found.measure
    with saved_figure(path, (11, 1.7 + 0.42 * len(lines))) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        ours = found.errors[:, found.ways.index(TOGETHER)]
        for place, line in enumerate(lines):
            errors = found.errors[:, found.ways.index(line["way"])]
            _draw_line(left, place, line, "error", measure.scale, errors)
            _draw_line(right, place, line, "difference", measure.scale, errors - ours)
        left.set_yticks(range(len(lines)), [line["way"] for line in lines])
        left.set_ylim(-0.7, len(lines) - 0.4)
        left.set_xlabel(measure.axis("the target"))
        right.set_xlabel(f"{measure.name} minus that together ({measure.gap_axis('the target')})")
        right.axvline(0.0, color=palette.LIGHT["ink"], linewidth=1, zorder=0)
        right.set_title("left of the line: better than together", fontsize=9, loc="left")
        for axes in (left, right):
            tidy(axes, grid="x")
        words = f"Mean of {found.splits} random splits with 95 % intervals; single splits in grey"
        figure.suptitle(words, fontsize=11)


def _draw_line(
    axes: Any, place: int, line: Mapping[str, Any], name: str, scale: float, splits: FloatArray
) -> None:
    """Draw a way's mean and interval, and the single splits a little below."""
    colour, marker = palette.WAYS.get(line["way"], palette.OTHER), MARKS.get(line["way"], "v")
    ends = [scale * line[f"{name}_low"], scale * line[f"{name}_high"]]
    axes.plot(ends, [place, place], color=colour, linewidth=2, zorder=2)
    axes.scatter(scale * line[name], place, s=52, color=colour, marker=marker, zorder=3)
    below = np.full(len(splits), place - 0.25)
    axes.scatter(
        scale * splits, below, s=14, color=palette.OTHER, alpha=0.6, linewidths=0, zorder=1
    )
