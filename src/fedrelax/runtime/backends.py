"""Where runs take place: set by the user once, for everything inside a ``with`` block."""

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
"""The package that each cluster backend needs; the backend is also the name of the extra."""


class Place:
    """A backend that was asked for, and its cluster once it is needed."""

    def __init__(self, backend: str, address: str | None) -> None:
        self.backend, self.address = backend, address
        self._cluster: Cluster | None = None

    @property
    def is_cluster(self) -> bool:
        """Whether work goes to a cluster, not to joblib's threads or processes."""
        return self.backend in PACKAGES

    @property
    def used(self) -> bool:
        """Whether the cluster was needed."""
        return self._cluster is not None

    def cluster(self, n_jobs: int | None) -> Cluster:
        """Return the cluster; the first call joins or starts it."""
        if self._cluster is None:
            self._cluster = cluster_for(self.backend, self.address, n_jobs)
        return self._cluster

    def close(self) -> None:
        """Shut down what was started."""
        if self._cluster is not None:
            self._cluster.close()


_present: ContextVar[Place | None] = ContextVar("place", default=None)


def present_place() -> Place | None:
    """Return the backend that the user has asked for, if any."""
    return _present.get()


@contextmanager
def running_on(backend: str | None, address: str | None = None) -> Iterator[None]:
    """Run everything inside on "threads", "processes", "dask" or "ray"; None changes nothing.

    A cluster is joined at ``address``, or is the one that this process already uses, or is started on
    this machine with ``n_jobs`` workers; one that was started is shut down in the end, even after an
    error. The result is the same everywhere.
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
    """Refuse backends that are unknown or not installed, and addresses without a cluster backend."""
    if backend is not None and backend not in BACKENDS:
        raise FedRelaxError(
            f"backend={backend!r} must be None or one of {', '.join(BACKENDS)}"
            f"{did_you_mean(backend, BACKENDS)}"
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
