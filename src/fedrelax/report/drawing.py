"""The strokes of ``fedrelax.report.plots``; matplotlib (the extra ``report``) is imported inside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedrelax.report.edges import EdgeTable
from fedrelax.report.picture import plain_name
from fedrelax.report.values import NodeValues
from fedrelax.selection import Choice
from fedrelax.typing import FloatArray, Label
from fedrelax.wiring import wiring_name

# Okabe and Ito's colours, which people with any kind of colour vision can tell apart.
BLUE, ORANGE, GREEN, RED, *_ = CATEGORIES = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#000000",
)  # fmt: skip
GREY, INK = "#8C8C8C", "#333333"
MARKS = ("o", "s", "D", "^", "v", "P", "X", "*")
DROPPED = "dropped edges"
FEW_NAMES = 25
TINY = 1e-9
"""What is smaller than the largest by this factor is rounding, and off the axis."""
SPREAD = 50.0
"""Values over more than this factor are drawn on a logarithmic axis."""


def axes(given: Any, size: tuple[float, float]) -> Any:
    """Return the axes that were given, or those of a new figure."""
    if given is not None:
        return given
    from matplotlib import pyplot

    return pyplot.subplots(figsize=size, layout="constrained")[1]


def row_of_axes(count: int) -> list[Any]:
    """Return axes beside each other in a new figure."""
    from matplotlib import pyplot

    size = (min(3.1 * count, 12.4), 2.9)
    found = pyplot.subplots(1, count, figsize=size, layout="constrained", squeeze=False)[1]
    return list(found[0])


def draw_edges(ax: Any, points: FloatArray, edges: EdgeTable, dropped: bool) -> None:
    """Draw the edges in use, wider by weight, and those dropped as faint dashes."""
    from matplotlib.collections import LineCollection

    used = edges.used > 0
    faint = float(np.clip(12 / np.sqrt(used.sum() + 1), 0.12, 0.7))
    if dropped and (~used).any():
        lines = LineCollection(list(points[edges.ends[~used]]), linestyles="dashed", zorder=1)
        lines.set(colors=RED, linewidths=0.5, alpha=0.25 * faint)
        ax.add_collection(lines)
        ax.plot([], [], color=RED, linestyle="--", linewidth=1, label=DROPPED)
    share = edges.used[used] / max(float(edges.used.max(initial=0.0)), 1e-300)
    lines = LineCollection(list(points[edges.ends[used]]), zorder=2)
    lines.set(colors=GREY, linewidths=0.4 + 1.0 * share, alpha=faint)
    ax.add_collection(lines)


def draw_nodes(ax: Any, points: FloatArray, found: NodeValues) -> None:
    """Draw the nodes in colours, with a colour bar or a legend; hollow where nothing is known."""
    size = float(np.clip(2600 / len(points), 9, 90))
    look = {"s": size, "edgecolors": INK, "linewidths": 0.5, "zorder": 3}
    if found.kind == "category":
        _draw_categories(ax, points, found, look)
        return
    values = np.asarray(found.values, dtype=float)
    known = np.isfinite(values)
    ax.scatter(*points[~known].T, **{**look, "facecolors": "white"})
    if found.kind == "gain":
        most = (
            float(np.clip(np.quantile(np.abs(values[known]), 0.95), 1, 100)) if known.any() else 1
        )
        colours = {"cmap": "PuOr", "vmin": -most, "vmax": most}
    else:
        colours = {"cmap": "viridis", "norm": _norm(values[known])}
    dots = ax.scatter(*points[known].T, c=values[known], **colours, **look)
    low, high = dots.get_clim()
    beyond = (bool((values[known] < low).any()), bool((values[known] > high).any()))
    extend = {(True, True): "both", (True, False): "min", (False, True): "max"}
    bar = ax.figure.colorbar(dots, ax=ax, shrink=0.8, extend=extend.get(beyond, "neither"))
    bar.set_label(found.label)
    _legend(ax)


def _norm(values: FloatArray) -> Any:
    from matplotlib.colors import LogNorm, Normalize

    low, high = np.quantile(values, [0.02, 0.98]).tolist()
    return (LogNorm if low > 0 and high / low > SPREAD else Normalize)(low, high)


def _draw_categories(ax: Any, points: FloatArray, found: NodeValues, look: dict[str, Any]) -> None:
    counts = Counter(found.values)
    ranked = sorted(counts, key=lambda value: (-counts[value], str(value)))
    values = np.array([ranked.index(value) for value in found.values])
    most = len(CATEGORIES)
    for k, value in enumerate(ranked[:most]):
        name = f"{plain_name(value)} ({counts[value]})"
        ax.scatter(*points[values == k].T, c=CATEGORIES[k], marker=MARKS[k], label=name, **look)
    if len(ranked) > most:
        rest = values >= most
        others = len(ranked) - most
        name = f"{others} other{'s' * (others != 1)} ({int(rest.sum())})"
        ax.scatter(*points[rest].T, c=GREY, marker=".", label=name, **look)
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


def write_names(ax: Any, points: FloatArray, labels: Sequence[Label]) -> None:
    """Write every node's name above it, on a light rim that sets it off the edges."""
    from matplotlib.patheffects import withStroke

    for point, label in zip(points, labels, strict=True):
        ax.annotate(
            plain_name(label), point, xytext=(0, 7), textcoords="offset points", ha="center",
            fontsize=7.5, color=INK, zorder=4,
            path_effects=[withStroke(linewidth=2, foreground="white", alpha=0.8)],
        )  # fmt: skip


def name_places(ax: Any, kind: str) -> None:
    """Name the axes of a map or of coordinates; a layout has none."""
    ax.set_aspect("equal", adjustable="datalim")
    ax.margins(0.08)
    ax.autoscale_view()
    if kind == "layout":
        ax.set_axis_off()
        return
    tidy(ax)
    across, up = ("km to the east of the middle", "km to the north of the middle")
    if kind == "coordinates":
        across, up = "first coordinate, from the middle", "second coordinate, from the middle"
    ax.set_xlabel(across)
    ax.set_ylabel(up)


def draw_curve(
    ax: Any, rounds: FloatArray, values: FloatArray, label: str, colour: str, kept: int
) -> None:
    """Draw one quantity by round, and a dotted line at the round kept if it is not the last."""
    marker = "o" if len(rounds) <= 40 else ""
    ax.plot(rounds, values, color=colour, marker=marker, markersize=3.5, linewidth=1.5)
    if kept < rounds[-1]:
        ax.axvline(kept, color=INK, linestyle=":", linewidth=1)
        ax.annotate("kept", (kept, 0.98), xycoords=("data", "axes fraction"), xytext=(3, 0),
                    textcoords="offset points", va="top", fontsize=8)  # fmt: skip
    scale_up(ax, values)
    ax.set_xlabel("round (0: each node alone)")
    ax.set_ylabel(label.replace(" (", "\n("), fontsize=9)
    ax.xaxis.get_major_locator().set_params(integer=True)
    tidy(ax)


def draw_path(ax: Any, choice: Choice, names: dict[str, str]) -> None:
    """Draw a line per wiring over alpha, the nodes alone as a level, and a ring where the choice is."""
    wirings = list(dict.fromkeys(wiring_name(w) for w in choice.wirings))
    alphas = sorted({alpha for alpha in choice.alphas if alpha > 0})
    least = np.array([_least(choice, line) for line in range(len(choice.alphas))])
    for k, wiring in enumerate(wirings):
        own = [line for line, w in enumerate(choice.wirings) if wiring_name(w) == wiring]
        own = sorted((n for n in own if choice.alphas[n] > 0), key=lambda n: choice.alphas[n])
        if own:
            ax.plot([choice.alphas[n] for n in own], least[own], color=CATEGORIES[k], marker=MARKS[k],
                    markersize=5, linewidth=1.5, linestyle=("-", "--", "-.", ":")[k % 4],
                    label="graph as given" if wiring == "fixed" else wiring)  # fmt: skip
    if 0.0 in choice.alphas:
        alone = float(choice.losses[choice.alphas.index(0.0), 0])
        ax.axhline(alone, color=GREY, linewidth=1, label="each node alone (alpha 0)", zorder=1)
    _ring(ax, choice, least)
    if alphas:
        ax.set_xscale("log")
        ax.set_xticks(alphas, [f"{alpha:.3g}" for alpha in alphas])
        ax.minorticks_off()
    scale_up(ax, least, zero=False)
    ax.set_xlabel("alpha: how much neighbours count (no unit)")
    ax.set_ylabel(names["validation"].replace(" (", "\nat the best round ("), fontsize=9)
    ax.legend(frameon=False, fontsize=8)
    tidy(ax)


def _least(choice: Choice, line: int) -> float:
    """Return a candidate's least loss; of a wiring only rounds on its final graph count."""
    wiring, losses = choice.wirings[line], choice.losses[line]
    if wiring is not None:
        losses = np.where([wiring.settled(k) for k in range(len(losses))], losses, np.nan)
    return float(np.nanmin(losses)) if np.isfinite(losses).any() else float("nan")


def _ring(ax: Any, choice: Choice, least: FloatArray) -> None:
    name = wiring_name(choice.wiring)
    if choice.alpha == 0:
        ax.plot([], [], " ", label="chosen: each node alone")
        return
    lines = zip(choice.wirings, choice.alphas, strict=True)
    place = [(wiring_name(w), alpha) for w, alpha in lines].index((name, choice.alpha))
    words = f"chosen: {'' if name == 'fixed' else name + ', '}alpha {choice.alpha:.3g}"
    rounds = f"{choice.rounds} round{'s' * (choice.rounds != 1)}"
    ax.plot(choice.alpha, least[place], "o", markersize=13, markerfacecolor="none",
            markeredgecolor=INK, markeredgewidth=1.6, label=f"{words}, {rounds}")  # fmt: skip


def scale_up(ax: Any, values: FloatArray, zero: bool = True) -> None:
    """Make the upward axis logarithmic where values spread far, else let it start at 0 if asked."""
    known = values[np.isfinite(values)]
    if len(known) and known.min() > 0 and known.max() / known.min() > SPREAD:
        ax.set_yscale("log")
        ax.set_ylim(bottom=max(ax.get_ylim()[0], TINY * float(known.max())))
    elif zero and len(known) and known.min() >= 0:
        ax.set_ylim(0, 1.06 * float(known.max()) or 1.0)


def tidy(ax: Any) -> None:
    """Leave out what says nothing: the upper and the right line."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8)
