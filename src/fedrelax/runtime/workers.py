"""Where fits run: here, in threads or processes, or on a cluster of Dask or Ray, with the same result."""

from __future__ import annotations

import copy
import signal
import socket
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from numbers import Integral
from typing import Any
from urllib.parse import urlsplit

from joblib import Parallel, cpu_count, delayed, effective_n_jobs, parallel_config
from joblib.parallel import get_active_backend

from fedrelax.errors import FedRelaxError, did_you_mean, in_one_line
from fedrelax.extras import need
from fedrelax.threads import one_thread

JOBLIB = {"threads": "threading", "processes": "loky", "dask": "dask", "ray": "ray"}
"""joblib's names for the backends."""
PACKAGES = {"dask": "distributed", "ray": "ray"}
"""The package that each cluster backend needs; the backend is also the name of the extra."""
MOST_PER_CORE, MOST_WORKERS = 4, 64
"""More workers than these, per core or on a small machine, only take memory."""
CLUSTER_ERRORS = ("distributed", "ray.exceptions")
SECONDS = 15.0
"""How long a cluster may take to answer."""
PARTS_PER_WORKER = 4
"""Tasks are sent in parts, several per worker, so that none waits long for the slowest."""

Run = Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], list[Any]]
"""Runs a function over tuples of arguments and returns the results in that order."""
Cluster = tuple[Run, int]
"""The workers of a cluster, and how many they are."""


class ClusterError(FedRelaxError):
    """A cluster cannot be reached, or has lost work."""


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


_present: ContextVar[tuple[str | None, Cluster | None]] = ContextVar(
    "backend", default=(None, None)
)
"""What was asked for: joblib's name of the backend, and the cluster if it is one."""


@contextmanager
def using_backend(backend: str | None, address: str | None = None) -> Iterator[None]:
    """Run the fits of all that is inside on "threads", "processes", "dask" or "ray"; None changes nothing.

    A cluster is the one at ``address``, which is left in the end, or the one that this process has joined
    already. The result is the same everywhere.
    """
    check_backend(backend, address)
    if backend is None:
        yield
        return
    with ExitStack() as stack:
        join = {"dask": _join_dask, "ray": _join_ray}.get(backend)
        cluster = None if join is None else join(address, stack)
        token = _present.set((JOBLIB[backend], cluster))
        try:
            yield
        finally:
            _present.reset(token)


def _call(function: Callable[..., Any], task: tuple[Any, ...]) -> Any:
    return function(*task)


def _join_dask(address: str | None, stack: ExitStack) -> Cluster:
    distributed = need("distributed", "dask")
    try:
        if address is None:
            client = distributed.default_client()
        else:
            _check_address(address)
            joined = distributed.Client(address, timeout=SECONDS, set_as_default=False)
            client = stack.enter_context(joined)
    except (OSError, ValueError) as error:
        raise _unreachable("dask", address, "dask scheduler", error) from None

    def run(function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
        sent = client.scatter(list(tasks), hash=False)
        return list(
            client.gather([client.submit(_call, function, task, pure=False) for task in sent])
        )

    return run, max(1, int(sum(client.nthreads().values())))


def _join_ray(address: str | None, stack: ExitStack) -> Cluster:
    ray = need("ray", "ray")
    if not ray.is_initialized():
        try:
            if address not in (None, "auto"):
                _check_address(address or "")
            ray.init(address=address or "auto", log_to_driver=False)
        except (OSError, RuntimeError, ValueError) as error:
            raise _unreachable("ray", address, "ray start", error) from None
        stack.callback(ray.shutdown)
    elif address not in (None, "auto", str(ray.get_runtime_context().gcs_address)):
        raise ClusterError(
            f"address={address!r}: this process has already joined another Ray cluster, and can be in only "
            "one; call ray.shutdown() first, or leave the address out"
        )
    call = ray.remote(num_cpus=1, max_retries=0)(_call)

    def run(function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
        sent = [call.remote(function, task) for task in tasks]
        try:
            return [ray.get(reference) for reference in sent]
        except ray.exceptions.RayTaskError as error:
            raise getattr(error, "cause", error) from None

    return run, max(1, int(ray.cluster_resources().get("CPU", 1)))


def _check_address(address: str) -> None:
    """Try to connect: clusters' own clients wait long if nothing listens there."""
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    if parts.hostname is None or parts.port is None:
        raise ValueError("it is not HOST:PORT")
    socket.create_connection((parts.hostname, parts.port), timeout=SECONDS).close()


def _unreachable(backend: str, address: str | None, command: str, error: Exception) -> ClusterError:
    where = "" if address is None else f", address={address!r}"
    text = in_one_line(error, kind=False)[:200]
    return ClusterError(
        f"backend={backend!r}{where}: no cluster could be joined ({text}); start one and "
        f"give the address= that {command} prints"
    )


class Workers:
    """Maps a function over tasks with ``n_jobs`` workers, or with all workers of a cluster.

    The backend is the one of ``using_backend``; else the one set with joblib's ``parallel_config``; else
    threads or processes, whichever suits the models. Every task uses one thread, whatever the number of
    workers: summing in another order would change the last digits, and small fits gain nothing from more.
    """

    def __init__(self, n_jobs: int | None, threads: bool) -> None:
        check_jobs(n_jobs)
        self._prefer = "threads" if threads else "processes"
        self.n_jobs = int(effective_n_jobs(n_jobs))

    @contextmanager
    def open(self) -> Iterator[Run]:
        """Yield a function that runs tasks; workers start with its first call and stay to the end."""
        _, cluster = _present.get()
        with one_thread(), ExitStack() as stack:
            pools: list[Parallel] = []

            def in_pool(
                function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]
            ) -> list[Any]:
                if not pools:
                    pools.append(stack.enter_context(self._parallel()))
                return list(pools[0](delayed(function)(*task) for task in tasks))

            def run(function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
                if cluster is not None and tasks:
                    return _in_parts(*cluster, function, tasks)
                if self.n_jobs == 1 or not tasks:
                    return [function(*task) for task in tasks]
                if self.backend in ("threading", "loky"):
                    return in_pool(function, tasks)
                return _in_parts(in_pool, self.n_jobs, function, tasks)

            yield run

    @property
    def backend(self) -> str:
        """joblib's name for the backend, or the name of the backend's class."""
        kind = _present.get()[0] or type(get_active_backend(prefer=self._prefer)[0]).__name__
        return {"ThreadingBackend": "threading", "LokyBackend": "loky"}.get(kind, kind)

    def _parallel(self) -> Parallel:
        """Return joblib's workers; the settings apply to nothing else that runs here."""
        name = self.backend
        if name not in ("threading", "loky"):
            return Parallel(n_jobs=self.n_jobs)
        inner = {"inner_max_num_threads": 1} if name == "loky" else {}
        with parallel_config(name, **inner):
            return Parallel(n_jobs=self.n_jobs)


def _in_parts(
    run: Run, workers: int, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]
) -> list[Any]:
    """Run on a cluster, or a backend of joblib's that is not known: in a few parts.

    What a cluster raises when workers die becomes one sentence.
    """
    many = min(len(tasks), PARTS_PER_WORKER * workers)
    try:
        found = run(_part, [(function, tasks[k::many]) for k in range(many)])
    except Exception as error:
        theirs = type(error).__module__.startswith(CLUSTER_ERRORS)
        if not (theirs or isinstance(error, CancelledError)):
            raise
        raise ClusterError(
            f"the cluster lost some of the nodes ({in_one_line(error)[:200]}); check its logs for "
            "workers that died, often for lack of memory, and run again"
        ) from error
    found = copy.deepcopy(found)  # shared arrays are read-only
    return [found[k % many][k // many] for k in range(len(tasks))]


def _part(function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Run some tasks on a worker, one after the other: a model's own jobs must not go to the cluster again.

    Tasks are copied, because arrays that workers share are read-only, which some models refuse. Warnings
    are silenced: they would be repeated for every fit.
    """
    with one_thread(), parallel_config("sequential"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [function(*task) for task in copy.deepcopy(tasks)]


@contextmanager
def ignoring_ctrl_c() -> Iterator[None]:
    """Let processes started inside ignore Ctrl-C, so that only this one handles it.

    A terminal sends it to all processes of a command; those started while it is ignored keep ignoring it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
