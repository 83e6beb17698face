"""From names of figures to tables, pictures and a summary in Markdown."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrelax.errors import FedRelaxError
from fedrelax.paper.catalog import Choice, Figure, figures
from fedrelax.paper.runs import Store, Task, measure_all, to_frame
from fedrelax.paper.statements import Finding, findings
from fedrelax.paper.targets import against_targets, read_targets

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Reproduction:
    """The results of a reproduction, figure by figure."""

    figures: list[Figure]
    frames: dict[str, Any]
    findings: list[Finding]
    agreement: Any | None
    """Targets and our values side by side (a DataFrame), if targets were given."""
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
    known = read_targets(targets)
    store = Store(out)
    cells = dict.fromkeys(cell for figure in wanted for cell in figure.cells)
    tasks: list[Task] = [(cell, seed) for cell in cells for seed in range(runs)]
    missing, finished = store.missing(tasks), 0
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
    frames, found, seconds = {}, [], {}
    for figure in wanted:
        measured = measure_all(figure, store, runs)
        frames[figure.name] = to_frame(measured.values())
        found += findings(figure, list(measured.values()))
        loaded = [store.load(cell, seed) for cell in figure.cells for seed in range(runs)]
        seconds[figure.name] = sum(run.seconds for run in loaded if run is not None)
    agreement = None
    if known:
        import pandas as pd

        agreement = against_targets(pd.concat(frames.values(), ignore_index=True), known)
    return Reproduction(wanted, frames, found, agreement, seconds, elapsed, len(missing))


def draw_figures(done: Reproduction, out: Path, runs: int) -> list[Path]:
    """Write ``NAME.png`` and ``NAME.svg``; needs matplotlib."""
    from fedrelax.paper.drawing import draw

    written = []
    for figure in done.figures:
        paths = [out / f"{figure.name}{ending}" for ending in (".png", ".svg")]
        draw(figure, measure_all(figure, Store(out), runs), runs, paths)
        written += paths
    return written


def setting_text(line: Any) -> str:
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
    lines = [f"# Reproduction of {names}", "", f"{runs} runs of every curve. Made by", ""]
    lines += [f"    {command}", ""]
    lines += _agreement(done) + _statements(done) + _times(done) + _values(done)
    return "\n".join(lines) + "\n"


def _agreement(done: Reproduction) -> list[str]:
    if done.agreement is None:
        return []
    counts = agreement_counts(done)
    lines = ["## Against the targets", ""]
    if not counts:
        return [*lines, "No target matches the settings of this run.", ""]
    lines += ["| figure | compared | within | largest gap |", "|---|---|---|---|"]
    units = dict(zip(done.agreement["figure"], done.agreement["unit"], strict=True))
    lines += [
        f"| {name} | {compared} | {within} | {gap:.2g} {units[name]} |"
        for name, compared, within, gap in counts
    ]
    lines += [
        "",
        "Means agree within three combined standard errors; ratios of trees within 0.05. "
        "Every comparison is in `targets.csv`; those of the last iteration:",
        "",
        "| setting | target | ours | apart | holds |",
        "|---|---|---|---|---|",
    ]
    table = done.agreement
    last = table[table["iteration"] == table.groupby("figure")["iteration"].transform("max")]
    for line in last.to_dict("records"):
        mark = "yes" if line["holds"] else "**no**"
        lines.append(
            f"| {setting_text(line)} | {line['target']:.4g} | {line['ours']:.4g} | "
            f"{line['apart']:.2g} | {mark} |"
        )
    missed = table[~table["holds"]]
    for line in missed.to_dict("records"):
        lines.append(
            f"\nNot within: {setting_text(line)}, iteration {line['iteration']}: target "
            f"{line['target']:.4g}, ours {line['ours']:.4g}."
        )
    return [*lines, ""]


def _statements(done: Reproduction) -> list[str]:
    if not done.findings:
        return []
    lines = ["## What the paper says", "", "| figure | statement | verdict | numbers |"]
    lines += ["|---|---|---|---|"]
    lines += [
        f"| {one.figure} | {one.statement} | **{one.verdict}** | {one.numbers} |"
        for one in done.findings
    ]
    lines += [
        "",
        "A comparison is called clear at two standard errors of the paired difference; `~` marks "
        "one that is not. Values are those of the last iteration unless another is named.",
        "",
    ]
    return lines


def _times(done: Reproduction) -> list[str]:
    lines = ["## Times", "", "| figure | seconds of one core, all runs |", "|---|---|"]
    lines += [f"| {name} | {seconds:.0f} |" for name, seconds in done.core_seconds.items()]
    shared = " (curves that two figures share count in both)" if len(done.figures) > 1 else ""
    lines += [
        "",
        f"This command computed {done.computed} missing runs in {done.elapsed:.0f} s{shared}.",
        "",
    ]
    return lines


def _values(done: Reproduction) -> list[str]:
    lines = ["## Last iteration of every curve", ""]
    lines += ["| curve | metric | mean | standard error | relative |", "|---|---|---|---|---|"]
    for frame in done.frames.values():
        last = frame[frame["iteration"] == frame["iteration"].max()]
        for line in last.to_dict("records"):
            lines.append(
                f"| {setting_text(line)} | {line['metric']} | {line['mean']:.4g} | "
                f"{line['sem']:.2g} | {_relative(line)} |"
            )
    return [*lines, ""]


def _relative(line: Any) -> str:
    names = {
        "normalised_by_oracle": "of the oracle's",
        "normalised_by_local": "of alone",
        "bound": "is the bound",
    }
    found = [f"{line[key]:.4g} {words}" for key, words in names.items() if line[key] == line[key]]
    return ", ".join(found)
