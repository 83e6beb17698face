"""Engines: ways to compute the rounds of Algorithm 1, each for the networks it supports."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from fedrelax.errors import FedRelaxError
from fedrelax.models import LocalModel
from fedrelax.network import Network
from fedrelax.runtime import Settings, Steps
from fedrelax.typing import FloatArray, Label


class UnsupportedNetworkError(FedRelaxError):
    """An engine does not support this network, or not as exactly as the models themselves would."""

    def __init__(self, engine: str, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"the {engine} engine does not apply: {reason}; use engine='auto' or engine='sites'"
        )


class Engine(Steps):
    """Holds the nodes of a network while the loop runs its rounds. All engines give the same result.

    ``unsupported_reason`` is cheap. ``of`` refuses, with ``UnsupportedNetworkError``, what shows only once
    the arrays are built.
    """

    name: ClassVar[str]
    rank: ClassVar[int]
    """Engines are tried in this order: from the most specialised to the one for any models."""
    usual_rounds = 20
    """The maximum number of rounds if none is given."""
    few_rounds: ClassVar[int] = 4
    """The same where models learn their difference and do not settle: the first rounds teach most."""
    settles: ClassVar[bool] = False
    """Whether rounds are cheap and converge to one point from any start."""
    at_rest = False
    may_rest = True

    @classmethod
    def unsupported_reason(cls, network: Network, settings: Settings) -> str | None:
        """Return why this engine does not support the network, naming the node, or None."""
        return cls.unsupported_network(network, settings)

    @classmethod
    @abstractmethod
    def unsupported_network(cls, network: Network, settings: Settings) -> str | None:
        """Return which node's model or rows are not supported, or None."""

    @classmethod
    def of(cls, network: Network, settings: Settings) -> Self:
        """Return an engine ready to run on a network that ``unsupported_reason`` has accepted."""
        return cls(network, settings)  # type: ignore[call-arg]

    def working(self) -> AbstractContextManager[None]:
        """Return a context in which rounds can run."""
        return nullcontext()

    # Checkpoints: see ``runtime.callbacks``

    def unsupported_checkpoint(self) -> str | None:
        """Return why a run could not resume from a checkpoint with the same result, or None."""
        return None

    @abstractmethod
    def state(self) -> Any:
        """Return, as plain values, what ``start`` cannot recompute."""

    @abstractmethod
    def resume(self, state: Any, round: int) -> None:
        """Restore the state of a round, after ``start``."""

    def packed_models(self, models: Any) -> Any:
        """Return the models of a snapshot as plain values."""
        return models

    @abstractmethod
    def models_from(self, values: Any, round: int) -> Any:
        """Return the models that ``packed_models`` has stored."""

    def packed(self, snapshot: Any) -> Any:
        """Return a snapshot, a graph and models, as plain values; the given graph need not be stored."""
        edges, models = snapshot
        return None if edges is self.given else edges, self.packed_models(models)

    def unpacked(self, values: Any, round: int) -> Any:
        """Return the snapshot that ``packed`` has stored."""
        edges, models = values
        if edges is None:
            return self.given, self.models_from(models, round)
        n = len(self.labels)
        if getattr(edges, "shape", None) != (n, n) or not sparse.issparse(edges):
            raise FedRelaxError("its graph has different nodes")
        if not (np.isfinite(edges.data).all() and (edges.data >= 0).all()):
            raise FedRelaxError("its graph has a weight that is negative, infinite or NaN")
        return edges, self.models_from(models, round)

    @property
    @abstractmethod
    def local_models(self) -> Mapping[Label, LocalModel]:
        """The current models."""

    @property
    @abstractmethod
    def alone_models(self) -> Mapping[Label, LocalModel]:
        """Every node's model trained on its own rows only."""


def of_shape(values: Any, shape: tuple[int, ...], what: str, finite: bool = True) -> FloatArray:
    """Return an array from a stored state, checked to have this shape."""
    if not isinstance(values, np.ndarray) or values.dtype != float or values.shape != shape:
        raise FedRelaxError(f"its {what} are not {' x '.join(map(str, shape))} numbers")
    if finite and not np.isfinite(values).all():
        raise FedRelaxError(f"its {what} have a NaN or infinite value")
    return values
