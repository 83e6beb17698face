"""The interface through which every way of learning is compared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from fedrelax.losses import usual_loss
from fedrelax.models import LocalModel
from fedrelax.network import Network
from fedrelax.solvers import Result
from fedrelax.typing import FloatArray, Label


@dataclass(frozen=True)
class Run:
    """One model per node, and the mean loss on the nodes' validation rows after every round."""

    models: Mapping[Label, LocalModel]
    validation: FloatArray = field(default_factory=lambda: np.empty(0))
    """From round 0 on; empty where no node holds validation rows."""

    @classmethod
    def of(cls, result: Result) -> Run:
        """Return the run of a solver."""
        curve = result.history["validation_loss"]
        return cls(result.local_models, np.empty(0) if np.isnan(curve).all() else curve)


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
    """What tables call it."""
    tries: ClassVar[Mapping[str, Sequence[float]]] = {}
    """The values of a setting among which validation chooses."""

    @classmethod
    def usual(cls, rounds: int) -> Self | None:
        """Return this way as it is compared by default, or None if it has settings without a default.

        ``rounds`` is how many FedRelax may use, for ways whose rounds are of the same kind.
        """
        return cls()

    def unsupported_reason(self, network: Network) -> str | None:
        """Return why this way cannot learn on the network, or would take too long, or None."""
        return None

    def candidates(self, network: Network) -> Sequence[Baseline]:
        """Return this way with the settings that validation should choose among."""
        pairs = [(name, value) for name, values in self.tries.items() for value in values]
        return [replace(self, **{name: value}) for name, value in pairs] or [self]

    def choose(
        self, network: Network, folds: Sequence[Network], *, seed: int, n_jobs: int | None
    ) -> Baseline:
        """Return this way with the settings, and the rounds, of the smallest validation loss.

        ``network`` holds all training rows; each of ``folds`` trains on some of them and validates
        on the others. The loss is the mean over all validated rows. Of equally good settings the
        earlier candidate and the earlier round win. A way without rounds and with a single candidate
        has nothing to choose and is not run.
        """
        candidates = list(self.candidates(network))
        if len(candidates) == 1 and not hasattr(self, "rounds"):
            return candidates[0]
        curves = [validation_curve(candidate, folds, seed, n_jobs) for candidate in candidates]
        losses = _padded(curves)
        losses = np.where(np.isnan(losses), np.inf, losses)
        least = np.isclose(losses, losses.min(), rtol=1e-9, atol=0.0)  # equal but for rounding
        best, best_round = divmod(int(np.argmax(least)), losses.shape[1])
        changes: dict[str, Any] = {"rounds": best_round} if hasattr(self, "rounds") else {}
        chosen: Baseline = replace(candidates[best], **changes)
        return chosen

    @abstractmethod
    def run(self, network: Network, *, seed: int = 0, n_jobs: int | None = None) -> Run:
        """Train one model per node."""

    def settings(self) -> dict[str, object]:
        """Return the settings by name, for tables."""
        return dict(vars(self))


def validation_curve(
    way: Baseline, folds: Sequence[Network], seed: int = 0, n_jobs: int | None = None
) -> FloatArray:
    """Return the validation loss after every round, as the mean over the rows of all folds."""
    curves = []
    for fold in folds:
        run = way.run(fold, seed=seed, n_jobs=n_jobs)
        rounds = len(run.validation) > 0
        curves.append(run.validation if rounds else np.array([validation_loss(fold, run.models)]))
    rows = [sum(len(node.validation[1]) for node in fold if node.validation) for fold in folds]
    return np.asarray(np.average(_padded(curves), axis=0, weights=rows))


def _padded(curves: Sequence[FloatArray]) -> FloatArray:
    """Stack curves; that of a run which ended early goes on at its last value, where it had settled."""
    length = max(map(len, curves))
    return np.array([np.pad(curve, (0, length - len(curve)), mode="edge") for curve in curves])
