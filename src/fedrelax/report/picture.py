"""One picture of a result: what each node gained, and how the rounds went or where the nodes are.

Needs matplotlib (the extra ``report``), which is imported only here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fedrelax.evaluation import show
from fedrelax.graph import Graph
from fedrelax.report.summary import Summary
from fedrelax.runtime import History

# Okabe and Ito's colours, which people with any kind of colour vision can tell apart.
ALONE, TOGETHER, POOLED, GREY = "#E69F00", "#0072B2", "#999999", "#BBBBBB"
MOST_BARS = 30
LONGEST_NAME = 24


def save_picture(path: Path, summary: Summary, history: History, graph: Graph) -> None:
    """Draw the errors per node on the left, and a map (if there are places) or curves on the right."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    tested = summary.nodes[summary.nodes["test_rows"] > 0]
    bars = len(tested) <= MOST_BARS
    height = max(4.5, 0.3 * len(tested) + 1.6) if bars else 5.0
    mapped = graph.positions is not None and graph.positions.shape[1] == 2
    # Axes of equal scale leave gaps that only "compressed" closes.
    figure = Figure(figsize=(12, height), layout="compressed" if mapped else "constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(1.1, 1))
    scale = 100.0 if summary.measure == "error rate" else 1.0
    (draw_bars if bars else draw_scatter)(left, tested, _axis(summary.measure), scale)
    if mapped:
        draw_map(figure, right, tested, graph)
    else:
        draw_curves(right, history)
    figure.suptitle(_without_unprintable(_headline(summary)), fontsize=11)
    figure.savefig(path, dpi=110, bbox_inches="tight")


def _headline(summary: Summary) -> str:
    words = [
        f"{name} {show(summary.measure, summary.totals[way])}"
        for name, way in (("alone", "alone"), ("pooled", "pooled"), ("together", "fedrelax"))
    ]
    return f"{summary.measure} over all test rows: {', '.join(words)}"


def draw_bars(axes: Any, nodes: Any, label: str, scale: float = 1.0) -> None:
    """Draw a line per node from its error alone to its error together, and a tick where pooled is."""
    lines = nodes.sort_values("gain", na_position="first", kind="stable")
    place = np.arange(len(lines))
    alone, ours = (scale * lines[way].to_numpy(float) for way in ("alone", "fedrelax"))
    axes.hlines(place, alone, ours, color=GREY, linewidth=2.5, zorder=1)
    if "pooled" in lines:
        pooled = scale * lines["pooled"].to_numpy(float)
        axes.scatter(pooled, place, color=POOLED, marker="|", s=90, label="pooled", zorder=2)
    axes.scatter(alone, place, color=ALONE, marker="o", s=42, label="alone", zorder=3)
    axes.scatter(ours, place, color=TOGETHER, marker="D", s=36, label="together", zorder=4)
    names = [plain_name(label) for label in lines["node"]]
    if "model" in lines:
        names = [f"{name} ({kind})" for name, kind in zip(names, lines["model"], strict=True)]
    axes.set_yticks(place, names, fontsize=8)
    axes.set_ylim(-0.7, len(lines) - 0.3)
    axes.set_xlim(left=0)
    axes.set_xlabel(label)
    axes.set_title("Each node, largest gain on top", fontsize=10, pad=22)
    axes.grid(axis="x", color="#EEEEEE")
    axes.set_axisbelow(True)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False, fontsize=9,
                borderaxespad=0.2)  # fmt: skip


def draw_scatter(axes: Any, nodes: Any, label: str, scale: float = 1.0) -> None:
    """Draw a point per node, error alone against error together: below the line it has gained."""
    alone, ours = (scale * nodes[way].to_numpy(float) for way in ("alone", "fedrelax"))
    top = 1.05 * float(max(alone.max(), ours.max()) or 1.0)
    axes.plot([0, top], [0, top], color=GREY, linewidth=1, zorder=1)
    axes.scatter(alone, ours, s=16, color=TOGETHER, alpha=0.6, linewidths=0, zorder=2)
    axes.set_xlim(0, top)
    axes.set_ylim(0, top)
    axes.set_aspect("equal")
    axes.set_xlabel(f"alone: {label}")
    axes.set_ylabel(f"together: {label}")
    better = int((ours < alone).sum())
    axes.set_title(f"{better} of {len(nodes)} nodes are below the line: better", fontsize=10)


def draw_curves(axes: Any, history: History) -> None:
    """Draw the local loss and the GTV after every round, on an axis each."""
    rounds = history["round"]
    other = axes.twinx()
    (loss,) = axes.plot(rounds, history["local_loss"], color=ALONE, marker="o", markersize=4)
    (gtv,) = other.plot(rounds, history["gtv"], color=TOGETHER, marker="D", markersize=4)
    loss.set_linestyle("-")
    gtv.set_linestyle("--")
    for side, name in ((axes, "local_loss"), (other, "gtv")):
        side.set_ylim(0, 1.08 * float(np.nanmax(history[name])) or 1.0)
    axes.set_xlabel("round (0: each node alone)")
    axes.set_ylabel("mean loss on the nodes' own rows")
    other.set_ylabel("GTV: disagreement along edges")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_title("Fit to own rows, and disagreement", fontsize=10)
    axes.legend(
        [loss, gtv],
        ["loss (left axis)", "GTV (right axis)"],
        loc="upper center",
        bbox_to_anchor=(0.5, -0.12),
        ncols=2,
        frameon=False,
        fontsize=9,
    )


def draw_map(figure: Any, axes: Any, nodes: Any, graph: Graph) -> None:
    """Draw the nodes where they are, coloured by what they gained."""
    from matplotlib.collections import LineCollection

    assert graph.positions is not None
    # A map shows longitude to the right and latitude upwards.
    places = graph.positions[:, ::-1] if graph.geographic else graph.positions
    number = {label: k for k, label in enumerate(graph.labels)}
    lines = [(places[number[u]], places[number[v]]) for u, v, _ in graph.edges()]
    axes.add_collection(LineCollection(lines, colors="#DDDDDD", linewidths=0.7, zorder=1))
    at = places[[number[label] for label in nodes["node"]]]
    gain = nodes["gain"].to_numpy(float)
    most = float(np.nanmax(np.abs(gain))) if np.isfinite(gain).any() else 1.0
    most = min(max(most, 1.0), 100.0)
    dots = axes.scatter(
        *at.T, c=np.nan_to_num(gain), cmap="PuOr", vmin=-most, vmax=most, s=30,
        edgecolors="#444444", linewidths=0.4, zorder=2,
    )  # fmt: skip
    beyond = "min" if np.nanmin(gain, initial=0.0) < -most else "neither"
    bar = figure.colorbar(dots, ax=axes, shrink=0.8, extend=beyond)
    bar.set_label("gain against alone, %")
    if graph.geographic:
        axes.set_aspect(1 / max(np.cos(np.radians(np.mean(places[:, 1]))), 0.1))
    else:
        axes.set_aspect("equal", adjustable="datalim")
    axes.set_xlabel("longitude, degrees" if graph.geographic else "first coordinate")
    axes.set_ylabel("latitude, degrees" if graph.geographic else "second coordinate")
    axes.set_title("Gain of each node, and the graph", fontsize=10)


def _axis(measure: str) -> str:
    return "error rate on test rows, %" if measure == "error rate" else f"{measure} on test rows"


def plain_name(label: object) -> str:
    """Return a name that fits and that the built-in font can draw."""
    text = _without_unprintable(str(label))
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "…"


def _without_unprintable(text: str) -> str:
    """Return text that the built-in font can draw: no emoji, and no dollar signs as formulas."""
    return "".join(c if ord(c) < 0x2600 else "□" for c in text).replace("$", r"\$")
