"""Where the fits of a round run: here, in threads, or in processes. The result is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs, parallel_config

from fedrelax.errors import FedRelaxError
from fedrelax.threads import one_thread


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
