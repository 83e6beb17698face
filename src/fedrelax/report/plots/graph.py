"""Nodes and edges: on a map, or so that nodes that listen to each other are close."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from fedrelax.report.data import ReportData
from fedrelax.report.data.columns import NodeValues
from fedrelax.report.data.layout import EdgeTable, places_of
from fedrelax.report.palette import CATEGORIES, DIVERGING, LIGHT, OTHER, SEQUENTIAL, colormap
from fedrelax.report.plots.drawing import MARKS, plain_name, tidy
from fedrelax.typing import FloatArray

DROPPED = "dropped edges"
FEW_NAMES = 25
MOST_DRAWN = 10_000
"""Edges; of more, only each node's strongest are drawn."""


def draw_graph(
    ax: Any, data: ReportData, found: NodeValues, *, dropped: bool = True, names: bool | None = None
) -> None:
    """Draw the graph of a run, coloured by the values."""
    edges = data.edges(MOST_DRAWN)
    stand = places_of(data.graph, edges)
    points = stand.points * (stand.unit or 1.0)
    draw_edges(ax, points, edges, dropped)
    draw_nodes(ax, points, found)
    if names if names is not None else len(data.graph) <= FEW_NAMES:
        from matplotlib.patheffects import withStroke

        rim = [withStroke(linewidth=2, foreground=LIGHT["panel"], alpha=0.8)]  # against the edges
        for point, label in zip(points, data.graph.labels, strict=True):
            ax.annotate(
                plain_name(label), point, xytext=(0, 7), textcoords="offset points", ha="center",
                fontsize=7.5, color=LIGHT["ink"], zorder=4, path_effects=rim,
            )  # fmt: skip
    ax.set_aspect("equal", adjustable="datalim")
    ax.margins(0.08)
    ax.autoscale_view()
    if stand.kind == "layout":
        ax.set_axis_off()
        return
    tidy(ax)
    on_map = stand.kind == "map"
    ax.set_xlabel("km east of the centre" if on_map else "first coordinate, from the centre")
    ax.set_ylabel("km north of the centre" if on_map else "second coordinate, from the centre")


def draw_edges(ax: Any, points: FloatArray, edges: EdgeTable, dropped: bool) -> None:
    """Draw the edges in use, wider by weight, and those dropped as faint dashes."""
    from matplotlib.collections import LineCollection

    used = edges.used > 0
    faint = float(np.clip(12 / np.sqrt(used.sum() + 1), 0.12, 0.7))
    if dropped and (~used).any():
        look = {"colors": LIGHT["dropped"], "linewidths": 0.5, "alpha": 0.25 * faint}
        ends = list(points[edges.ends[~used]])
        ax.add_collection(LineCollection(ends, linestyles="dashed", zorder=1, **look))
        ax.plot([], [], color=LIGHT["dropped"], linestyle="--", linewidth=1, label=DROPPED)
    share = edges.used[used] / max(float(edges.used.max(initial=0.0)), 1e-300)
    look = {"colors": LIGHT["edge"], "linewidths": 0.4 + 1.0 * share, "alpha": faint}
    ax.add_collection(LineCollection(list(points[edges.ends[used]]), zorder=2, **look))


def draw_nodes(ax: Any, points: FloatArray, found: NodeValues) -> None:
    """Draw the nodes in colours, with a colour bar or a legend; hollow where nothing is known."""
    size = float(np.clip(2600 / len(points), 9, 90))
    look = {"s": size, "edgecolors": LIGHT["ink"], "linewidths": 0.5, "zorder": 3}
    if found.kind == "category":
        _draw_categories(ax, points, found, look)
        return
    from matplotlib.colors import LogNorm, Normalize

    values = np.asarray(found.values, dtype=float)
    known = np.isfinite(values)
    ax.scatter(*points[~known].T, **{**look, "facecolors": LIGHT["panel"]})
    low, high, log = found.span()
    colours = colormap(DIVERGING if found.kind == "gain" else SEQUENTIAL)
    norm = (LogNorm if log else Normalize)(low, high)
    dots = ax.scatter(*points[known].T, c=values[known], cmap=colours, norm=norm, **look)
    beyond = (bool((values[known] < low).any()), bool((values[known] > high).any()))
    extend = {(True, True): "both", (True, False): "min", (False, True): "max"}
    bar = ax.figure.colorbar(dots, ax=ax, shrink=0.8, extend=extend.get(beyond, "neither"))
    bar.set_label(found.label)
    _legend(ax)


def _draw_categories(ax: Any, points: FloatArray, found: NodeValues, look: dict[str, Any]) -> None:
    counts = Counter(found.values)
    ranked = sorted(counts, key=lambda value: (-counts[value], str(value)))
    values = np.array([ranked.index(value) for value in found.values])
    others = len(ranked) - len(CATEGORIES)
    for k, (value, colour) in enumerate(zip(ranked, CATEGORIES, strict=False)):
        name = f"{plain_name(value)} ({counts[value]})"
        ax.scatter(*points[values == k].T, c=colour, marker=MARKS[k], label=name, **look)
    if others > 0:
        rest = values >= len(CATEGORIES)
        name = f"{others} other{'s' * (others != 1)} ({int(rest.sum())})"
        ax.scatter(*points[rest].T, c=OTHER, marker=".", label=name, **look)
    _legend(ax, f"{found.label} (nodes)")


def _legend(ax: Any, title: str | None = None) -> None:
    """Explain marks and dashes below the axes, if there is something to explain."""
    handles, names = ax.get_legend_handles_labels()
    if not handles:
        return
    wide = max(len(name) for name in names)
    ax.legend(
        handles, names, title=title, ncols=min(len(names), max(1, 72 // (wide + 6))),
        frameon=False, fontsize=8, title_fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.1),
    )  # fmt: skip
