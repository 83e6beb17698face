"""The contract of an engine: a way to compute the rounds, for the networks that it serves."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy import sparse

from fedrelax.combining import Combine
from fedrelax.errors import FedRelaxError
from fedrelax.losses import Loss, get_loss
from fedrelax.models import LocalModel
from fedrelax.network import Network
from fedrelax.runtime import Distillation, Steps
from fedrelax.typing import FloatArray, Label
from fedrelax.wiring import Wiring


class Settings(Protocol):
    """What an engine reads of ``solvers.FedRelax``, where it is explained."""

    alpha: float
    loss: str | Loss | None
    discrepancy: str | Loss | None
    rounds: int | None
    tol: float | None
    patience: int | None
    objective: str
    order: str
    damping: float
    weighting: str
    level: float
    distillation: Distillation | None
    continued: bool
    collapse: bool
    first_exchange: str
    wiring: Wiring | None
    exchange: Any
    combine: str | Combine
    n_jobs: int | None
    random_state: int | None


class Unsuited(FedRelaxError):  # noqa: N818 - a reason, not a fault
    """An engine cannot serve this network, or not as exactly as the models themselves."""

    def __init__(self, engine: str, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"the {engine} engine does not apply: {reason}; use engine='auto' or engine='sites'"
        )


class Engine(Steps):
    """Holds the nodes of a network while the loop runs its rounds. All engines give the same result.

    ``refusal`` is asked first and is cheap. What only shows when the arrays are there is refused by
    ``of``, with ``Unsuited``.
    """

    name: ClassVar[str]
    rank: ClassVar[int]
    """Engines are asked in this order: from the most special to the one that serves any models."""
    usual_rounds: ClassVar[int] = 20
    """The most rounds where none are given."""
    settles: ClassVar[bool] = False
    """Whether rounds are cheap and lead to one point, wherever they start."""
    sends: ClassVar[bool] = False
    """Whether nodes meet through messages, so that something can stand around these."""
    at_rest = False
    may_rest = True

    @classmethod
    def refusal_of(cls, kind: str, models: Mapping[Label, Any], settings: Settings) -> str | None:
        """Return the part of ``refusal`` that can be told before there are rows.

        ``kind`` is "regression" or "classification", ``models`` the nodes' unfitted models. A model
        that many nodes share is looked at once.
        """
        return None

    @classmethod
    @abstractmethod
    def refusal(cls, network: Network, settings: Settings) -> str | None:
        """Return why this engine does not serve the network, naming the node, or None."""

    @classmethod
    @abstractmethod
    def of(cls, network: Network, settings: Settings) -> Engine:
        """Return an engine ready to run on a network that ``refusal`` has let pass."""

    def working(self) -> AbstractContextManager[None]:
        """Return a context in which rounds can run."""
        return nullcontext()

    # Stopping and going on: see ``runtime.keeping``

    def why_not_kept(self) -> str | None:
        """Return why a run could not go on from a checkpoint as if nothing had happened, or None."""
        return None

    @abstractmethod
    def state(self) -> Any:
        """Return as plain values what ``start`` cannot find again."""

    @abstractmethod
    def resume(self, state: Any, round: int) -> None:
        """Take back the state of a round, after ``start``."""

    def packed(self, snapshot: Any) -> Any:
        """Return a snapshot as plain values; most are."""
        edges, *rest = snapshot
        return (self.as_given(edges), *rest)

    def unpacked(self, values: Any, round: int) -> Any:
        """Return the snapshot of a round again."""
        edges, *rest = values
        return (self.edges_from(edges), *rest)

    def as_given(self, edges: Any) -> Any:
        """Return a graph, or None for the one that was given, which need not be kept."""
        return None if edges is self.given else edges

    def edges_from(self, kept: Any) -> Any:
        """Return the graph that ``as_given`` stands for."""
        if kept is None:
            return self.given
        n = len(self.labels)
        if getattr(kept, "shape", None) != (n, n) or not sparse.issparse(kept):
            raise FedRelaxError("its graph has other nodes")
        if not (np.isfinite(kept.data).all() and (kept.data >= 0).all()):
            raise FedRelaxError("its graph has weights that are none")
        return kept

    @property
    @abstractmethod
    def local_models(self) -> Mapping[Label, LocalModel]:
        """The present models."""

    @property
    @abstractmethod
    def alone_models(self) -> Mapping[Label, LocalModel]:
        """The models of nodes that were trained on their own rows only."""


def losses_of(settings: Settings, kind: str) -> tuple[Loss, Loss]:
    """Return the loss on own rows and the one across edges."""
    loss = get_loss(settings.loss, kind)
    if settings.discrepancy is None:
        return loss, loss
    return loss, get_loss(settings.discrepancy, kind, "discrepancy")


def reason_in_settings(settings: Settings, kind: str, served: str, loss: type[Loss]) -> str | None:
    """Return why an engine for one task under one loss does not serve these settings, or None."""
    if kind != served:
        return f"the task is {kind}"
    for name, found in zip(("loss", "discrepancy"), losses_of(settings, kind), strict=True):
        if not isinstance(found, loss):
            return f"{name}={found.name!r} is not {loss.name}"
    if settings.distillation is not None:
        return "distillation rows are drawn afresh in every round"
    return None


def of_shape(values: Any, shape: tuple[int, ...], what: str, finite: bool = True) -> FloatArray:
    """Return numbers of a kept state, which must have this shape."""
    if not isinstance(values, np.ndarray) or values.dtype != float or values.shape != shape:
        raise FedRelaxError(f"its {what} are not {' x '.join(map(str, shape))} numbers")
    if finite and not np.isfinite(values).all():
        raise FedRelaxError(f"its {what} hold what is no number")
    return values


def coupling_factor(settings: Settings) -> float:
    """Return the factor of GTV in what the rounds minimise: alpha, or half of it for the paper's."""
    return float(settings.alpha) * (1.0 if settings.objective == "gtvmin" else 0.5)
