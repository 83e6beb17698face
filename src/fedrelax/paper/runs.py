"""Finished runs on disk, and the tables made from them."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
from threadpoolctl import threadpool_limits

from fedrelax.errors import FedRelaxError
from fedrelax.files import RESULT, read_file, write_whole
from fedrelax.paper.catalog import Figure, Line
from fedrelax.paper.curves import Cell, linear_curve, tree_curve
from fedrelax.typing import DataFrame, FloatArray

VERSION = 1
"""Raise this when a change makes earlier runs wrong: they are then computed again."""
Task = tuple[Cell, int]


class Store:
    """Runs in a directory, one small file each, written atomically."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / f"runs-{VERSION}"

    def path(self, cell: Cell, seed: int) -> Path:
        """Return the file of a run."""
        return self.directory / cell.key / f"seed{seed}.npz"

    def load(self, cell: Cell, seed: int) -> FloatArray | None:
        """Return the curve of a finished run, or None; a damaged file is deleted."""
        path = self.path(cell, seed)
        try:
            with np.load(BytesIO(read_file(path, RESULT)), allow_pickle=False) as file:
                return np.asarray(file["curve"], dtype=float)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            path.unlink(missing_ok=True)
            return None

    def save(self, cell: Cell, seed: int, curve: FloatArray) -> None:
        """Write a finished run."""
        path, buffer = self.path(cell, seed), BytesIO()
        np.savez(buffer, curve=curve)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, buffer.getvalue())
        except OSError as error:
            raise FedRelaxError(f"{path} cannot be written ({error.strerror or error})") from error

    def complete(self, tasks: Sequence[Task], jobs: int, done: Callable[[Task], None]) -> None:
        """Compute and save runs; ``done`` is called after each."""
        # The slow ones first, so that they do not keep a single worker busy at the end.
        wanted = sorted(tasks, key=lambda task: (task[0].model == "tree", task[0].d), reverse=True)
        parallel: Any = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
        for (cell, seed), curve in parallel(joblib.delayed(compute)(task) for task in wanted):
            self.save(cell, seed, curve)
            done((cell, seed))


def compute(task: Task) -> tuple[Task, FloatArray]:
    """Compute one run; the result is the same in any process."""
    cell, seed = task
    with threadpool_limits(1):
        return task, (tree_curve if cell.model == "tree" else linear_curve)(cell, seed)


class Curve(NamedTuple):
    """Mean and standard error over the runs, at every iteration."""

    mean: FloatArray
    sem: FloatArray


def ratio_curve(values: FloatArray, base: FloatArray | float = 1.0) -> Curve:
    """Return mean(values) / mean(base), both over the same runs, and its standard error (NaN for one run).

    To first order, the error of r = a/b is that of the mean of (a_i - r b_i) / b.
    """
    runs, base = len(values), np.broadcast_to(base, values.shape)
    below = base.mean(axis=0)
    ratio = values.mean(axis=0) / below
    rest = (values - ratio * base) / below
    spread = rest.std(axis=0, ddof=1) if runs > 1 else np.full(values.shape[1], np.nan)
    return Curve(ratio, spread / np.sqrt(runs))


@dataclass(frozen=True)
class Measured:
    """A line with its ``values`` (runs, iterations) and those of its cell's ``references``."""

    line: Line
    values: FloatArray
    references: dict[str, FloatArray]

    def over(self, name: str) -> FloatArray | float:
        """Return the curve divided by a reference; NaN if it has none of this name."""
        base = self.references.get(name)
        return np.nan if base is None else ratio_curve(self.values, base).mean

    @property
    def drawn(self) -> Curve:
        """What the paper shows: trees on clusters divided by the oracle, mixtures by training alone."""
        bases = [self.references[name] for name in ("oracle", "local") if name in self.references]
        return ratio_curve(self.values, *bases[:1])

    @property
    def bounds(self) -> FloatArray | None:
        """The bound of every run, if there is one."""
        return self.references["bound"][:, 0] if "bound" in self.references else None


def measure_all(figure: Figure, store: Store, runs: int) -> dict[Line, Measured]:
    """Return every line of a figure with its runs, which must all be finished."""

    def curves(cell: Cell) -> FloatArray:
        return np.array([store.load(cell, seed) for seed in range(runs)])

    return {
        line: Measured(
            line,
            curves(line.cell),
            {name: curves(cell) for name, cell in line.cell.references.items()},
        )
        for line in figure.lines
    }


def to_frame(lines: Iterable[Measured]) -> DataFrame:
    """Return a DataFrame with one row per line and iteration."""
    import pandas as pd

    parts = []
    for one in lines:
        cell, curve = one.line.cell, ratio_curve(one.values)
        columns = {
            "figure": one.line.sheet,
            "method": one.line.method,
            "d": cell.d,
            "alpha": np.nan if one.line.method != "fedrelax" else cell.alpha,
            "sigma": cell.sigma,
            "p_in": cell.p_in,
            "metric": cell.metric,
            "iteration": np.arange(len(curve.mean)),
            "mean": curve.mean,
            "sem": curve.sem,
            "runs": len(one.values),
            "normalised_by_local": one.over("local"),
            "bound": np.nan if one.bounds is None else one.bounds.mean(),
            "normalised_by_oracle": one.over("oracle"),
            "first_exchange": cell.first_exchange,
        }
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)
