"""``result.plot`` and ``model.plot``: pictures for papers and notebooks, as matplotlib axes.

Every method draws on ``ax`` if one is given, else on a new figure, and returns the axes. Colours can be
told apart with any kind of colour vision.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError, did_you_mean
from fedrelax.evaluation import MEASURES
from fedrelax.extras import need
from fedrelax.report import drawing
from fedrelax.report.edges import edges_of
from fedrelax.report.layout import places
from fedrelax.report.picture import MOST_BARS, draw_bars, draw_scatter
from fedrelax.report.values import (
    axis_names,
    errors_by_node,
    node_values,
    usual_colour,
    validation_by_node,
)
from fedrelax.selection import Choice
from fedrelax.solvers import Result

CURVES = {
    "local_loss": ("loss", drawing.ORANGE),
    "gtv": ("gtv", drawing.BLUE),
    "objective": ("objective", drawing.GREEN),
    "validation_loss": ("validation", drawing.RED),
}
MOST_DRAWN = 10_000
"""Edges; of more, each node's strongest are drawn."""


class Plots:
    """The pictures of one result. ``choice`` is how its alpha was chosen, if it was."""

    def __init__(self, result: Result, choice: Choice | None = None) -> None:
        need("matplotlib", "report")
        self._result, self._choice = result, choice

    def __repr__(self) -> str:
        return "Plots(graph, curves, gains, path)"

    def graph(
        self,
        colour: str | None = None,
        *,
        table: Any = None,
        dropped: bool = True,
        names: bool | None = None,
        ax: Any = None,
    ) -> Any:
        """Draw nodes and edges: on their map, or with those near each other who listen to each other.

        ``colour`` is "gain", "error", "validation", "loss", "disagreement", "cluster" or "model";
        without it, the gain where it is known, else the clusters of a rewired graph, else the loss.
        ``table`` is what ``fedrelax.evaluation.compare`` returns: with it, gain and error are those
        on test rows. Edges that were dropped are dashed, unless ``dropped`` is False.
        ``names`` writes the nodes' names; without a word, those of up to 25 nodes.
        """
        result = self._result
        found = node_values(result, colour or usual_colour(result, table), table)
        graph = result.graph
        edges = edges_of(result.edges_to_frame(), graph.labels, MOST_DRAWN)
        ends, strength = edges.for_layout()
        stand = places(graph.positions, graph.geographic, ends, strength, len(graph))
        ax = drawing.axes(ax, (6.4, 5.6))
        points = stand.points * (stand.unit or 1.0)
        drawing.draw_edges(ax, points, edges, dropped)
        drawing.draw_nodes(ax, points, found)
        if names if names is not None else len(graph) <= drawing.FEW_NAMES:
            drawing.write_names(ax, points, graph.labels)
        drawing.name_places(ax, stand.kind)
        return ax

    def curves(self, name: str | None = None, *, ax: Any = None) -> Any:
        """Draw the quantities of every round, each with its own unit on axes of its own.

        ``name`` picks one: "local_loss", "gtv", "objective" or "validation_loss". ``ax`` is one
        axes for one quantity, or as many as there are quantities.
        """
        history, names = self._result.history, axis_names(self._result)
        known = [key for key in CURVES if np.isfinite(history[key]).any()]
        if name is not None and name not in known:
            self._refuse_curve(name)
        wanted = known if name is None else [name]
        given = None if ax is None else np.ravel(np.asarray(ax, dtype=object)).tolist()
        if given is not None and len(given) != len(wanted):
            raise FedRelaxError(
                f"there are {len(wanted)} curves, each with a unit of its own, and ax has "
                f"{len(given)} axes; pass {len(wanted)}, or name one: curves('gtv', ax=ax)"
            )
        found = given or drawing.row_of_axes(len(wanted))
        kept = self._result.n_rounds
        for axes, key in zip(found, wanted, strict=True):
            label, colour = CURVES[key]
            drawing.draw_curve(axes, history["round"], history[key], names[label], colour, kept)
        return found[0] if name is not None else np.array(found, dtype=object)

    def gains(self, table: Any = None, *, ax: Any = None) -> Any:
        """Draw every node alone and together: a line per node, or of many a point per node.

        With ``table``, what ``fedrelax.evaluation.compare`` returns, by the error on test rows; else
        by the validation loss of round 0 and of the models kept, if rows were held out.
        """
        result = self._result
        if table is not None:
            lines, scale = errors_by_node(result, table), 1.0
            label = axis_names(result)["error"]
            if MEASURES[result.task.kind] == "error rate":
                scale = 100.0
        else:
            lines, scale = validation_by_node(result), 1.0
            label = axis_names(result)["validation"]
        if lines is None:
            raise FedRelaxError(
                "gains needs errors, and no rows were held out in the rounds; pass what "
                "fedrelax.evaluation.compare returns, or fit with validation_share=0.2"
            )
        lines = lines[np.isfinite(lines["fedrelax"].to_numpy(float))]
        few = len(lines) <= MOST_BARS
        ax = drawing.axes(ax, (6.4, max(2.6, 0.24 * len(lines) + 1.3)) if few else (5.2, 5.2))
        (draw_bars if few else draw_scatter)(ax, lines, label, scale)
        return ax

    def path(self, choice: Choice | None = None, *, ax: Any = None) -> Any:
        """Draw the validation loss over alpha for every wiring, each at its best round.

        A ring marks what was chosen. A simpler way has the benefit of the doubt, so that need not be
        the lowest point. ``choice`` is the ``choice_`` of an estimator, which knows its own.
        """
        choice = self._choice if choice is None else choice
        if choice is None:
            raise FedRelaxError(
                "nothing was chosen here: path needs the choice_ of an estimator fitted with "
                "alpha='auto' or wiring='auto'; use its model.plot.path(), or pass it"
            )
        ax = drawing.axes(ax, (5.6, 4.0))
        drawing.draw_path(ax, choice, axis_names(self._result))
        return ax

    def _refuse_curve(self, name: str) -> None:
        if name == "validation_loss":
            raise FedRelaxError(
                "there is no validation curve: no rows were held out; fit with validation_share=0.2"
            )
        raise FedRelaxError(
            f"curve {name!r} must be one of {', '.join(CURVES)}{did_you_mean(name, CURVES)}"
        )
