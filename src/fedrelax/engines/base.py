"""Engines: ways to compute the rounds of Algorithm 1, each for the networks it supports."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from fedrelax.combining import Mean, as_combine
from fedrelax.errors import FedRelaxError
from fedrelax.losses import Loss
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

    What an engine supports is declared: ``task``, ``losses``, ``needs`` and ``common``; what depends on
    models and rows, ``unsupported_network`` says. Both are cheap. ``of`` refuses, with
    ``UnsupportedNetworkError``, what shows only once the arrays are built.
    """

    name: ClassVar[str]
    rank: ClassVar[int]
    """Engines are tried in this order: from the most specialised to the one for any models."""
    task: ClassVar[str | None] = None
    """The only task, if there is one."""
    losses: ClassVar[tuple[type[Loss], ...]] = (Loss,)
    """The losses that models may minimise, on own rows and across edges."""
    needs: ClassVar[Mapping[str, Any]] = {}
    """Settings that must have these values."""
    common: ClassVar[bool] = False
    """Whether all nodes must have one common set of public rows."""
    usual_rounds = 20
    """The maximum number of rounds if none is given."""
    few_rounds: ClassVar[int] = 4
    """The same where models learn their difference and do not settle: the first rounds teach most."""
    settles: ClassVar[bool] = False
    """Whether rounds are cheap and converge to one point from any start."""
    sends: ClassVar[bool] = False
    """Whether nodes exchange messages, so that layers of ``exchange=`` can act on them."""
    at_rest = False
    may_rest = True

    @classmethod
    def unsupported_reason(cls, network: Network, settings: Settings) -> str | None:
        """Return why this engine does not support the network, naming the node, or None."""
        reason = None if cls.sends else _reason_without_messages(settings)
        if reason is not None:
            return reason
        if cls.task not in (None, network.kind):
            return f"the task is {network.kind}"
        losses = settings.losses(network.kind)
        for name, loss in zip(("loss", "discrepancy"), losses, strict=True):
            if not isinstance(loss, cls.losses):
                return f"{name}={loss.name!r} is not {' or '.join(k.name for k in cls.losses)}"
        for name, value in cls.needs.items():
            if getattr(settings, name) != value:
                return f"it needs {name}={value!r}, not {getattr(settings, name)!r}"
        if cls.common and network.public.common is None:
            return "it needs one common set of public rows"
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


def _reason_without_messages(settings: Settings) -> str | None:
    """Return which setting needs nodes that send messages one by one, or None."""
    if settings.layers:
        return "it sends no messages for exchange= to act on"
    if not isinstance(as_combine(settings.combine), Mean):
        return f"it always takes the neighbours' mean, but combine={settings.combine!r} is given"
    if settings.update == "difference":
        return f"it fits one model at each node, and update={settings.update!r} fits two"
    return None


def of_shape(values: Any, shape: tuple[int, ...], what: str, finite: bool = True) -> FloatArray:
    """Return an array from a stored state, checked to have this shape."""
    if not isinstance(values, np.ndarray) or values.dtype != float or values.shape != shape:
        raise FedRelaxError(f"its {what} are not {' x '.join(map(str, shape))} numbers")
    if finite and not np.isfinite(values).all():
        raise FedRelaxError(f"its {what} have a NaN or infinite value")
    return values
