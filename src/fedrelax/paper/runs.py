"""Finished runs on disk, and the tables made from them: means, standard errors, ratios, bounds."""

from __future__ import annotations

import time
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from threadpoolctl import threadpool_limits

from fedrelax.errors import FedRelaxError
from fedrelax.files import RESULT, read_file, write_whole
from fedrelax.paper.catalog import Figure, Line
from fedrelax.paper.curves import AUTO, Cell, linear_curve, tree_curve
from fedrelax.typing import DataFrame, FloatArray

VERSION = 1
"""Raise this when a change makes earlier runs wrong: they are then computed again."""
Task = tuple[Cell, int]


@dataclass(frozen=True)
class Finished:
    """One run: the curve and how many seconds it took on one core."""

    curve: FloatArray
    seconds: float


class Store:
    """Runs in a directory, one small file each, written atomically."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / f"runs-{VERSION}"

    def path(self, cell: Cell, seed: int) -> Path:
        """Return the file of a run."""
        return self.directory / cell.key / f"seed{seed}.npz"

    def load(self, cell: Cell, seed: int) -> Finished | None:
        """Return a finished run, or None; a damaged file is deleted."""
        path = self.path(cell, seed)
        try:
            with np.load(BytesIO(read_file(path, RESULT)), allow_pickle=False) as file:
                return Finished(file["curve"], float(file["seconds"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            path.unlink(missing_ok=True)
            return None

    def save(self, cell: Cell, seed: int, found: Finished) -> None:
        """Write a finished run."""
        path, buffer = self.path(cell, seed), BytesIO()
        np.savez(buffer, curve=found.curve, seconds=found.seconds)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, buffer.getvalue())
        except OSError as error:
            raise FedRelaxError(f"{path} cannot be written ({error.strerror or error})") from error

    def missing(self, tasks: Sequence[Task]) -> list[Task]:
        """Return the runs that are not finished yet."""
        return [task for task in tasks if self.load(*task) is None]

    def complete(self, tasks: Sequence[Task], jobs: int, done: Callable[[Task], None]) -> None:
        """Compute and save the missing runs; ``done`` is called after each."""
        # The slow ones first, so that they do not keep a single worker busy at the end.
        wanted = sorted(self.missing(tasks), key=lambda task: -cost(task[0]))
        parallel: Any = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
        for (cell, seed), run in parallel(joblib.delayed(compute)(task) for task in wanted):
            self.save(cell, seed, run)
            done((cell, seed))


def cost(cell: Cell) -> float:
    """Return roughly how long a run takes, in seconds."""
    if cell.metric == "bound" or cell.method == "oracle":
        return 0.1
    if cell.method == AUTO:
        return 10.0
    if cell.model == "tree":
        rows = 1.0 if cell.alpha == 0 else (149.0 if cell.data == "mixture" else 60.0)
        return 0.05 * rows * float(max(cell.d, 3) ** 0.8)
    return 0.1 + 0.01 * cell.d


def compute(task: Task) -> tuple[Task, Finished]:
    """Compute one run; the result is the same in any process."""
    cell, seed = task
    start = time.perf_counter()
    with threadpool_limits(1):
        curve = (tree_curve if cell.model == "tree" else linear_curve)(cell, seed)
    return task, Finished(curve, time.perf_counter() - start)


@dataclass(frozen=True)
class Curve:
    """Mean and standard error over the runs, at every iteration."""

    mean: FloatArray
    sem: FloatArray


@dataclass(frozen=True)
class Measured:
    """A line with its ``values`` (runs, iterations); ``drawn`` is the curve that the figure shows."""

    line: Line
    values: FloatArray
    drawn: Curve
    by_local: Curve | None
    by_oracle: Curve | None
    bounds: FloatArray | None

    @property
    def plain(self) -> Curve:
        """The metric itself."""
        return mean_curve(self.values)


def mean_curve(values: FloatArray) -> Curve:
    """Return the mean over runs and its standard error (NaN for a single run)."""
    runs = len(values)
    spread = values.std(axis=0, ddof=1) if runs > 1 else np.full(values.shape[1], np.nan)
    return Curve(values.mean(axis=0), spread / np.sqrt(runs))


def ratio_curve(values: FloatArray, base: FloatArray) -> Curve:
    """Return mean(values) / mean(base), both over the same runs, and its standard error.

    To first order, the error of r = a/b is that of the mean of (a_i - r b_i) / b.
    """
    below = base.mean(axis=0)
    ratio = values.mean(axis=0) / below
    rest = (values - ratio * base) / below
    return Curve(ratio, mean_curve(rest).sem)


def measure(line: Line, store: Store, runs: int) -> Measured:
    """Collect the runs of a line; all must be finished."""

    def curves(cell: Cell) -> FloatArray:
        found = [store.load(cell, seed) for seed in range(runs)]
        return np.array([run.curve for run in found if run is not None])

    values = curves(line.cell)
    by_local = None if line.by_local is None else ratio_curve(values, curves(line.by_local))
    by_oracle = None if line.by_oracle is None else ratio_curve(values, curves(line.by_oracle))
    bounds = None if line.bound is None else curves(line.bound)[:, 0]
    # The paper divides trees on clusters by the oracle, and mixtures by training alone.
    drawn = by_oracle or by_local or mean_curve(values)
    return Measured(line, values, drawn, by_local, by_oracle, bounds)


def measure_all(figure: Figure, store: Store, runs: int) -> dict[Line, Measured]:
    """Return every line of a figure with its runs."""
    return {line: measure(line, store, runs) for line in dict.fromkeys(figure.lines)}


def to_frame(lines: Iterable[Measured]) -> DataFrame:
    """Return a DataFrame with one row per line and iteration; a line drawn twice is in it once."""
    import pandas as pd

    known: dict[tuple[str, Cell], Any] = {}
    for one in lines:
        known.setdefault((one.line.sheet, one.line.cell), _rows(one))
    return pd.concat(list(known.values()), ignore_index=True)


def _rows(one: Measured) -> Any:
    import pandas as pd

    cell, curve = one.line.cell, one.plain
    named = one.line.method != "fedrelax"
    return pd.DataFrame(
        {
            "figure": one.line.sheet,
            "method": one.line.method,
            "d": cell.d,
            "alpha": np.nan if named or cell.alpha is None else cell.alpha,
            "sigma": cell.sigma,
            "p_in": cell.p_in,
            "metric": cell.metric,
            "iteration": np.arange(len(curve.mean)),
            "mean": curve.mean,
            "sem": curve.sem,
            "runs": len(one.values),
            "normalised_by_local": np.nan if one.by_local is None else one.by_local.mean,
            "bound": np.nan if one.bounds is None else one.bounds.mean(),
            "normalised_by_oracle": np.nan if one.by_oracle is None else one.by_oracle.mean,
            "first_exchange": cell.first_exchange,
        }
    )
