"""Where runs are to take place: said by the user once, for everything inside."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any

from fedrelax.errors import FedRelaxError, FedRelaxWarning, did_you_mean
from fedrelax.runtime.clusters import Cluster, cluster_for, reachable

BACKENDS = ("threads", "processes", "dask", "ray")
PACKAGES = {"dask": "distributed", "ray": "ray"}
"""What the clusters need, by the extra that brings it."""


class Place:
    """A backend that was asked for, and its cluster once somebody needs it."""

    def __init__(self, backend: str, address: str | None) -> None:
        self.backend, self.address = backend, address
        self._cluster: Cluster | None = None

    @property
    def is_cluster(self) -> bool:
        """Whether work leaves this machine's own processes."""
        return self.backend in PACKAGES

    @property
    def used(self) -> bool:
        """Whether anybody needed the cluster."""
        return self._cluster is not None

    def cluster(self, n_jobs: int | None) -> Cluster:
        """Return the cluster; the first call joins or starts it."""
        if self._cluster is None:
            self._cluster = cluster_for(self.backend, self.address, n_jobs)
        return self._cluster

    def close(self) -> None:
        """End what was started."""
        if self._cluster is not None:
            self._cluster.close()


_present: ContextVar[Place | None] = ContextVar("place", default=None)


def present_place() -> Place | None:
    """Return what the user has asked for, if anything."""
    return _present.get()


@contextmanager
def running_on(backend: str | None, address: str | None = None) -> Iterator[None]:
    """Run everything inside on "threads", "processes", "dask" or "ray"; None changes nothing.

    A cluster is joined at ``address``, or is the one that this process has, or is started here with
    ``n_jobs`` workers; one that was started is ended here, also after an error. The result is the
    same everywhere.
    """
    check_backend(backend, address)
    place = present_place()
    if backend is None or (place and (place.backend, place.address) == (backend, address)):
        yield
        return
    if address is not None:
        reachable(backend, address)
    place = Place(backend, address)
    token = _present.set(place)
    try:
        yield
        if place.is_cluster and not place.used:
            warnings.warn(
                f"backend={backend!r} was not needed: these models are computed for all nodes at once, "
                "in this process, which is faster",
                FedRelaxWarning,
                stacklevel=3,
            )
    finally:
        _present.reset(token)
        place.close()


def check_backend(backend: Any, address: Any) -> None:
    """Refuse backends that nobody knows or that are not installed, and addresses of nothing."""
    if backend is not None and backend not in BACKENDS:
        raise FedRelaxError(
            f"backend={backend!r} must be None or one of {', '.join(BACKENDS)}"
            f"{did_you_mean(backend, BACKENDS)}"
        )
    if address is not None and not isinstance(address, str):
        raise FedRelaxError(f"address={address!r} must be a text such as 'tcp://10.0.0.1:8786'")
    if address is not None and backend not in PACKAGES:
        raise FedRelaxError(
            f"address={address!r} is that of a cluster; give backend='dask' or backend='ray' with it"
        )
    if backend in PACKAGES and find_spec(PACKAGES[backend]) is None:
        raise FedRelaxError(
            f"backend={backend!r} needs {PACKAGES[backend]}, which is not installed; "
            f"pip install 'fedrelax[{backend}]' brings it"
        )
