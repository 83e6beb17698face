"""What a round needs of a cluster: to keep something there, to run where it lies, to ask for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from fedrelax.errors import FedRelaxError

PARTS_PER_WORKER = 4
"""Nodes are sent in parts, several per worker, so that none waits long for the slowest."""


class ClusterError(FedRelaxError):
    """A cluster cannot be reached, or has lost what it was doing."""


class Cluster(ABC):
    """Workers in other processes or on other machines.

    References are the cluster's own (futures of Dask, object references of Ray): what nobody refers
    to any more is forgotten there.
    """

    name: ClassVar[str]

    @property
    @abstractmethod
    def workers(self) -> int:
        """How many tasks run at a time."""

    @abstractmethod
    def place(self, thing: Any, part: int) -> Any:
        """Put something on a worker to stay there, and return a reference to it."""

    @abstractmethod
    def submit(self, function: Callable[..., Any], part: int, *arguments: Any) -> tuple[Any, Any]:
        """Run a function that returns a pair; return references to its two halves at once.

        References among the arguments become what they refer to. Work on one part runs where that
        part was placed.
        """

    @abstractmethod
    def fetch(self, references: Sequence[Any]) -> list[Any]:
        """Return what is referred to; an error of a task is raised as it was there."""

    @abstractmethod
    def close(self) -> None:
        """End what was started for this run, and leave alone what was there before."""

    def parts(self, nodes: int) -> int:
        """Return in how many parts so many nodes are sent."""
        return max(1, min(nodes, PARTS_PER_WORKER * self.workers))

    def lost(self, error: BaseException) -> ClusterError:
        """Return in one sentence that work was lost."""
        text = " ".join(str(error).split())[:200]
        return ClusterError(
            f"the {self.name} cluster lost a part of the nodes ({type(error).__name__}: {text}); see its "
            "logs for workers that ended, often for lack of memory, and run again"
        )
