"""What a round needs from a cluster: to place data, to run tasks where the data is, to fetch results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from fedrelax.errors import FedRelaxError

PARTS_PER_WORKER = 4
"""Nodes are sent in parts, several per worker, so that none waits long for the slowest."""


class ClusterError(FedRelaxError):
    """A cluster cannot be reached, or has lost work."""


class Cluster(ABC):
    """Workers in other processes or on other machines.

    References are the cluster's own (Dask futures, Ray object references): what is no longer referred
    to is freed there.
    """

    name: ClassVar[str]

    @property
    @abstractmethod
    def workers(self) -> int:
        """How many tasks run at the same time."""

    @abstractmethod
    def place(self, thing: Any, part: int) -> Any:
        """Put something on a worker, where it stays, and return a reference to it."""

    @abstractmethod
    def submit(self, function: Callable[..., Any], part: int, *arguments: Any) -> tuple[Any, Any]:
        """Start a function that returns a pair; return references to its two items immediately.

        References among the arguments are replaced by what they refer to. Work on a part runs where
        that part was placed.
        """

    @abstractmethod
    def fetch(self, references: Sequence[Any]) -> list[Any]:
        """Return what is referred to; an error in a task is raised here as it was there."""

    @abstractmethod
    def close(self) -> None:
        """Shut down what was started for this run, and leave alone what was running before."""

    def parts(self, nodes: int) -> int:
        """Return the number of parts in which this many nodes are sent."""
        return max(1, min(nodes, PARTS_PER_WORKER * self.workers))

    def lost(self, error: BaseException) -> ClusterError:
        """Return the error that says that work was lost."""
        text = " ".join(str(error).split())[:200]
        return ClusterError(
            f"the {self.name} cluster lost some of the nodes ({type(error).__name__}: {text}); check its "
            "logs for workers that died, often for lack of memory, and run again"
        )
