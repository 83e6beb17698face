"""Ray: parts of the nodes are put into the object store once, and tasks refer to them."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from fedrelax.extras import need
from fedrelax.runtime.clusters.base import Cluster, ClusterError
from fedrelax.runtime.clusters.quiet import leaving_ctrl_c

SECONDS = 30.0
"""How long a cluster's health check may take."""


class RayCluster(Cluster):
    """The workers of the Ray cluster that this process has joined."""

    name = "ray"

    def __init__(self, own: bool = False) -> None:
        self._ray, self._own = need("ray", "ray"), own
        self._remote: dict[Callable[..., Any], Any] = {}

    @classmethod
    def local(cls, workers: int) -> RayCluster:
        """Start Ray on this machine, without its usage statistics."""
        with leaving_ctrl_c():
            return cls._joined(num_cpus=workers, include_dashboard=False)

    @classmethod
    def at(cls, address: str) -> RayCluster:
        """Join the cluster at an address."""
        try:
            _greet(address)
            return cls._joined(address=address)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            text = " ".join(str(error).split())[:200]
            raise ClusterError(
                f"address={address!r}: no Ray cluster could be joined there ({text}); give the address "
                "that ray start prints"
            ) from error

    @classmethod
    def _joined(cls, **settings: Any) -> RayCluster:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        ray = need("ray", "ray")
        try:
            ray.init(log_to_driver=False, logging_level=logging.ERROR, **settings)
            return cls(own=True)
        except BaseException:
            ray.shutdown()
            raise

    def check(self, address: str | None) -> None:
        """Refuse the address HOST:PORT of another cluster; None, words and URLs are not compared."""
        if address is None or address in ("auto", "local") or "://" in address:
            return
        present = str(self._ray.get_runtime_context().gcs_address)
        if self._place(address) != self._place(present):
            raise ClusterError(
                f"address={address!r}: this process has already joined the Ray cluster at {present}, "
                "and can be in only one; call ray.shutdown() first, or leave the address out"
            )

    def _place(self, address: str) -> tuple[str, str]:
        """Return host and port as numbers; this machine has the one that other machines know."""
        host, _, port = address.rpartition(":")
        with suppress(OSError):
            host = socket.gethostbyname(host)
        return self._ray.util.get_node_ip_address() if host.startswith("127.") else host, port

    @property
    def workers(self) -> int:
        """The number of CPUs of all machines."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def place(self, thing: Any, part: int) -> Any:
        """Put something into the object store."""
        return self._ray.put(thing)

    def submit(self, function: Callable[..., Any], part: int, *arguments: Any) -> tuple[Any, Any]:
        """Run where Ray sees fit: it prefers machines that hold the arguments."""
        if function not in self._remote:
            self._remote[function] = self._ray.remote(num_cpus=1, num_returns=2)(function)
        first, second = self._remote[function].remote(*arguments)
        return first, second

    def fetch(self, references: Sequence[Any]) -> list[Any]:
        """Get results from the object store; of several errors, the first in order is raised."""
        exceptions = self._ray.exceptions
        try:
            try:
                return list(self._ray.get(list(references)))
            except exceptions.RayTaskError:  # whichever came first
                return [self._ray.get(reference) for reference in references]
        except exceptions.RayTaskError as error:
            raise getattr(error, "cause", error) from None
        except exceptions.RayError as error:
            raise self.lost(error) from error

    def close(self) -> None:
        """Leave Ray or shut it down, if this run joined or started it."""
        if self._own:
            self._ray.shutdown()


def _greet(address: str) -> None:
    """Run a cluster's health check; joining would wait for minutes if something else listens there."""
    if address == "auto" or "://" in address:
        return  # Ray resolves "auto" itself, and does not hang on URLs
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
    try:
        well = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise ConnectionError(f"no answer within {SECONDS:.0f} seconds") from error
    if well.returncode:
        raise ConnectionError("its health check failed")
