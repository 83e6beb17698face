"""Quantities round by round, and the validation loss over alpha."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedrelax.errors import counted
from fedrelax.report.data import ReportData
from fedrelax.report.data.candidates import Candidate
from fedrelax.report.data.rounding import alpha_text, coupling_text
from fedrelax.report.palette import CATEGORIES, CURVES, LIGHT
from fedrelax.report.plots.axes import scale_up, tidy
from fedrelax.report.plots.graph import MARKS


def known_curves(data: ReportData) -> list[str]:
    """Return the names of the quantities that were measured."""
    return [name for name in CURVES if np.isfinite(data.history[name]).any()]


def draw_curve(ax: Any, data: ReportData, name: str) -> None:
    """Draw one quantity by round, and a dotted line at the round kept if it is not the last."""
    label, colour = CURVES[name]
    rounds, values, kept = data.history["round"], data.history[name], data.n_rounds
    marker = "o" if len(rounds) <= 40 else ""
    ax.plot(rounds, values, color=LIGHT[colour], marker=marker, markersize=3.5, linewidth=1.5)
    if kept < rounds[-1]:
        ax.axvline(kept, color=LIGHT["ink"], linestyle=":", linewidth=1)
        ax.annotate("kept", (kept, 0.98), xycoords=("data", "axes fraction"), xytext=(3, 0),
                    textcoords="offset points", va="top", fontsize=8)  # fmt: skip
    scale_up(ax, values)
    ax.set_xlabel(data.labels["round"])
    ax.set_ylabel(data.labels[label].replace(" (", "\n("), fontsize=9)
    ax.xaxis.get_major_locator().set_params(integer=True)
    tidy(ax)


def draw_path(ax: Any, candidates: Sequence[Candidate], label: str) -> None:
    """Draw a line per wiring over alpha, a horizontal one for the nodes alone, and a ring at the choice."""
    coupled = sorted((one for one in candidates if one.alpha > 0), key=lambda one: one.alpha)
    for k, wiring in enumerate(dict.fromkeys(one.wiring for one in candidates)):
        own = [one for one in coupled if one.wiring == wiring]
        if own:
            ax.plot([one.alpha for one in own], [one.least for one in own], color=CATEGORIES[k],
                    marker=MARKS[k], markersize=5, linewidth=1.5,
                    linestyle=("-", "--", "-.", ":")[k % 4],
                    label=wiring.replace("fixed", "graph as given"))  # fmt: skip
    for one in candidates:
        if one.alpha == 0:
            words = "each node alone (alpha 0)"
            ax.axhline(one.losses[0], color=LIGHT["quiet"], linewidth=1, label=words, zorder=1)
    for one in candidates:
        if one.chosen:
            _ring(ax, one)
    alphas = sorted({one.alpha for one in coupled})
    if alphas:
        ax.set_xscale("log")
        ax.set_xticks(alphas, [alpha_text(alpha) for alpha in alphas])
        ax.minorticks_off()
    scale_up(ax, np.array([one.least for one in candidates]), zero=False)
    ax.set_xlabel("alpha: how much neighbours count (no unit)")
    ax.set_ylabel(label.replace(" (", "\nat the best round ("), fontsize=9)
    ax.legend(frameon=False, fontsize=8)
    tidy(ax)


def _ring(ax: Any, one: Candidate) -> None:
    if one.alpha == 0:
        ax.plot([], [], " ", label="chosen: each node alone")
        return
    wiring = "" if one.wiring == "fixed" else f"{one.wiring}, "
    words = f"chosen: {wiring}{coupling_text(one.alpha)}, {counted(one.rounds, 'round')}"
    ax.plot(one.alpha, one.least, "o", markersize=13, markerfacecolor="none",
            markeredgecolor=LIGHT["ink"], markeredgewidth=1.6, label=words)  # fmt: skip
