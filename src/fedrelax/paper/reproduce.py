"""From names of figures to tables, pictures and a summary."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrelax.errors import FedRelaxError
from fedrelax.paper.catalog import Choice, Figure, figures
from fedrelax.paper.statements import Finding, findings
from fedrelax.paper.store import Store, Task
from fedrelax.paper.tables import measure_all, to_frame
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
