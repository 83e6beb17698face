"""The one interface behind which every way of learning is compared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from fedrelax.losses import usual_loss
from fedrelax.models import LocalModel
from fedrelax.network import Network
from fedrelax.typing import FloatArray, Label


@dataclass(frozen=True)
class Run:
    """One model per node, and the mean loss on the nodes' validation rows after every round."""

    models: Mapping[Label, LocalModel]
    validation: FloatArray = field(default_factory=lambda: np.empty(0))
    """From round 0 on; empty where no node holds validation rows."""


def validation_loss(network: Network, models: Mapping[Label, LocalModel]) -> float:
    """Return the mean loss over all validation rows of all nodes; NaN if there are none."""
    loss, task = usual_loss(network.kind), network.task
    total, rows = 0.0, 0
    for node in network:
        if node.validation is not None:
            X, y = node.validation
            total += len(X) * loss.mean(task.encode(y), models[node.label].predict(X))
            rows += len(X)
    return total / rows if rows else float("nan")


@dataclass(frozen=True)
class Baseline(ABC):
    """A way of learning. A subclass is a dataclass of its settings; ``run`` trains a network.

    ``run(network)`` must give every node a model. To be compared fairly, a way also names the
    settings worth trying (``candidates``); if it goes in rounds it has a field ``rounds`` and returns
    the validation loss after each, so that their number can be chosen too.
    """

    name: ClassVar[str]
    """How tables call it."""

    def refusal(self, network: Network) -> str | None:
        """Return why this way cannot learn on the network, or None."""
        return None

    def candidates(self, network: Network) -> Sequence[Baseline]:
        """Return this way with the settings that validation should choose among."""
        return [self]

    @abstractmethod
    def run(self, network: Network, *, seed: int = 0, n_jobs: int | None = None) -> Run:
        """Train one model per node."""

    def settings(self) -> dict[str, Any]:
        """Return the settings by name, for tables."""
        return dict(vars(self))
