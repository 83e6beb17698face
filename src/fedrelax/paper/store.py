"""Finished runs on disk: nothing is computed twice, and an interrupted command can be continued."""

from __future__ import annotations

import os
import time
import uuid
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from threadpoolctl import threadpool_limits

from fedrelax.errors import FedRelaxError
from fedrelax.files import RESULT, read_file
from fedrelax.paper.cells import Cell
from fedrelax.paper.linear import AUTO, linear_curve
from fedrelax.paper.trees import tree_curve
from fedrelax.typing import FloatArray

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
        path = self.path(cell, seed)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
            with draft.open("wb") as file:
                np.savez(file, curve=found.curve, seconds=found.seconds)
            os.replace(draft, path)
        except OSError as error:
            raise FedRelaxError(f"{path} cannot be written ({error.strerror or error})") from error

    def missing(self, tasks: Sequence[Task]) -> list[Task]:
        """Return the runs that are not finished yet."""
        return [task for task in tasks if self.load(*task) is None]

    def complete(self, tasks: Sequence[Task], jobs: int, done: Callable[[Task], None]) -> None:
        """Compute and save the missing runs; ``done`` is called after each."""
        # The slow ones first, so that they do not keep a single worker busy at the end.
        wanted = sorted(self.missing(tasks), key=lambda task: -cost(task[0]))
        for task, found in _computed(wanted, jobs):
            self.save(*task, found)
            done(task)


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


def _computed(tasks: Sequence[Task], jobs: int) -> Iterator[tuple[Task, Finished]]:
    if jobs == 1 or len(tasks) <= 1:
        yield from map(compute, tasks)
        return
    parallel: Any = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
    yield from parallel(joblib.delayed(compute)(task) for task in tasks)
