"""From names of figures to tables, pictures and a summary in Markdown."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.paper.catalog import Choice, Figure, Line, figures
from fedrelax.paper.runs import Measured, Store, Task, measure_all, to_frame
from fedrelax.paper.statements import Finding, findings
from fedrelax.typing import DataFrame

# Okabe and Ito's colours; line styles distinguish the lines where colours cannot.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#777777")
STYLES: tuple[Any, ...] = (
    "-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)), (0, (3, 1)),
)  # fmt: skip


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
    shown = [line.label for lines in figure.panels.values() for line in lines]
    handles: dict[str, Any] = dict.fromkeys(shown)
    numbers = {label: number for number, label in enumerate(handles)}
    for axis, (title, lines) in zip(axes, figure.panels.items(), strict=True):
        axis.set_title(title, fontsize=10)
        measured = done.measured[figure.name]
        handles |= _draw_panel(axis, [measured[line] for line in lines], numbers, figure.log)
    axes[0].set_ylabel(figure.ylabel)
    if figure.log:
        axes[0].set_yscale("log")
    else:
        axes[0].set_ylim(bottom=0)
    page.suptitle(f"{figure.title}\nmean of {runs} runs, band: ± 1 standard error", fontsize=11)
    ncols = min(len(handles), 2 * columns)
    place = {"loc": "outside lower center", "ncols": ncols, "frameon": False}
    page.legend(handles.values(), handles.keys(), **place)
    paths = [out / f"{figure.name}{ending}" for ending in (".png", ".svg")]
    with rc_context({"svg.hashsalt": "fedrelax", "svg.fonttype": "none"}):
        for path in paths:
            plain = {"Date": None} if path.suffix == ".svg" else None
            page.savefig(path, dpi=130, metadata=plain)
    return paths


def _draw_panel(
    axis: Any, lines: Sequence[Measured], numbers: Mapping[str, int], log: bool
) -> dict[str, Any]:
    """Draw the curves of a panel; return each label's line. ``numbers`` says which style a label has."""
    handles, longest = {}, max(len(one.drawn.mean) for one in lines)
    for one in lines:
        label, curve = one.line.label, one.drawn
        colour, style = COLOURS[numbers[label] % 8], STYLES[numbers[label] % 8]
        steps = np.arange(len(curve.mean))
        (handles[label],) = axis.plot(
            steps, curve.mean, color=colour, linestyle=style, linewidth=2,
            marker="o" if len(steps) < 10 else None, markersize=4,
        )  # fmt: skip
        low, high = curve.mean - curve.sem, curve.mean + curve.sem
        if log:
            low = np.maximum(low, 1e-3 * curve.mean)
        axis.fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0)
        if one.bounds is not None:
            axis.axhline(one.bounds.mean(), color=colour, linestyle=(0, (2, 2)), linewidth=1.2)
    if any(set(one.references) - {"bound"} for one in lines):
        axis.axhline(1.0, color="#777777", linewidth=0.8, zorder=0)
    axis.set_xlabel("round" if longest < 10 else "iteration")
    if longest < 10:
        axis.set_xticks(range(longest))
    axis.grid(color="#EEEEEE")
    axis.spines[["top", "right"]].set_visible(False)
    return handles


Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Reproduction:
    """The results of a reproduction, figure by figure."""

    figures: list[Figure]
    measured: dict[str, dict[Line, Measured]]
    frames: dict[str, DataFrame]
    findings: list[Finding]
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
    progress: Progress | None = None,
) -> Reproduction:
    """Compute the runs that are missing under ``out`` and return the results of all figures."""
    wanted, store = figures(names, ask or Choice()), Store(out)
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
    return Reproduction(
        figures=wanted,
        measured=measured,
        frames={name: to_frame(lines.values()) for name, lines in measured.items()},
        findings=[
            finding
            for name, lines in measured.items()
            for finding in findings(name, list(lines.values()))
        ],
        elapsed=elapsed,
        computed=len(missing),
    )


def markdown(done: Reproduction, runs: int, command: str) -> str:
    """Return the summary: what the paper says, each statement with its verdict."""
    rows = [
        ("figure", "statement", "verdict", "numbers"),
        ("---",) * 4,
        *((one.figure, one.statement, f"**{one.verdict}**", one.numbers) for one in done.findings),
    ]
    parts = [
        f"# Reproduction of {', '.join(figure.name for figure in done.figures)}",
        f"{runs} runs of every curve. Made by",
        f"    {command}",
        "## What the paper says",
        "\n".join(f"| {' | '.join(row)} |" for row in rows),
        "A comparison is called clear at two standard errors of the paired difference; `~` marks "
        "one that is not. Values are those of the last iteration unless another is named.",
        f"This command computed {done.computed} missing runs in {done.elapsed:.0f} s.",
    ]
    return "\n\n".join(parts) + "\n"
