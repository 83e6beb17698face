"""Where fits run: here, in threads, in processes, or on a cluster. The result is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from joblib import Parallel, cpu_count, delayed, effective_n_jobs, parallel_config
from joblib.parallel import get_active_backend

from fedrelax.errors import FedRelaxError
from fedrelax.runtime.backends import present_place
from fedrelax.runtime.clusters import Cluster, cluster_of_joblib
from fedrelax.runtime.traffic import Trip, traffic
from fedrelax.threads import one_thread

JOBLIB = {"threads": "threading", "processes": "loky"}
"""joblib's names for these backends."""
MOST_PER_CORE, MOST_WORKERS = 4, 64
"""More workers than these, per core or on a small machine, only take memory."""


def check_jobs(n_jobs: Any) -> None:
    """Refuse anything that is not a number of workers that this machine can start."""
    whole = isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool)
    most = max(MOST_PER_CORE * cpu_count(), MOST_WORKERS)
    if n_jobs is not None and not (whole and n_jobs != 0 and abs(n_jobs) <= most):
        raise FedRelaxError(
            f"n_jobs={n_jobs!r} must be None, a whole number of workers (at most {most} here), or -1 for "
            "all cores"
        )


@dataclass(frozen=True)
class Crew:
    """Workers ready for use: ``run(function, argument_tuples)`` returns results in that order.

    With a ``cluster``, data that is large and does not change can be placed there instead.
    """

    run: Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], list[Any]]
    cluster: Cluster | None = None


class Workers:
    """Maps a function over tasks with ``n_jobs`` workers.

    The backend is the one that ``running_on`` sets; else the one set with joblib's ``parallel_config``;
    else threads or processes, whichever suits the models. Every task uses one thread, whatever the
    number of workers: summing in another order would change the last digits, and small fits gain
    nothing from more threads.
    """

    def __init__(self, n_jobs: int | None, threads: bool) -> None:
        check_jobs(n_jobs)
        self._asked, self._threads = n_jobs, threads
        self.n_jobs = int(effective_n_jobs(n_jobs))

    @contextmanager
    def open(self) -> Iterator[Crew]:
        """Yield the workers, ready for use within the ``with`` block."""
        with one_thread():
            cluster = self._cluster()
            if cluster is not None:
                yield Crew(_here, cluster)
            elif self.n_jobs == 1:
                yield Crew(_here)
            else:
                with self._joblib():
                    yield Crew(self._by_joblib)

    def _cluster(self) -> Cluster | None:
        place = present_place()
        if place is not None:
            return place.cluster(self._asked) if place.is_cluster else None
        return None if self.n_jobs == 1 else cluster_of_joblib(self._backend())

    def _backend(self) -> Any:
        """Return joblib's backend: the user's, or the one that suits the models."""
        return get_active_backend(prefer="threads" if self._threads else "processes")[0]

    @property
    def backend(self) -> str:
        """joblib's name for the backend, or the name of the backend's class."""
        place = present_place()
        if place is not None and not place.is_cluster:
            return JOBLIB[place.backend]
        kind = type(self._backend()).__name__
        return {"ThreadingBackend": "threading", "LokyBackend": "loky"}.get(kind, kind)

    def _joblib(self) -> Any:
        name = self.backend
        if name not in JOBLIB.values():
            return parallel_config(n_jobs=self.n_jobs)
        inner = {"inner_max_num_threads": 1} if name == "loky" else {}
        return parallel_config(backend=name, n_jobs=self.n_jobs, **inner)

    def _by_joblib(
        self, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]
    ) -> list[Any]:
        name = self.backend
        if name not in JOBLIB.values():
            return self._in_parts(function, tasks)
        found = list(Parallel()(delayed(function)(*task) for task in tasks))
        if name == "loky":
            _count(tasks, found)
        return found

    def _in_parts(
        self, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]
    ) -> list[Any]:
        """Run on an unknown backend: in a few parts, each limited to one thread."""
        many = min(len(tasks), 4 * self.n_jobs)
        parts = [tasks[k::many] for k in range(many)]
        found = Parallel()(delayed(_part)(function, part) for part in parts)
        return [found[k % many][k // many] for k in range(len(tasks))]


def _here(function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
    return [function(*task) for task in tasks]


def _part(function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
    with one_thread():
        return _here(function, tasks)


def _count(tasks: Sequence[tuple[Any, ...]], found: list[Any]) -> None:
    """Count what joblib has pickled for its processes: everything, rows included, on every call."""
    seen = traffic()
    if seen is not None:
        seen.trips.append(Trip())
        for task, answer in zip(tasks, found, strict=True):
            seen.tell("sent", task)
            seen.tell("received", answer)
