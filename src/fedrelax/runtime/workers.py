"""Where fits run: here, in threads, in processes, or on a cluster. The result is the same."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from numbers import Integral
from typing import Any

from joblib import Parallel, cpu_count, delayed, effective_n_jobs, parallel_config
from joblib.parallel import get_active_backend

from fedrelax.errors import FedRelaxError, FedRelaxWarning, did_you_mean
from fedrelax.runtime.clusters import Pool, Run, dask_pool, lost_work, ray_pool, reachable
from fedrelax.threads import one_thread

JOBLIB = {"threads": "threading", "processes": "loky", "dask": "dask", "ray": "ray"}
"""joblib's names for the backends."""
PACKAGES = {"dask": "distributed", "ray": "ray"}
"""The package that each cluster backend needs; the backend is also the name of the extra."""
MOST_PER_CORE, MOST_WORKERS = 4, 64
"""More workers than these, per core or on a small machine, only take memory."""
PARTS_PER_WORKER = 4
"""Tasks are sent in parts, several per worker, so that none waits long for the slowest."""


def check_jobs(n_jobs: Any) -> None:
    """Refuse anything that is not a number of workers that this machine can start."""
    whole = isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool)
    most = max(MOST_PER_CORE * cpu_count(), MOST_WORKERS)
    if n_jobs is not None and not (whole and n_jobs != 0 and abs(n_jobs) <= most):
        raise FedRelaxError(
            f"n_jobs={n_jobs!r} must be None, a whole number of workers (at most {most} here), or -1 for "
            "all cores"
        )


def check_backend(backend: Any, address: Any) -> None:
    """Refuse backends that are unknown or not installed, and addresses without a cluster backend."""
    if backend is not None and backend not in JOBLIB:
        raise FedRelaxError(
            f"backend={backend!r} must be None or one of {', '.join(JOBLIB)}"
            f"{did_you_mean(backend, JOBLIB)}"
        )
    if address is not None and not isinstance(address, str):
        raise FedRelaxError(f"address={address!r} must be a string such as 'tcp://10.0.0.1:8786'")
    if address is not None and backend not in PACKAGES:
        raise FedRelaxError(
            f"address={address!r} is for clusters only; give backend='dask' or backend='ray' with it"
        )
    if backend in PACKAGES and find_spec(PACKAGES[backend]) is None:
        raise FedRelaxError(
            f"backend={backend!r} needs {PACKAGES[backend]}, which is not installed; "
            f"pip install 'fedrelax[{backend}]' brings it"
        )


class BackendContext:
    """A backend that was asked for, and its cluster once it is needed; ``stack`` shuts it down."""

    def __init__(self, backend: str, address: str | None, stack: ExitStack) -> None:
        self.backend, self.address, self._stack = backend, address, stack
        self._pool: Pool | None = None

    @property
    def is_cluster(self) -> bool:
        """Whether work goes to a cluster, not to joblib's threads or processes."""
        return self.backend in PACKAGES

    @property
    def used(self) -> bool:
        """Whether the cluster was needed."""
        return self._pool is not None

    def pool(self, n_jobs: int | None) -> Pool:
        """Return the cluster's workers; the first call joins or starts the cluster."""
        if self._pool is None:
            workers = cpu_count() if n_jobs is None else int(n_jobs)
            workers = workers if workers > 0 else max(1, cpu_count() + 1 + workers)
            start = dask_pool if self.backend == "dask" else ray_pool
            self._pool = start(self.address, workers, self._stack)
        return self._pool


_present: ContextVar[BackendContext | None] = ContextVar("backend", default=None)


@contextmanager
def using_backend(backend: str | None, address: str | None = None) -> Iterator[None]:
    """Run everything inside on "threads", "processes", "dask" or "ray"; None changes nothing.

    A cluster is joined at ``address``, or is the one that this process already uses, or is started on
    this machine with ``n_jobs`` workers; one that was started is shut down in the end, even after an
    error. The result is the same everywhere.
    """
    check_backend(backend, address)
    present = _present.get()
    if backend is None or (present and (present.backend, present.address) == (backend, address)):
        yield
        return
    if address is not None:
        reachable(backend, address)
    with ExitStack() as stack:
        context = BackendContext(backend, address, stack)
        token = _present.set(context)
        try:
            yield
        finally:
            _present.reset(token)
    if context.is_cluster and not context.used:
        warnings.warn(
            f"backend={backend!r} was not needed: these models are computed for all nodes at once, "
            "in this process, which is faster",
            FedRelaxWarning,
            stacklevel=3,
        )


class Workers:
    """Maps a function over tasks with ``n_jobs`` workers.

    The backend is the one given as ``backend=``; else the one set with joblib's ``parallel_config``;
    else threads or processes, whichever suits the models. Every task uses one thread, whatever the
    number of workers: summing in another order would change the last digits, and small fits gain
    nothing from more threads.
    """

    def __init__(self, n_jobs: int | None, threads: bool) -> None:
        check_jobs(n_jobs)
        self._asked, self._threads = n_jobs, threads
        self.n_jobs = int(effective_n_jobs(n_jobs))

    @contextmanager
    def open(self) -> Iterator[Run]:
        """Yield a function that runs tasks; workers start with its first call and stay to the end."""
        present = _present.get()
        on_cluster = present is not None and present.is_cluster
        with one_thread(), ExitStack() as stack:
            pools: list[Pool] = []

            def run(function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
                if not tasks or (self.n_jobs == 1 and not on_cluster):
                    return [function(*task) for task in tasks]
                if not pools:
                    pools.append(self._pool(stack))
                if self.backend in ("threading", "loky"):
                    return pools[0][0](function, tasks)
                return self._in_parts(pools[0], function, tasks)

            yield run

    @property
    def backend(self) -> str:
        """joblib's name for the backend, or the name of the backend's class."""
        present = _present.get()
        if present is not None:
            return JOBLIB[present.backend]
        found = get_active_backend(prefer="threads" if self._threads else "processes")[0]
        kind = type(found).__name__
        return {"ThreadingBackend": "threading", "LokyBackend": "loky"}.get(kind, kind)

    def _pool(self, stack: ExitStack) -> Pool:
        """Return the workers: those of the cluster asked for, or new ones until ``stack`` is closed."""
        present, name = _present.get(), self.backend
        if present is not None and present.is_cluster:
            return present.pool(self._asked)
        if name not in JOBLIB.values():
            return _pool(stack, n_jobs=self.n_jobs)
        inner = {"inner_max_num_threads": 1} if name == "loky" else {}
        return _pool(stack, backend=name, n_jobs=self.n_jobs, **inner)

    def _in_parts(
        self, pool: Pool, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]
    ) -> list[Any]:
        """Run on a cluster or an unknown backend: in a few parts, each limited to one thread."""
        run, workers = pool
        many = min(len(tasks), PARTS_PER_WORKER * workers)
        with lost_work(self.backend):
            found = run(_part, [(function, tasks[k::many]) for k in range(many)])
        found = copy.deepcopy(found)  # shared arrays are read-only
        return [found[k % many][k // many] for k in range(len(tasks))]


def _pool(stack: ExitStack, **settings: Any) -> Pool:
    """Open joblib's workers with these settings, which apply to nothing else that runs here."""
    with parallel_config(**settings):
        backend, n_jobs = get_active_backend()
    parallel = stack.enter_context(Parallel(n_jobs=n_jobs, backend=backend))

    def run(function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
        return list(parallel(delayed(function)(*task) for task in tasks))

    return run, int(backend.effective_n_jobs(n_jobs))


def _part(function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Run some tasks on a worker, one after the other: a model's own jobs must not go to the cluster again.

    Tasks are copied, because arrays that workers share are read-only, which some models refuse. Warnings
    are silenced: they would be repeated for every fit.
    """
    with one_thread(), parallel_config("sequential"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [function(*task) for task in copy.deepcopy(tasks)]
