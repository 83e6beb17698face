"""``result.plot`` and ``model.plot``: pictures for papers and notebooks, as matplotlib axes.

Every method draws on ``ax`` if one is given, else on a new figure, and returns the axes. Colours can be
told apart with any kind of colour vision.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError, did_you_mean
from fedrelax.evaluation import Evaluation
from fedrelax.extras import need
from fedrelax.report.data import report_data
from fedrelax.report.data.candidates import candidates_of_choice
from fedrelax.report.data.node_values import EVALUATE, lines_by_node, node_values, usual_colour
from fedrelax.report.palette import CURVES
from fedrelax.report.plots.axes import new_axes, row_of_axes
from fedrelax.report.plots.curves import draw_curve, draw_path, known_curves
from fedrelax.report.plots.gains import draw_gains, height_of
from fedrelax.report.plots.graph import draw_graph
from fedrelax.selection import Choice
from fedrelax.solvers import Result


class Plots:
    """The pictures of one result. ``choice`` is how its alpha was chosen, if it was."""

    def __init__(self, result: Result, choice: Choice | None = None) -> None:
        need("matplotlib", "report")
        self._result, self._data = result, report_data(result, choice=choice)

    def __repr__(self) -> str:
        return "Plots(graph, curves, gains, path)"

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
        found = node_values(data, colour or usual_colour(data))
        ax = new_axes(ax, (6.4, 5.6))
        draw_graph(ax, data, found, dropped=dropped, names=names)
        return ax

    def curves(self, name: str | None = None, *, ax: Any = None) -> Any:
        """Draw the quantities of every round, each with its own unit on axes of its own.

        ``name`` picks one: "local_loss", "gtv", "objective" or "validation_loss". ``ax`` is one
        axes for one quantity, or as many as there are quantities.
        """
        known = known_curves(self._data)
        if name is not None and name not in known:
            self._refuse_curve(name)
        wanted = known if name is None else [name]
        given = None if ax is None else np.ravel(np.asarray(ax, dtype=object)).tolist()
        if given is not None and len(given) != len(wanted):
            raise FedRelaxError(
                f"there are {len(wanted)} curves, each with a unit of its own, but ax has "
                f"{len(given)} axes; pass {len(wanted)}, or name one: curves('gtv', ax=ax)"
            )
        found = given or row_of_axes(len(wanted))
        for axes, key in zip(found, wanted, strict=True):
            draw_curve(axes, self._data, key)
        return found[0] if name is not None else np.array(found, dtype=object)

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
        height = height_of(found[0])
        ax = new_axes(ax, (6.4, height))
        draw_gains(ax, *found)
        return ax

    def path(self, choice: Choice | None = None, *, ax: Any = None) -> Any:
        """Draw the validation loss over alpha for every wiring, each at its best round.

        A ring marks what was chosen. Simpler settings get the benefit of the doubt, so it need not be the
        lowest point. ``choice`` is the ``choice_`` of an estimator, whose own ``plot`` knows it already.
        """
        found = self._data.candidates if choice is None else candidates_of_choice(choice)
        if not found:
            raise FedRelaxError(
                "nothing was chosen here: path needs the choice_ of an estimator fitted with "
                "alpha='auto' or wiring='auto'; use its model.plot.path(), or pass it"
            )
        ax = new_axes(ax, (5.6, 4.0))
        draw_path(ax, found, self._data.labels["validation"])
        return ax

    def _refuse_curve(self, name: str) -> None:
        if name == "validation_loss":
            raise FedRelaxError(
                "there is no validation curve: no rows were held out; fit with validation_share=0.2"
            )
        raise FedRelaxError(
            f"curve {name!r} must be one of {', '.join(CURVES)}{did_you_mean(name, CURVES)}"
        )
