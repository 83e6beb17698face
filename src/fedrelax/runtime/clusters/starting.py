"""Find a cluster: the one in use, one at an address, or a new one on this machine."""

from __future__ import annotations

import socket
import sys
from typing import Any
from urllib.parse import urlsplit

from joblib import cpu_count

from fedrelax.extras import need
from fedrelax.runtime.clusters.base import Cluster, ClusterError

SECONDS = 5.0
"""How long an address may take to accept a connection."""


def cluster_for(backend: str, address: str | None, n_jobs: int | None) -> Cluster:
    """Return the cluster at an address; else the one in use; else a new one on this machine.

    A process can be in one Ray cluster only: if it has joined one already, another address is refused.
    """
    workers = cpu_count() if n_jobs is None else int(n_jobs)
    workers = workers if workers > 0 else max(1, cpu_count() + 1 + workers)
    if backend == "ray":
        from fedrelax.runtime.clusters.ray import RayCluster

        if need("ray", "ray").is_initialized():
            joined = RayCluster()
            joined.check(address)
            return joined
        return RayCluster.local(workers) if address is None else RayCluster.at(address)
    from fedrelax.runtime.clusters.dask import DaskCluster

    if address is not None:
        return DaskCluster.at(address)
    present = _present_client()
    return DaskCluster.local(workers) if present is None else DaskCluster(present)


def _present_client() -> Any:
    """Return the default Dask client of this process, if any."""
    distributed = need("distributed", "dask")
    try:
        return distributed.default_client()
    except ValueError:
        return None


def cluster_of_joblib(backend: Any) -> Cluster | None:
    """Return the cluster behind a joblib backend that the user has set, if there is one."""
    kind = type(backend).__name__
    if kind == "DaskDistributedBackend":
        from fedrelax.runtime.clusters.dask import DaskCluster

        return DaskCluster(backend.client)
    if kind == "RayBackend" and sys.modules["ray"].is_initialized():
        from fedrelax.runtime.clusters.ray import RayCluster

        return RayCluster()
    return None


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
        socket.create_connection((host, port), timeout=SECONDS).close()
    except OSError as error:
        raise ClusterError(
            f"address={address!r}: nothing answers there ({error}); start the {backend} cluster or "
            "check host and port"
        ) from error
