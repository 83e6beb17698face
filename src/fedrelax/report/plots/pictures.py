"""The pictures: ``plot`` of results and estimators, and those saved next to the numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.evaluation import WAYS, Evaluation
from fedrelax.extras import need
from fedrelax.report.data import ReportData, report_data
from fedrelax.report.data.columns import EVALUATE, lines_by_node, node_values
from fedrelax.report.palette import CURVES
from fedrelax.report.plots import drawing
from fedrelax.solvers import Result
from fedrelax.validation import check_choice


class Plots:
    """The pictures of one result."""

    def __init__(self, result: Result) -> None:
        need("matplotlib", "report")
        self._result, self._data = result, report_data(result)

    def __repr__(self) -> str:
        return "Plots(graph, curves, gains)"

    def graph(
        self,
        colour: str | None = None,
        *,
        evaluation: Evaluation | None = None,
        dropped: bool = True,
        names: bool | None = None,
        ax: Any = None,
    ) -> Any:
        """Draw nodes and edges: on a map, or so that nodes that listen to each other are close.

        ``colour`` is "gain", "error", "validation", "loss", "disagreement", "cluster" or "model";
        without it, the gain where it is known, else the clusters of a rewired graph, else the loss.
        ``evaluation`` is what ``fedrelax.evaluation.evaluate`` returns: with it, gain and error are
        those on test rows. Edges that were dropped are dashed, unless ``dropped`` is False.
        ``names`` writes the nodes' names; by default, those of up to 25 nodes.
        """
        data = report_data(self._result, evaluation)
        found = node_values(data, colour)
        ax = drawing.new_axes(ax, (6.4, 5.6))
        drawing.draw_graph(ax, data, found, dropped=dropped, names=names)
        return ax

    def curves(self, name: str | None = None, *, ax: Any = None) -> Any:
        """Draw the quantities of every round, each with its own unit on axes of its own.

        ``name`` picks one: "local_loss", "gtv", "objective" or "validation_loss". ``ax`` is one
        axes for one quantity, or as many as there are quantities.
        """
        if name is not None:
            check_choice("curve", name, list(CURVES))
        history = self._data.history
        wanted = [key for key in CURVES if name in (None, key) and np.isfinite(history[key]).any()]
        if not wanted:
            raise FedRelaxError(
                "there is no validation curve: no rows were held out; fit with validation_share=0.2"
            )
        if ax is None:
            from matplotlib import pyplot

            size = (min(3.1 * len(wanted), 12.4), 2.9)
            ax = pyplot.subplots(1, len(wanted), figsize=size, layout="constrained")[1]
        axes = np.ravel(np.asarray(ax, dtype=object))
        if len(axes) != len(wanted):
            raise FedRelaxError(
                f"there are {len(wanted)} curves, each with a unit of its own, but ax has "
                f"{len(axes)} axes; pass {len(wanted)}, or name one: curves('gtv', ax=ax)"
            )
        for one, key in zip(axes, wanted, strict=True):
            drawing.draw_curve(one, self._data, key)
        return axes if name is None else axes[0]

    def gains(self, evaluation: Evaluation | None = None, *, ax: Any = None) -> Any:
        """Draw every node alone and together: a line per node or, with many nodes, a point per node.

        With ``evaluation``, what ``fedrelax.evaluation.evaluate`` returns, by the error on test rows;
        else by the validation loss of round 0 and of the models kept, if rows were held out.
        """
        found = lines_by_node(report_data(self._result, evaluation))
        if found is None:
            raise FedRelaxError(
                f"gains needs errors, but no rows were held out in the rounds; pass {EVALUATE}, or "
                "fit with validation_share=0.2"
            )
        bars = len(found[0])
        height = max(2.6, 0.24 * bars + 1.3) if bars <= drawing.MOST_BARS else 5.2
        ax = drawing.new_axes(ax, (6.4, height))
        drawing.draw_gains(ax, *found)
        return ax


def save_result_picture(path: Path, data: ReportData) -> None:
    """Draw the errors per node on the left, and a map (if nodes have positions) or GTV on the right."""
    from matplotlib.figure import Figure  # which, unlike pyplot, opens no window

    evaluation = data.evaluation
    assert evaluation is not None
    tested, measure = evaluation.tested, data.measure
    height = max(4.5, 0.3 * len(tested) + 1.6) if len(tested) <= drawing.MOST_BARS else 5.0
    mapped = data.graph.positions is not None and data.graph.positions.shape[1] == 2
    # "compressed" closes the gaps of axes of equal scale
    figure = Figure(figsize=(12, height), layout="compressed" if mapped else "constrained")
    gains, right = figure.subplots(1, 2, width_ratios=(1.1, 1) if mapped else (1.6, 1))
    drawing.draw_gains(gains, tested, data.labels["error"], measure.scale)
    if mapped:
        drawing.draw_graph(right, data, node_values(data, "gain"))
    else:
        drawing.draw_curve(right, data, "gtv")
    errors = ", ".join(f"{way} {measure.show(evaluation.errors[way])}" for way in WAYS)
    title = f"{evaluation.headline}. {measure.name} over all test rows: {errors}"
    figure.suptitle(drawing.drawable(title), fontsize=11)
    figure.savefig(path, dpi=110, bbox_inches="tight")
