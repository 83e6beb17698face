"""Where the fits of a round run: here, in threads, or in processes. The result is the same."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs, parallel_config
from threadpoolctl import threadpool_limits

from fedrelax.errors import FedRelaxError


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread.

    PyTorch is told itself, if it is there: once it has been told a number, its matrix products no
    longer heed what its threads are limited to from outside, and waste their time on each other.
    """
    torch = sys.modules.get("torch")
    before = None if torch is None else torch.get_num_threads()
    try:
        with threadpool_limits(1):
            if torch is not None:
                torch.set_num_threads(1)
            yield
    finally:
        if torch is not None:
            torch.set_num_threads(before)


def check_jobs(n_jobs: Any) -> None:
    """Refuse what is no number of workers."""
    whole = isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool)
    if n_jobs is not None and not (whole and n_jobs != 0 and abs(n_jobs) < 2**31):
        raise FedRelaxError(
            f"n_jobs={n_jobs!r} must be None, a whole number of workers, or -1 for all cores"
        )


class Workers:
    """Maps a function over tasks with ``n_jobs`` workers.

    Every task computes with one thread, on any number of workers: sums in another order would
    change the last digits, and small fits gain nothing from more.
    """

    def __init__(self, n_jobs: int | None, threads: bool) -> None:
        check_jobs(n_jobs)
        self.n_jobs = int(effective_n_jobs(n_jobs))
        self.backend = "threading" if threads else "loky"

    @contextmanager
    def open(
        self,
    ) -> Iterator[Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], list[Any]]]:
        """Yield ``run(function, argument_tuples) -> results`` in the order of the tasks."""
        if self.n_jobs == 1:
            with one_thread():
                yield lambda function, tasks: [function(*task) for task in tasks]
            return
        inner = {"inner_max_num_threads": 1} if self.backend == "loky" else {}
        with (
            one_thread(),
            parallel_config(backend=self.backend, n_jobs=self.n_jobs, **inner),
        ):
            yield lambda function, tasks: list(Parallel()(delayed(function)(*t) for t in tasks))
