"""Clusters of Dask and Ray: join the one at an address, use the present one, or start one here."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from fedrelax.errors import FedRelaxError
from fedrelax.extras import need

ANY_PORT = "127.0.0.1:0"
"""For Dask's dashboards: on a free port, and visible from this machine only."""
SECONDS, CONNECTING = 15.0, 5.0
"""How long a cluster may take to answer, and an address to accept a connection."""
LOST = ("KilledWorker", "FutureCancelledError", "CommClosedError")
"""What Dask raises when workers die; all of Ray's own errors mean the same."""


class ClusterError(FedRelaxError):
    """A cluster cannot be reached, or has lost work."""


Run = Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], list[Any]]
"""Runs a function over tuples of arguments and returns the results in that order."""
Pool = tuple[Run, int]
"""Workers, ready for use, and how many they are."""


def dask_pool(address: str | None, workers: int, stack: ExitStack) -> Pool:
    """Return the workers of a Dask cluster; what is started or joined is closed with ``stack``."""
    client = _dask_client(address, workers, stack)

    def run(function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
        placed = client.scatter(list(tasks), hash=False)
        return list(
            client.gather([client.submit(_call, function, task, pure=False) for task in placed])
        )

    return run, max(1, int(sum(client.nthreads().values())))


def _call(function: Callable[..., Any], task: tuple[Any, ...]) -> Any:
    return function(*task)


def _dask_client(address: str | None, workers: int, stack: ExitStack) -> Any:
    distributed = need("distributed", "dask")
    if address is not None:
        return _dask_at(address, stack)
    with suppress(ValueError):  # there is none yet
        return distributed.default_client()
    with ignoring_ctrl_c(), _importing_no_script():
        cluster = distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address=ANY_PORT,
            worker_dashboard_address=ANY_PORT,
            silence_logs=logging.CRITICAL,
        )
    stack.callback(cluster.close)
    return stack.enter_context(distributed.Client(cluster, timeout=SECONDS))


def _dask_at(address: str, stack: ExitStack) -> Any:
    distributed = need("distributed", "dask")
    try:
        with ThreadPoolExecutor(1) as apart:  # a notebook has an event loop of its own
            apart.submit(asyncio.run, _greet_dask(address)).result()
        client = distributed.Client(address, timeout=SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"address={address!r}: no Dask scheduler answered within {SECONDS:.0f} seconds "
            f"({type(error).__name__}); give the address that dask scheduler prints"
        ) from error
    stack.callback(client.close)
    try:
        client.wait_for_workers(1, timeout=SECONDS)
    except OSError as error:
        raise ClusterError(
            f"address={address!r}: the Dask scheduler has no workers; start some with dask worker"
        ) from error
    return client


async def _greet_dask(address: str) -> None:
    """Connect to a scheduler once; a client would wait for ever if something else listens there."""
    from distributed.core import connect

    comm = await asyncio.wait_for(connect(address, timeout=SECONDS), SECONDS)
    await comm.close()


def ray_pool(address: str | None, workers: int, stack: ExitStack) -> Pool:
    """Return the workers of a Ray cluster; what is started or joined is left with ``stack``."""
    join_ray(address, workers, stack)
    ray = need("ray", "ray")
    call = ray.remote(num_cpus=1, max_retries=0)(_call)

    def run(function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
        sent = [call.remote(function, task) for task in tasks]
        try:
            return [
                ray.get(reference) for reference in sent
            ]  # of several errors, the first in order
        except ray.exceptions.RayTaskError as error:
            raise getattr(error, "cause", error) from None

    return run, max(1, int(ray.cluster_resources().get("CPU", 1)))


def join_ray(address: str | None, workers: int, stack: ExitStack) -> None:
    """Join or start Ray, without its usage statistics; what was joined is left with ``stack``.

    A process can be in one Ray cluster only: if it has joined one already, another address is refused.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    ray = need("ray", "ray")
    if ray.is_initialized():
        present = str(ray.get_runtime_context().gcs_address)
        if address not in (None, "auto", present):
            raise ClusterError(
                f"address={address!r}: this process has already joined the Ray cluster at {present}, "
                "and can be in only one; call ray.shutdown() first, or leave the address out"
            )
    else:
        stack.callback(ray.shutdown)
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address is None:
            with ignoring_ctrl_c():
                ray.init(num_cpus=workers, include_dashboard=False, **quiet)
        else:
            try:
                _greet_ray(address)
                ray.init(address=address, **quiet)
            except (ConnectionError, RuntimeError, ValueError, OSError) as error:
                text = " ".join(str(error).split())[:200]
                raise ClusterError(
                    f"address={address!r}: no Ray cluster could be joined there ({text}); give the "
                    "address that ray start prints"
                ) from error


def _greet_ray(address: str) -> None:
    """Run a cluster's health check; joining would wait for minutes if something else listens there."""
    if address == "auto" or "://" in address:
        return  # Ray resolves "auto" itself, and does not hang on URLs
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
    try:
        health = subprocess.run(command, capture_output=True, timeout=2 * SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise ConnectionError(f"no answer within {2 * SECONDS:.0f} seconds") from error
    if health.returncode:
        raise ConnectionError("its health check failed")


def reachable(backend: str, address: str) -> None:
    """Refuse an address where nothing listens, within seconds and before any work is done."""
    if address in ("auto", "local"):
        return
    try:
        parts = urlsplit(address if "://" in address else f"tcp://{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if host is None or port is None:
        raise ClusterError(
            f"address={address!r} is not HOST:PORT; give the address of the {backend} cluster"
        )
    try:
        socket.create_connection((host, port), timeout=CONNECTING).close()
    except OSError as error:
        raise ClusterError(
            f"address={address!r}: nothing answers there ({error}); start the {backend} cluster or "
            "check host and port"
        ) from error


@contextmanager
def lost_work(backend: str) -> Iterator[None]:
    """Turn what a cluster raises when workers die into one sentence."""
    try:
        yield
    except Exception as error:
        name = type(error).__name__
        if isinstance(error, FedRelaxError) or not (
            name in LOST
            or isinstance(error, CancelledError)
            or type(error).__module__.startswith("ray.exceptions")
        ):
            raise
        text = " ".join(str(error).split())[:200]
        raise ClusterError(
            f"the {backend} cluster lost some of the nodes ({name}: {text}); check its logs for "
            "workers that died, often for lack of memory, and run again"
        ) from error


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


@contextmanager
def _importing_no_script() -> Iterator[None]:
    """Let processes started inside not run the user's script again to find its names.

    Python's ``multiprocessing`` does run it, which is why scripts need ``if __name__ == "__main__"``.
    Here nothing of the script is needed: what it defines is pickled by value.
    """
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script
