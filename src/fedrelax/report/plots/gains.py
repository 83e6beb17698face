"""Every node alone and together: a line per node or, with many nodes, a point per node."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrelax.evaluation import ALONE, POOLED, TOGETHER
from fedrelax.report.palette import LIGHT, WAYS
from fedrelax.report.plots.axes import plain_name, tidy

MOST_BARS = 30


def height_of(lines: Any) -> float:
    """Return the height of the axes that ``draw_gains`` needs."""
    return max(2.6, 0.24 * len(lines) + 1.3) if len(lines) <= MOST_BARS else 5.2


def draw_gains(ax: Any, lines: Any, label: str, scale: float) -> None:
    """Draw the nodes of a DataFrame with alone, together and gain; ``label`` names the errors."""
    (draw_bars if len(lines) <= MOST_BARS else draw_scatter)(ax, lines, label, scale)


def draw_bars(ax: Any, lines: Any, label: str, scale: float) -> None:
    """Draw a line per node from its error alone to its error together, and a tick at the pooled error."""
    lines = lines.sort_values("gain", na_position="first", kind="stable")
    place = np.arange(len(lines))
    alone, ours = (scale * lines[way].to_numpy(float) for way in (ALONE, TOGETHER))
    ax.hlines(place, alone, ours, color=LIGHT["line"], linewidth=2.5, zorder=1)
    looks = ((POOLED, "|", 90), (ALONE, "o", 42), (TOGETHER, "D", 36))
    for order, (way, marker, size) in enumerate(looks, start=2):
        if way in lines:
            errors = scale * lines[way].to_numpy(float)
            look = {"color": WAYS[way], "marker": marker, "s": size}
            ax.scatter(errors, place, label=way, zorder=order, **look)
    names = [plain_name(node) for node in lines["node"]]
    if "model" in lines:
        names = [f"{name} ({kind})" for name, kind in zip(names, lines["model"], strict=True)]
    ax.set_yticks(place, names)
    ax.set_ylim(-0.7, len(lines) - 0.3)
    ax.set_xlim(left=0)
    ax.set_xlabel(label)
    ax.set_title("Each node, largest gain on top", fontsize=10, pad=22)
    tidy(ax, grid="x")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False, fontsize=9,
              borderaxespad=0.2)  # fmt: skip


def draw_scatter(ax: Any, lines: Any, label: str, scale: float) -> None:
    """Draw a point per node, error alone against error together: below the line, a node gained."""
    alone, ours = (scale * lines[way].to_numpy(float) for way in (ALONE, TOGETHER))
    top = 1.05 * float(max(alone.max(), ours.max()) or 1.0)
    ax.plot([0, top], [0, top], color=LIGHT["quiet"], linewidth=1, zorder=1)
    ax.scatter(alone, ours, s=16, color=WAYS[TOGETHER], alpha=0.6, linewidths=0, zorder=2)
    ax.set_xlim(0, top)
    ax.set_ylim(0, top)
    ax.set_aspect("equal")
    ax.set_xlabel(f"alone: {label}")
    ax.set_ylabel(f"together: {label}")
    better = int((ours < alone).sum())
    ax.set_title(f"{better} of {len(lines)} nodes are below the line: better together", fontsize=10)
    tidy(ax)
