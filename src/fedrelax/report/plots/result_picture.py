"""One picture of a result: what each node gained, and where the nodes are or how the rounds went."""

from __future__ import annotations

from pathlib import Path

from fedrelax.evaluation import WAYS
from fedrelax.report.data import ReportData
from fedrelax.report.data.node_values import node_values
from fedrelax.report.plots.axes import drawable, saved_figure
from fedrelax.report.plots.curves import draw_curve
from fedrelax.report.plots.gains import MOST_BARS, draw_gains
from fedrelax.report.plots.graph import draw_graph


def save_result_picture(path: Path, data: ReportData) -> None:
    """Draw the errors per node on the left, and a map (if there are places) or curves on the right."""
    found = data.evaluation
    assert found is not None
    tested, measure = found.tested, data.measure
    height = max(4.5, 0.3 * len(tested) + 1.6) if len(tested) <= MOST_BARS else 5.0
    mapped = data.graph.positions is not None and data.graph.positions.shape[1] == 2
    # Axes of equal scale leave gaps that only "compressed" closes.
    with saved_figure(path, (12, height), "compressed" if mapped else "constrained") as figure:
        parts = [["gains", "map"]] if mapped else [["gains", "local_loss"], ["gains", "gtv"]]
        axes = figure.subplot_mosaic(parts, width_ratios=(1.1, 1))
        draw_gains(axes["gains"], tested, data.labels["error"], measure.scale)
        if mapped:
            draw_graph(axes["map"], data, node_values(data, "gain"))
        else:
            for name in ("local_loss", "gtv"):
                draw_curve(axes[name], data, name)
        errors = ", ".join(f"{way} {measure.show(found.errors[way])}" for way in WAYS)
        figure.suptitle(drawable(f"{measure.name} over all test rows: {errors}"), fontsize=11)
