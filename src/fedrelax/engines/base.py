"""The interface of an engine: a way to compute the rounds, for the networks it supports."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from fedrelax.errors import FedRelaxError
from fedrelax.losses import Loss, get_loss
from fedrelax.models import LocalModel
from fedrelax.network import Network
from fedrelax.runtime import Settings as Settings
from fedrelax.runtime import Steps
from fedrelax.typing import FloatArray, Label, SparseMatrix


class Unsuited(FedRelaxError):  # noqa: N818 - a reason, not a fault
    """An engine does not support this network, or not as exactly as the models themselves would."""

    def __init__(self, engine: str, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"the {engine} engine does not apply: {reason}; use engine='auto' or engine='sites'"
        )


class Engine(Steps):
    """Holds the nodes of a network while the loop runs its rounds. All engines give the same result.

    ``refusal`` is called first and is cheap. ``of`` refuses, with ``Unsuited``, what shows only once the
    arrays are built.
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
    sends: ClassVar[bool] = False
    """Whether nodes exchange messages, so that layers of ``exchange=`` can act on them."""
    at_rest = False
    may_rest = True

    @classmethod
    @abstractmethod
    def refusal(cls, network: Network, settings: Settings) -> str | None:
        """Return why this engine does not support the network, naming the node, or None."""

    @classmethod
    @abstractmethod
    def of(cls, network: Network, settings: Settings) -> Engine:
        """Return an engine ready to run on a network that ``refusal`` has accepted."""

    def working(self) -> AbstractContextManager[None]:
        """Return a context in which rounds can run."""
        return nullcontext()

    # Checkpoints: see ``runtime.callbacks``

    def why_not_kept(self) -> str | None:
        """Return why a run could not resume from a checkpoint with the same result, or None."""
        return None

    @abstractmethod
    def state(self) -> Any:
        """Return, as plain values, what ``start`` cannot recompute."""

    @abstractmethod
    def resume(self, state: Any, round: int) -> None:
        """Restore the state of a round, after ``start``."""

    def packed(self, snapshot: Any) -> Any:
        """Return a snapshot as plain values."""
        edges, *rest = snapshot
        return (self.as_given(edges), *rest)

    def unpacked(self, values: Any, round: int) -> Any:
        """Return the snapshot that ``packed`` has stored."""
        edges, *rest = values
        return (self.edges_from(edges), *rest)

    def as_given(self, edges: SparseMatrix) -> Any:
        """Return a graph, or None for the given one, which need not be stored."""
        return None if edges is self.given else edges

    def edges_from(self, kept: Any) -> SparseMatrix:
        """Return the graph that ``as_given`` has stored."""
        if kept is None:
            return self.given
        n = len(self.labels)
        if getattr(kept, "shape", None) != (n, n) or not sparse.issparse(kept):
            raise FedRelaxError("its graph has different nodes")
        if not (np.isfinite(kept.data).all() and (kept.data >= 0).all()):
            raise FedRelaxError("its graph has a weight that is negative, infinite or NaN")
        return kept

    @property
    @abstractmethod
    def local_models(self) -> Mapping[Label, LocalModel]:
        """The current models."""

    @property
    @abstractmethod
    def alone_models(self) -> Mapping[Label, LocalModel]:
        """Every node's model trained on its own rows only."""


def losses_of(settings: Settings, kind: str) -> tuple[Loss, Loss]:
    """Return the loss on own rows and the loss across edges."""
    loss = get_loss(settings.loss, kind)
    if settings.discrepancy is None:
        return loss, loss
    return loss, get_loss(settings.discrepancy, kind, "discrepancy")


def reason_in_settings(settings: Settings, kind: str, served: str, loss: type[Loss]) -> str | None:
    """Return why an engine for one task and one loss does not support these settings, or None."""
    if kind != served:
        return f"the task is {kind}"
    for name, found in zip(("loss", "discrepancy"), losses_of(settings, kind), strict=True):
        if not isinstance(found, loss):
            return f"{name}={found.name!r} is not {loss.name}"
    if settings.distillation is not None:
        return "distillation draws new rows in every round"
    return None


def of_shape(values: Any, shape: tuple[int, ...], what: str, finite: bool = True) -> FloatArray:
    """Return an array from a stored state, checked to have this shape."""
    if not isinstance(values, np.ndarray) or values.dtype != float or values.shape != shape:
        raise FedRelaxError(f"its {what} are not {' x '.join(map(str, shape))} numbers")
    if finite and not np.isfinite(values).all():
        raise FedRelaxError(f"its {what} have a NaN or infinite value")
    return values


def coupling_factor(settings: Settings) -> float:
    """Return the factor of GTV in the objective: alpha, or alpha / 2 for the paper's objective."""
    return float(settings.alpha) * (1.0 if settings.objective == "gtvmin" else 0.5)
