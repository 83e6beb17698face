"""Finished runs on disk, the tables made from them, and target values to compare with, read from files."""

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
from fedrelax.files import RESULT, TABLE, read_file, write_whole
from fedrelax.paper.catalog import Figure, Line
from fedrelax.paper.curves import AUTO, Cell, linear_curve, tree_curve
from fedrelax.typing import DataFrame, FloatArray

STANDARD_ERRORS = 3.0
"""A mean agrees with its target if they differ by at most this many combined standard errors."""
RATIO = 0.05
"""A tree's ratio to training alone agrees with its target if they differ by at most this."""
ROUNDED = 1e-5
"""Rounding error of the targets."""
LINEAR_KEYS = ["figure", "method", "d", "alpha", "sigma", "p_in", "metric", "iteration"]
TREE_KEYS = ["figure", "d", "sigma", "alpha", "first_exchange", "iteration"]
SETTING = ["figure", "method", "d", "alpha", "sigma", "p_in", "metric", "first_exchange"]
TREE_NAMES = {"initial models": "models"}


def read_targets(paths: Sequence[Path]) -> list[Any]:
    """Return one DataFrame per file, after checking that it has the columns needed.

    A directory stands for the CSV files in it.
    """
    import pandas as pd

    files, found = list[Path](), []
    for path in paths:
        inside = sorted(path.glob("*.csv")) if path.is_dir() else [path]
        if not inside:
            raise FedRelaxError(f"--targets: there is no CSV file in {path}")
        files += inside
    for path in files:
        try:
            frame = pd.read_csv(BytesIO(read_file(path, TABLE)))
        except FileNotFoundError:
            raise FedRelaxError(f"there is no targets file {path}") from None
        except (OSError, ValueError, UnicodeDecodeError) as error:
            raise FedRelaxError(
                f"the targets file {path} cannot be read as a table ({error})"
            ) from error
        linear = {*LINEAR_KEYS, "mean", "sem"} <= set(frame.columns)
        if not linear and not {*TREE_KEYS, "mse_val"} <= set(frame.columns):
            raise FedRelaxError(
                f"the targets file {path} has the columns "
                f"{', '.join(map(str, frame.columns))}; it needs "
                f"{', '.join(LINEAR_KEYS)}, mean and sem, or {', '.join(TREE_KEYS)} and mse_val"
            )
        found.append(frame)
    return found


def against_targets(frame: DataFrame, targets: Sequence[Any]) -> Any:
    """Return a DataFrame of setting, iteration, target, our value, their gap and whether they agree.

    Linear figures: |ours - target| in combined standard errors. Trees: the ratio to alpha = 0.
    """
    import pandas as pd

    parts = [
        _linear(frame, target) if "mean" in target.columns else _trees(frame, target)
        for target in targets
    ]
    kept = [part for part in parts if len(part)]
    return pd.concat(kept, ignore_index=True) if kept else pd.DataFrame()


def _linear(frame: DataFrame, target: Any) -> Any:
    both = frame.merge(_as_numbers(target), on=LINEAR_KEYS, suffixes=("", "_target"))
    gap = np.abs(both["mean"] - both["mean_target"])
    size = np.hypot(both["sem"], both["sem_target"])
    both["allowed"] = STANDARD_ERRORS * size + ROUNDED
    both["holds"] = gap <= both["allowed"]
    both["apart"] = np.where(gap <= ROUNDED, 0.0, gap / size.replace(0.0, np.nan))
    both["measure"] = "mean"
    both["unit"] = "standard errors"
    return both.rename(columns={"mean": "ours", "mean_target": "target"})[
        [*SETTING, "iteration", "measure", "target", "ours", "apart", "unit", "holds"]
    ]


def _trees(frame: DataFrame, target: Any) -> Any:
    """Compare by data, d, sigma and alpha: one setting may be in two panels of a figure."""
    known = _as_numbers(target).assign(
        data=target["figure"].map(_data),
        first_exchange=target["first_exchange"].replace(TREE_NAMES),
    )
    # Training alone exchanges nothing, so both kinds of first exchange share one curve.
    keys = ["data", "d", "sigma", "iteration"]
    alone = known[known["alpha"] == 0][[*keys, "mse_val"]].drop_duplicates(keys)
    known = known.merge(alone, on=keys, suffixes=("", "_alone"))
    known["target"] = known["mse_val"] / known["mse_val_alone"]
    own = frame[(frame["alpha"] > 0) & (frame["iteration"] > 0)]
    own = own[own["figure"].str.contains(" DT ")]
    own = own.assign(data=own["figure"].map(_data)).merge(
        known[[*keys, "alpha", "first_exchange", "target"]], on=[*keys, "alpha", "first_exchange"]
    )
    own["ours"] = own["normalised_by_local"]
    own["apart"] = (own["ours"] - own["target"]).abs()
    own["holds"] = own["apart"] <= RATIO
    own["measure"], own["unit"] = "ratio to alpha = 0", "difference"
    return own[[*SETTING, "iteration", "measure", "target", "ours", "apart", "unit", "holds"]]


def _data(figure: str) -> str:
    """Return "DT clustered" for "2b DT clustered noise"."""
    return " ".join(figure.split()[1:3])


def _as_numbers(target: Any) -> Any:
    """Return the table with settings as floats, so that 0 and 0.0 match."""
    names = [name for name in ("alpha", "sigma", "p_in") if name in target.columns]
    return target.astype(dict.fromkeys(names, float))


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

    def complete(self, tasks: Sequence[Task], jobs: int, done: Callable[[Task], None]) -> None:
        """Compute and save runs; ``done`` is called after each."""
        # The slow ones first, so that they do not keep a single worker busy at the end.
        wanted = sorted(tasks, key=lambda task: -cost(task[0]))
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
    """A line with its ``values`` (runs, iterations), and what they are divided by or bounded by."""

    line: Line
    values: FloatArray
    by_local: Curve | None
    by_oracle: Curve | None
    bounds: FloatArray | None

    @property
    def plain(self) -> Curve:
        """The metric itself."""
        return mean_curve(self.values)

    @property
    def drawn(self) -> Curve:
        """What the paper shows: trees on clusters divided by the oracle, mixtures by training alone."""
        return self.by_oracle or self.by_local or self.plain


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


def measure_all(figure: Figure, store: Store, runs: int) -> dict[Line, Measured]:
    """Return every line of a figure with its runs, which must all be finished."""

    def curves(cell: Cell) -> FloatArray:
        loaded = [store.load(cell, seed) for seed in range(runs)]
        return np.array([run.curve for run in loaded if run is not None])

    def ratio(line: Line, base: Cell | None) -> Curve | None:
        return None if base is None else ratio_curve(curves(line.cell), curves(base))

    return {
        line: Measured(
            line,
            curves(line.cell),
            by_local=ratio(line, line.cell.alone),
            by_oracle=ratio(line, line.cell.oracle),
            bounds=None if line.cell.bound is None else curves(line.cell.bound)[:, 0],
        )
        for line in figure.lines
    }


def to_frame(lines: Iterable[Measured]) -> DataFrame:
    """Return a DataFrame with one row per line and iteration."""
    import pandas as pd

    parts = []
    for one in lines:
        cell, curve = one.line.cell, one.plain
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
            "normalised_by_local": np.nan if one.by_local is None else one.by_local.mean,
            "bound": np.nan if one.bounds is None else one.bounds.mean(),
            "normalised_by_oracle": np.nan if one.by_oracle is None else one.by_oracle.mean,
            "first_exchange": cell.first_exchange,
        }
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)
