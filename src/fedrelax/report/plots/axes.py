"""Figures and axes in the common style."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fedrelax.report.data.node_values import spreads
from fedrelax.report.data.rounding import short
from fedrelax.report.palette import LIGHT
from fedrelax.typing import FloatArray

LONGEST_NAME = 24
TINY = 1e-9
"""Values smaller than the largest by this factor are rounding errors, and left off the axis."""


def new_axes(given: Any, size: tuple[float, float]) -> Any:
    """Return the axes that were given, or those of a new figure."""
    if given is not None:
        return given
    from matplotlib import pyplot

    return pyplot.subplots(figsize=size, layout="constrained")[1]


def row_of_axes(count: int) -> list[Any]:
    """Return axes side by side in a new figure."""
    from matplotlib import pyplot

    size = (min(3.1 * count, 12.4), 2.9)
    found = pyplot.subplots(1, count, figsize=size, layout="constrained", squeeze=False)[1]
    return list(found[0])


@contextmanager
def saved_figure(
    path: Path, size: tuple[float, float], layout: Any = "constrained"
) -> Iterator[Any]:
    """Yield a figure to draw on, then save it; no window is opened."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout=layout)
    FigureCanvasAgg(figure)
    yield figure
    figure.savefig(path, dpi=110, bbox_inches="tight")


def tidy(ax: Any, grid: str | None = None) -> None:
    """Remove what says nothing: the top and right borders."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8)
    if grid is not None:
        ax.grid(axis=grid, color=LIGHT["soft"])
        ax.set_axisbelow(True)


def scale_up(ax: Any, values: FloatArray, zero: bool = True) -> None:
    """Make the y axis logarithmic where values span a wide range, else start it at 0 if asked."""
    known = values[np.isfinite(values)]
    if spreads(known):
        ax.set_yscale("log")
        ax.set_ylim(bottom=max(ax.get_ylim()[0], TINY * float(known.max())))
    elif zero and len(known) and known.min() >= 0:
        ax.set_ylim(0, 1.06 * float(known.max()) or 1.0)


def plain_name(label: object) -> str:
    """Return a name that fits and that the built-in font can draw."""
    return drawable(short(label, LONGEST_NAME))


def drawable(text: str) -> str:
    """Return text that the built-in font can draw: no emoji, and no dollar signs as formulas."""
    return "".join(c if ord(c) < 0x2600 else "□" for c in text).replace("$", r"\$")
