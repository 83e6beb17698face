"""Dask: parts of the nodes are scattered to workers once, and tasks run where their part is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from typing import Any

from fedrelax.extras import need
from fedrelax.runtime.clusters.base import Cluster, ClusterError
from fedrelax.runtime.clusters.quiet import importing_no_script, leaving_ctrl_c
from fedrelax.runtime.traffic import size_of

LARGE = 1_000_000
"""Arguments of at least this many bytes go to the worker directly, not through the scheduler."""
ANY_PORT = "127.0.0.1:0"
"""For Dask's dashboards: on a free port, and visible from this machine only."""
SECONDS = 15.0
"""How long to wait for a scheduler, and for its first worker."""


class DaskCluster(Cluster):
    """The workers of a Dask client."""

    name = "dask"

    def __init__(self, client: Any, own: Sequence[Any] = ()) -> None:
        self.client, self._own = client, own
        self._addresses = sorted(client.nthreads())

    @classmethod
    def local(cls, workers: int) -> DaskCluster:
        """Start workers on this machine, one thread each."""
        distributed = need("distributed", "dask")
        with leaving_ctrl_c(), importing_no_script():
            cluster = distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                dashboard_address=ANY_PORT,
                worker_dashboard_address=ANY_PORT,
                silence_logs=logging.CRITICAL,
            )
        try:
            client = distributed.Client(cluster, timeout=SECONDS)
            return cls(client, own=(client, cluster))
        except BaseException:
            cluster.close()
            raise

    @classmethod
    def at(cls, address: str) -> DaskCluster:
        """Join the scheduler at an address."""
        distributed = need("distributed", "dask")
        try:
            with ThreadPoolExecutor(1) as apart:  # a notebook has an event loop of its own
                apart.submit(asyncio.run, _greet(address)).result()
            client = distributed.Client(address, timeout=SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ClusterError(
                f"address={address!r}: no Dask scheduler answered within {SECONDS:.0f} seconds "
                f"({type(error).__name__}); give the address that dask scheduler prints"
            ) from error
        try:
            client.wait_for_workers(1, timeout=SECONDS)
            return cls(client, own=(client,))
        except OSError as error:
            client.close()
            raise ClusterError(
                f"address={address!r}: the Dask scheduler has no workers; start some with dask worker"
            ) from error
        except BaseException:
            client.close()
            raise

    @property
    def workers(self) -> int:
        """The number of threads of all workers."""
        return max(1, int(sum(self.client.nthreads().values())))

    def place(self, thing: Any, part: int) -> Any:
        """Scatter something to the worker of this part."""
        return self.client.scatter(thing, workers=[self._home(part)], hash=False)

    def submit(self, function: Callable[..., Any], part: int, *arguments: Any) -> tuple[Any, Any]:
        """Run on the worker of this part, which has the rows."""
        sent = [self._at_hand(argument, part) for argument in arguments]
        here = {"workers": [self._home(part)], "pure": False}
        pair = self.client.submit(function, *sent, **here)
        first, second = (self.client.submit(itemgetter(k), pair, **here) for k in (0, 1))
        return first, second

    def _at_hand(self, argument: Any, part: int) -> Any:
        from distributed import Future

        small = isinstance(argument, Future) or size_of(argument) < LARGE
        return argument if small else self.place(argument, part)

    def _home(self, part: int) -> str:
        return str(self._addresses[part % len(self._addresses)])

    def fetch(self, references: Sequence[Any]) -> list[Any]:
        """Gather results from the workers."""
        from concurrent.futures import CancelledError

        from distributed import KilledWorker
        from distributed.client import FutureCancelledError

        try:
            return list(self.client.gather(list(references)))
        except (KilledWorker, FutureCancelledError, CancelledError, OSError) as error:
            raise self.lost(error) from error

    def close(self) -> None:
        """Close client and workers if this run started them."""
        for each in self._own:
            each.close()


async def _greet(address: str) -> None:
    """Connect to a scheduler once; a client would wait for ever if something else listens there."""
    from distributed.core import connect

    comm = await asyncio.wait_for(connect(address, timeout=SECONDS), SECONDS)
    await comm.close()
