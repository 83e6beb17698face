"""Pictures by matplotlib (the extra ``report``), which is imported only when one is drawn.

``plot`` of results and estimators, and the picture that is saved next to the numbers.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.evaluation import ALONE, POOLED, TOGETHER, WAYS, Evaluation
from fedrelax.extras import need
from fedrelax.report import palette
from fedrelax.report.data import ReportData, report_data
from fedrelax.report.data.columns import EVALUATE, NodeValues, lines_by_node, node_values, spreads
from fedrelax.report.data.layout import EdgeTable, places_of
from fedrelax.report.data.rounding import short
from fedrelax.report.palette import CATEGORIES, CURVES, DIVERGING, LIGHT, OTHER, SEQUENTIAL
from fedrelax.solvers import Result
from fedrelax.typing import DataFrame, FloatArray
from fedrelax.validation import check_choice

LONGEST_NAME = 24
MARKS = ("o", "s", "D", "^", "v", "P", "X")
TINY = 1e-9
"""Values smaller than the largest by this factor are rounding errors, and left off the axis."""
MOST_BARS, FEW_NAMES = 30, 25
MOST_DRAWN = 10_000
"""Edges; of more, only each node's strongest are drawn."""


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
        ax = _new_axes(ax, (6.4, 5.6))
        _draw_graph(ax, data, found, dropped=dropped, names=names)
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
            _draw_curve(one, self._data, key)
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
        height = max(2.6, 0.24 * bars + 1.3) if bars <= MOST_BARS else 5.2
        ax = _new_axes(ax, (6.4, height))
        _draw_gains(ax, *found)
        return ax


def save_result_picture(path: Path, data: ReportData) -> None:
    """Draw the errors per node on the left, and a map (if nodes have positions) or GTV on the right."""
    from matplotlib.figure import Figure  # which, unlike pyplot, opens no window

    evaluation = data.evaluation
    assert evaluation is not None
    tested, measure = evaluation.tested, data.measure
    height = max(4.5, 0.3 * len(tested) + 1.6) if len(tested) <= MOST_BARS else 5.0
    mapped = data.graph.positions is not None and data.graph.positions.shape[1] == 2
    # "compressed" closes the gaps of axes of equal scale
    figure = Figure(figsize=(12, height), layout="compressed" if mapped else "constrained")
    gains, right = figure.subplots(1, 2, width_ratios=(1.1, 1) if mapped else (1.6, 1))
    _draw_gains(gains, tested, data.labels["error"], measure.scale)
    if mapped:
        _draw_graph(right, data, node_values(data, "gain"))
    else:
        _draw_curve(right, data, "gtv")
    errors = ", ".join(f"{way} {measure.show(evaluation.errors[way])}" for way in WAYS)
    title = f"{evaluation.headline}. {measure.name} over all test rows: {errors}"
    figure.suptitle(_drawable(title), fontsize=11)
    figure.savefig(path, dpi=110, bbox_inches="tight")


def _new_axes(ax: Any, size: tuple[float, float]) -> Any:
    """Return the axes that were given, or those of a new figure."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(figsize=size, layout="constrained")[1]


def _tidy(ax: Any, grid: str | None = None) -> None:
    """Remove what says nothing: the top and right borders."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8)
    if grid is not None:
        ax.grid(axis=grid, color=LIGHT["soft"])
        ax.set_axisbelow(True)


def _scale_up(ax: Any, values: FloatArray) -> None:
    """Make the y axis logarithmic where values span a wide range, else start it at 0."""
    finite = values[np.isfinite(values)]
    if spreads(finite):
        ax.set_yscale("log")
        ax.set_ylim(bottom=max(ax.get_ylim()[0], TINY * float(finite.max())))
    elif len(finite) and finite.min() >= 0:
        ax.set_ylim(0, 1.06 * float(finite.max()) or 1.0)


def _plain_name(label: object) -> str:
    """Return a name that fits and that the built-in font can draw."""
    return _drawable(short(label, LONGEST_NAME))


def _drawable(text: str) -> str:
    """Return text that the built-in font can draw: no emoji, and no dollar signs as formulas."""
    return "".join(c if ord(c) < 0x2600 else "□" for c in text).replace("$", r"\$")


def _draw_curve(ax: Any, data: ReportData, name: str) -> None:
    """Draw one quantity by round, and a dotted line at the round kept if it is not the last."""
    label, colour = CURVES[name]
    rounds, values, kept = data.history["round"], data.history[name], data.n_rounds
    marker = "o" if len(rounds) <= 40 else ""
    ax.plot(rounds, values, color=LIGHT[colour], marker=marker, markersize=3.5, linewidth=1.5)
    if kept < rounds[-1]:
        ax.axvline(kept, color=LIGHT["ink"], linestyle=":", linewidth=1)
        ax.annotate("kept", (kept, 0.98), xycoords=("data", "axes fraction"), xytext=(3, 0),
                    textcoords="offset points", va="top", fontsize=8)  # fmt: skip
    _scale_up(ax, values)
    ax.set_xlabel(data.labels["round"])
    ax.set_ylabel(data.labels[label].replace(" (", "\n("), fontsize=9)
    ax.xaxis.get_major_locator().set_params(integer=True)
    _tidy(ax)


def _draw_gains(ax: Any, lines: DataFrame, label: str, scale: float) -> None:
    """Draw the nodes of a DataFrame with alone, together and gain; ``label`` names the errors."""
    (_draw_bars if len(lines) <= MOST_BARS else _draw_scatter)(ax, lines, label, scale)


def _draw_bars(ax: Any, lines: DataFrame, label: str, scale: float) -> None:
    """Draw a line per node from its error alone to its error together, and a tick at the pooled error."""
    lines = lines.sort_values("gain", na_position="first", kind="stable")
    heights = np.arange(len(lines))
    alone, ours = (scale * lines[way].to_numpy(float) for way in (ALONE, TOGETHER))
    ax.hlines(heights, alone, ours, color=LIGHT["line"], linewidth=2.5, zorder=1)
    looks = ((POOLED, "|", 90), (ALONE, "o", 42), (TOGETHER, "D", 36))
    for order, (way, marker, size) in enumerate(looks, start=2):
        if way in lines:
            errors = scale * lines[way].to_numpy(float)
            look = {"color": palette.WAYS[way], "marker": marker, "s": size}
            ax.scatter(errors, heights, label=way, zorder=order, **look)
    names = [_plain_name(node) for node in lines["node"]]
    if "model" in lines:
        names = [f"{name} ({kind})" for name, kind in zip(names, lines["model"], strict=True)]
    ax.set_yticks(heights, names)
    ax.set_ylim(-0.7, len(lines) - 0.3)
    ax.set_xlim(left=0)
    ax.set_xlabel(label)
    ax.set_title("Each node, largest gain on top", fontsize=10, pad=22)
    _tidy(ax, grid="x")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False, fontsize=9,
              borderaxespad=0.2)  # fmt: skip


def _draw_scatter(ax: Any, lines: DataFrame, label: str, scale: float) -> None:
    """Draw a point per node, error alone against error together: below the line, a node gained."""
    alone, ours = (scale * lines[way].to_numpy(float) for way in (ALONE, TOGETHER))
    top = 1.05 * float(max(alone.max(), ours.max()) or 1.0)
    ax.plot([0, top], [0, top], color=LIGHT["quiet"], linewidth=1, zorder=1)
    ax.scatter(alone, ours, s=16, color=palette.WAYS[TOGETHER], alpha=0.6, linewidths=0, zorder=2)
    ax.set_xlim(0, top)
    ax.set_ylim(0, top)
    ax.set_aspect("equal")
    ax.set_xlabel(f"alone: {label}")
    ax.set_ylabel(f"together: {label}")
    better = int((ours < alone).sum())
    ax.set_title(f"{better} of {len(lines)} nodes are below the line: better together", fontsize=10)
    _tidy(ax)


def _draw_graph(
    ax: Any, data: ReportData, found: NodeValues, *, dropped: bool = True, names: bool | None = None
) -> None:
    """Draw the graph of a run, coloured by the values."""
    edges = data.edges(MOST_DRAWN)
    stand = places_of(data.graph, edges)
    points = stand.points * (stand.unit or 1.0)
    _draw_edges(ax, points, edges, dropped)
    _draw_nodes(ax, points, found)
    if names if names is not None else len(data.graph) <= FEW_NAMES:
        from matplotlib.patheffects import withStroke

        rim = [withStroke(linewidth=2, foreground=LIGHT["panel"], alpha=0.8)]  # against the edges
        for point, label in zip(points, data.graph.labels, strict=True):
            ax.annotate(
                _plain_name(label), point, xytext=(0, 7), textcoords="offset points", ha="center",
                fontsize=7.5, color=LIGHT["ink"], zorder=4, path_effects=rim,
            )  # fmt: skip
    ax.set_aspect("equal", adjustable="datalim")
    ax.margins(0.08)
    ax.autoscale_view()
    if stand.kind == "layout":
        ax.set_axis_off()
        return
    _tidy(ax)
    on_map = stand.kind == "map"
    ax.set_xlabel("km east of the centre" if on_map else "first coordinate, from the centre")
    ax.set_ylabel("km north of the centre" if on_map else "second coordinate, from the centre")


def _draw_edges(ax: Any, points: FloatArray, edges: EdgeTable, dropped: bool) -> None:
    """Draw the edges in use, wider by weight, and those dropped as faint dashes."""
    from matplotlib.collections import LineCollection

    used = edges.used > 0
    faint = float(np.clip(12 / np.sqrt(used.sum() + 1), 0.12, 0.7))
    if dropped and (~used).any():
        look = {"colors": LIGHT["dropped"], "linewidths": 0.5, "alpha": 0.25 * faint}
        ends = list(points[edges.ends[~used]])
        ax.add_collection(LineCollection(ends, linestyles="dashed", zorder=1, **look))
        ax.plot([], [], color=LIGHT["dropped"], linestyle="--", linewidth=1, label="dropped edges")
    share = edges.used[used] / max(float(edges.used.max(initial=0.0)), 1e-300)
    look = {"colors": LIGHT["edge"], "linewidths": 0.4 + 1.0 * share, "alpha": faint}
    ax.add_collection(LineCollection(list(points[edges.ends[used]]), zorder=2, **look))


def _draw_nodes(ax: Any, points: FloatArray, found: NodeValues) -> None:
    """Draw the nodes in colours, with a colour bar or a legend; hollow where nothing is known."""
    size = float(np.clip(2600 / len(points), 9, 90))
    look = {"s": size, "edgecolors": LIGHT["ink"], "linewidths": 0.5, "zorder": 3}
    if found.kind == "category":
        counts = Counter(found.values)
        ranked = sorted(counts, key=lambda value: (-counts[value], str(value)))
        values = np.array([ranked.index(value) for value in found.values])
        for k, (value, colour) in enumerate(zip(ranked, CATEGORIES, strict=False)):
            name = f"{_plain_name(value)} ({counts[value]})"
            ax.scatter(*points[values == k].T, c=colour, marker=MARKS[k], label=name, **look)
        if (others := len(ranked) - len(CATEGORIES)) > 0:
            rest = values >= len(CATEGORIES)
            name = f"{others} other{'s' * (others != 1)} ({int(rest.sum())})"
            ax.scatter(*points[rest].T, c=OTHER, marker=".", label=name, **look)
        _legend(ax, f"{found.label} (nodes)")
        return
    from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize

    values = np.asarray(found.values, dtype=float)
    finite = np.isfinite(values)
    ax.scatter(*points[~finite].T, **{**look, "facecolors": LIGHT["panel"]})
    low, high, log = found.span()
    stops = list(DIVERGING if found.kind == "gain" else SEQUENTIAL)
    colours = LinearSegmentedColormap.from_list("fedrelax", stops)
    norm = (LogNorm if log else Normalize)(low, high)
    dots = ax.scatter(*points[finite].T, c=values[finite], cmap=colours, norm=norm, **look)
    beyond = (bool((values[finite] < low).any()), bool((values[finite] > high).any()))
    extend = {(True, True): "both", (True, False): "min", (False, True): "max"}
    bar = ax.figure.colorbar(dots, ax=ax, shrink=0.8, extend=extend.get(beyond, "neither"))
    bar.set_label(found.label)
    _legend(ax)


def _legend(ax: Any, title: str | None = None) -> None:
    """Explain marks and dashes below the axes, if there is something to explain."""
    handles, names = ax.get_legend_handles_labels()
    if handles:
        wide = max(len(name) for name in names)
        ax.legend(
            handles, names, title=title, ncols=min(len(names), max(1, 72 // (wide + 6))),
            frameon=False, fontsize=8, title_fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.1),
        )  # fmt: skip
