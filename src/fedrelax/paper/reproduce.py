"""From names of figures to tables, pictures and a summary in Markdown."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.paper.catalog import Choice, Figure, Line, figures
from fedrelax.paper.runs import (
    Measured,
    Store,
    Task,
    against_targets,
    measure_all,
    read_targets,
    to_frame,
)
from fedrelax.paper.statements import Finding, findings
from fedrelax.typing import DataFrame

# Okabe and Ito's colours; line styles distinguish the lines where colours cannot.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))
MOST_PLAIN, FEW_TICKS = 1000.0, 5.0
"""Ratios of a log axis's ends below which its ticks, and also its minor ticks, get plain numbers."""


def draw_figures(done: Reproduction, out: Path, runs: int) -> list[Path]:
    """Write ``NAME.png`` and ``NAME.svg``; needs matplotlib."""
    return [path for figure in done.figures for path in _draw(figure, done, out, runs)]


def _draw(figure: Figure, done: Reproduction, out: Path, runs: int) -> list[Path]:
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    columns = len(figure.panels)
    page = Canvas(figsize=(3.5 * columns + 0.8, 4.2), layout="constrained")
    FigureCanvasAgg(page)
    axes = page.subplots(1, columns, sharey=True, squeeze=False)[0]
    for axis, (title, lines) in zip(axes, figure.panels.items(), strict=True):
        axis.set_title(title, fontsize=10)
        _draw_panel(axis, [done.measured[figure.name][line] for line in lines], figure.log)
    _scale(axes[0], figure)
    axes[0].set_ylabel(figure.ylabel)
    page.suptitle(f"{figure.title}\nmean of {runs} runs, band: ± 1 standard error", fontsize=11)
    _legends(page, axes, figure)
    paths = [out / f"{figure.name}{ending}" for ending in (".png", ".svg")]
    with rc_context({"svg.hashsalt": "fedrelax", "svg.fonttype": "none"}):
        for path in paths:
            plain = {"Date": None} if path.suffix == ".svg" else None
            page.savefig(path, dpi=130, metadata=plain)
    return paths


def _draw_panel(axis: Any, lines: Sequence[Measured], log: bool) -> None:
    longest = max(len(one.drawn.mean) for one in lines)
    for number, one in enumerate(lines):
        curve, colour = one.drawn, COLOURS[number % len(COLOURS)]
        steps = np.arange(len(curve.mean))
        axis.plot(
            steps, curve.mean, color=colour, linestyle=STYLES[number % len(STYLES)], linewidth=2,
            label=one.line.label, marker="o" if len(steps) < 10 else None, markersize=4,
        )  # fmt: skip
        low, high = curve.mean - curve.sem, curve.mean + curve.sem
        if log:
            low = np.maximum(low, 1e-3 * curve.mean)
        axis.fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0)
        if one.bounds is not None:
            axis.axhline(one.bounds.mean(), color=colour, linestyle=(0, (2, 2)), linewidth=1.2)
    if any(one.by_local or one.by_oracle for one in lines):
        axis.axhline(1.0, color="#777777", linewidth=0.8, zorder=0)
    axis.set_xlabel("round" if longest < 10 else "iteration")
    if longest < 10:
        axis.set_xticks(range(longest))
    axis.grid(color="#EEEEEE")
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def _scale(axis: Any, figure: Figure) -> None:
    """Set the common y axis after everything is drawn; a short log axis gets plain numbers."""
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    if not figure.log:
        axis.set_ylim(bottom=0)
        return
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    if high / low < MOST_PLAIN:
        axis.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        plain = StrMethodFormatter("{x:g}") if high / low < FEW_TICKS else NullFormatter()
        axis.yaxis.set_minor_formatter(plain)


def _legends(page: Any, axes: Any, figure: Figure) -> None:
    """Draw one legend for all panels if they have the same lines, else one below each."""
    groups = {tuple(line.label for line in lines) for lines in figure.panels.values()}
    if len(groups) == 1:
        handles, labels = axes[0].get_legend_handles_labels()
        page.legend(
            handles, labels, loc="outside lower center", ncols=max(3, len(labels)), frameon=False
        )
        return
    short = max(len(label) for labels in groups for label in labels) < 16
    for axis in axes:
        axis.legend(
            loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3 if short else 2, frameon=False,
            fontsize=8.5, handlelength=2.6, columnspacing=1.0,
        )  # fmt: skip


Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Reproduction:
    """The results of a reproduction, figure by figure."""

    figures: list[Figure]
    measured: dict[str, dict[Line, Measured]]
    frames: dict[str, DataFrame]
    findings: list[Finding]
    agreement: DataFrame | None
    """Targets and our values side by side, if targets were given."""
    core_seconds: dict[str, float]
    """Seconds on one core for all runs of each figure."""
    elapsed: float
    """Seconds that this command took for the runs that were missing."""
    computed: int
    """Number of runs that were missing."""


def reproduce(
    names: Sequence[str],
    out: Path,
    *,
    runs: int = 5,
    jobs: int = 1,
    ask: Choice | None = None,
    targets: Sequence[Path] = (),
    progress: Progress | None = None,
) -> Reproduction:
    """Compute the runs that are missing under ``out`` and return the results of all figures."""
    wanted = figures(names, ask or Choice())
    target_frames = read_targets(targets)
    store = Store(out)
    cells = dict.fromkeys(cell for figure in wanted for cell in figure.cells)
    tasks: list[Task] = [(cell, seed) for cell in cells for seed in range(runs)]
    missing, finished = [task for task in tasks if store.load(*task) is None], 0
    start = time.perf_counter()

    def done(task: Task) -> None:
        nonlocal finished
        finished += 1
        if progress is not None:
            progress(finished, len(missing), task[0].key)

    try:
        store.complete(missing, jobs, done)
    except KeyboardInterrupt:
        raise FedRelaxError(
            f"stopped by Ctrl-C: {finished} of {len(missing)} runs are finished and kept in {out}; "
            "run the same command again to continue"
        ) from None
    elapsed = time.perf_counter() - start
    measured = {figure.name: measure_all(figure, store, runs) for figure in wanted}
    frames = {name: to_frame(lines.values()) for name, lines in measured.items()}
    seconds = {}
    for figure in wanted:
        loaded = [store.load(cell, seed) for cell in figure.cells for seed in range(runs)]
        seconds[figure.name] = sum(run.seconds for run in loaded if run is not None)
    agreement = None
    if target_frames:
        import pandas as pd

        agreement = against_targets(pd.concat(frames.values(), ignore_index=True), target_frames)
    return Reproduction(
        figures=wanted,
        measured=measured,
        frames=frames,
        findings=[
            finding
            for name, lines in measured.items()
            for finding in findings(name, list(lines.values()))
        ],
        agreement=agreement,
        core_seconds=seconds,
        elapsed=elapsed,
        computed=len(missing),
    )


def setting_text(line: Mapping[str, Any]) -> str:
    """Return the setting of one row of a table as text.

    >>> setting_text({"figure": "1a clustered d/m", "method": "fedrelax", "d": 2, "alpha": 0.01,
    ...     "sigma": 0.0, "p_in": 0.8})
    '1a clustered d/m: fedrelax, d=2, alpha=0.01, sigma=0, p_in=0.8'
    """
    parts = [f"d={line['d']}"]
    parts += [
        f"{name}={line[name]:g}" for name in ("alpha", "sigma", "p_in") if line[name] == line[name]
    ]
    return f"{line['figure']}: {line['method']}, {', '.join(parts)}"


def agreement_counts(done: Reproduction) -> list[tuple[str, int, int, float]]:
    """Return (figure, compared, within the tolerance, largest gap) for every figure that has targets."""
    table = done.agreement
    if table is None or not len(table):
        return []
    return [
        (str(name), len(part), int(part["holds"].sum()), float(part["apart"].max()))
        for name, part in table.groupby("figure", sort=True)
    ]


def markdown(done: Reproduction, runs: int, command: str) -> str:
    """Return the whole summary."""
    names = ", ".join(figure.name for figure in done.figures)
    shared = " (curves that two figures share count in both)" if len(done.figures) > 1 else ""
    parts = [
        f"# Reproduction of {names}",
        f"{runs} runs of every curve. Made by",
        f"    {command}",
        *([] if done.agreement is None else _agreement(done, done.agreement)),
        "## What the paper says",
        _table(
            ("figure", "statement", "verdict", "numbers"),
            [
                (one.figure, one.statement, f"**{one.verdict}**", one.numbers)
                for one in done.findings
            ],
        ),
        "A comparison is called clear at two standard errors of the paired difference; `~` marks "
        "one that is not. Values are those of the last iteration unless another is named.",
        "## Times",
        _table(
            ("figure", "seconds of one core, all runs"),
            [(name, f"{seconds:.0f}") for name, seconds in done.core_seconds.items()],
        ),
        f"This command computed {done.computed} missing runs in {done.elapsed:.0f} s{shared}.",
        "## Last iteration of every curve",
        _table(("curve", "metric", "mean", "standard error", "relative"), _last_values(done)),
    ]
    return "\n\n".join(parts) + "\n"


def _table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [heads, ["---"] * len(heads), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _agreement(done: Reproduction, table: DataFrame) -> list[str]:
    if not len(table):
        return ["## Against the targets", "No target matches the settings of this run."]
    units = dict(zip(table["figure"], table["unit"], strict=True))
    last = table[table["iteration"] == table.groupby("figure")["iteration"].transform("max")]
    return [
        "## Against the targets",
        _table(
            ("figure", "compared", "within", "largest gap"),
            [
                (name, str(compared), str(within), f"{gap:.2g} {units[name]}")
                for name, compared, within, gap in agreement_counts(done)
            ],
        ),
        "Means agree within three combined standard errors; ratios of trees within 0.05. "
        "Every comparison is in `targets.csv`; those of the last iteration:",
        _table(
            ("setting", "target", "ours", "apart", "holds"),
            [
                (
                    setting_text(line),
                    *(f"{line[name]:.4g}" for name in ("target", "ours")),
                    f"{line['apart']:.2g}",
                    "yes" if line["holds"] else "**no**",
                )
                for line in last.to_dict("records")
            ],
        ),
        *(
            f"Not within: {setting_text(line)}, iteration {line['iteration']}: target "
            f"{line['target']:.4g}, ours {line['ours']:.4g}."
            for line in table[~table["holds"]].to_dict("records")
        ),
    ]


RELATIVE = {
    "normalised_by_oracle": "of the oracle's",
    "normalised_by_local": "of alone",
    "bound": "is the bound",
}


def _last_values(done: Reproduction) -> list[Sequence[str]]:
    lines: list[Sequence[str]] = []
    for frame in done.frames.values():
        last = frame[frame["iteration"] == frame["iteration"].max()]
        for line in last.to_dict("records"):
            relative = [
                f"{line[k]:.4g} {words}" for k, words in RELATIVE.items() if line[k] == line[k]
            ]
            numbers = (f"{line['mean']:.4g}", f"{line['sem']:.2g}", ", ".join(relative))
            lines.append((setting_text(line), line["metric"], *numbers))
    return lines
