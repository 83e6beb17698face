"""The settings of a run: their names, defaults, meaning and checks, in this file only."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

import numpy as np

from fedrelax.combining import WAYS, Combine, Mean, as_combine
from fedrelax.errors import FedRelaxError
from fedrelax.linear.fixed_point import System
from fedrelax.losses import LOSSES, Loss, Squared, Weighted, get_loss
from fedrelax.network import Network
from fedrelax.public import DRAWS
from fedrelax.runtime.exchange import Layer, as_layers
from fedrelax.runtime.workers import check_jobs
from fedrelax.validation import check_choice, check_count, check_flag, check_number
from fedrelax.wiring import Wiring


@dataclass(frozen=True)
class Distillation:
    """The paper's memory for models that forget: rows labelled by the node's own last model.

    ``rows`` inputs are drawn afresh every round (``draw``: a way of ``fedrelax.public``, from the
    moments of the node's public rows; the paper's is "standard") and join with weight 1 each.
    """

    rows: int = 100
    draw: str = "gaussian"


@dataclass(frozen=True)
class RoundSettings:
    """What ``FedRelax`` and ``GradientFedRelax`` have in common.

    alpha : how much neighbours count.
    rounds : the most rounds; None runs until predictions rest. Where the models are linear and nothing
        is asked for on the way (no wiring, patience or damping), that goes straight to the fixed point,
        in far fewer rounds; the history then holds round 0 and the last.
    tol : the change of predictions from round to round, relative to their size, that counts as rest;
        default 1e-4. On the straight way: the relative residual of the fixed point; default 1e-8.
    patience : stop after so many rounds without a lower validation loss, and return the best round.
    objective : "paper" (default) as above. Its fixed point is not the minimiser of GTVMin; with one
        common public set it is GTVMin at alpha / 2. "gtvmin" adds the terms d(j, i), in which node
        i is the neighbour, and so minimises  sum_i L_i + alpha sum_ij A_ij d(i, j)  itself.
    weighting : "mean" normalises by row counts as in the formula; "rows" weighs every own row 1 and
        every pseudo-row alpha A_ij, as the paper's tree experiment does.
    first_exchange : "models", or "zeros" as the authors' public code does.
    wiring : a ``fedrelax.wiring`` that changes the graph between rounds; None keeps it.
    """

    alpha: float = 0.1
    rounds: int | None = None
    tol: float | None = None
    patience: int | None = None
    objective: str = "paper"
    weighting: str = "mean"
    first_exchange: str = "models"
    wiring: Wiring | None = None
    random_state: int | None = 0

    @property
    def symmetric(self) -> bool:
        """Whether a node's problem also has the terms in which it is the neighbour."""
        return self.objective == "gtvmin"

    @property
    def system(self) -> System:
        """The linear system whose solution is the fixed point."""
        return "symmetric" if self.symmetric else "paper"

    @property
    def factor(self) -> float:
        """The factor of GTV in the objective: alpha, or alpha / 2 for the paper's objective."""
        return self.alpha * (1.0 if self.symmetric else 0.5)

    def check_values(self) -> None:
        """Refuse values that no network could be trained with."""
        check_number("alpha", self.alpha, least=0.0)
        for name, least in (("rounds", 0), ("patience", 1), ("random_state", 0)):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), least)
        if self.tol is not None:
            check_number("tol", self.tol, least=0.0)
        check_choice("objective", self.objective, ("paper", "gtvmin"))
        check_choice("weighting", self.weighting, ("mean", "rows"))
        check_choice("first_exchange", self.first_exchange, ("models", "zeros"))
        if self.wiring is not None:
            if not isinstance(self.wiring, Wiring):
                raise FedRelaxError(
                    f"wiring={self.wiring!r} must be None or a fedrelax.wiring object"
                )
            self.wiring.check()

    def check(self, network: Network) -> None:
        """Refuse settings that make no sense, or not with this network."""
        self.check_values()
        if self.wiring is not None and self.wiring.needs_common and network.public.common is None:
            raise FedRelaxError(
                f"wiring={self.wiring.name!r} may join any two nodes, so it needs one common set "
                "of public rows, and here every node has its own; pass one array as public"
            )
        if self.patience is not None and network.validation_rows is None:
            raise FedRelaxError(
                f"patience={self.patience} needs validation rows, and no node has any"
            )


@dataclass(frozen=True)
class Settings(RoundSettings):
    """The settings of ``FedRelax``.

    update : "refit" (the paper) fits one model to own rows and neighbours' answers. "difference" fits a
        model to the neighbours' mean answers and a second, smaller one to what that leaves open on own
        rows, which alpha pulls towards zero on public rows; the node's model is the sum. For classes, see
        ``models.class_difference``. "auto" (default) is "refit", unless alpha is chosen by an estimator or
        a hub: see ``selection.candidates.update_for``.
    loss, discrepancy : the loss on own rows and the one between neighbours' predictions, by name or as an
        object of ``fedrelax.losses``; the same for both unless given. ``losses.Weighted`` makes the latter
        depend on x.
    order : "simultaneous" as in the paper, "sequential" or "asynchronous". Sequential exact updates of the
        symmetric objective never increase it. In asynchronous order there are no common rounds: nodes
        wake up at random (by ``random_state``), each takes the newest answers, refits and tells. As many
        wake as there are nodes, some twice and some not, count as a round; all rounds are run.
    damping : share of the last message that stays in the next one, in [0, 1). It slows oscillation
        and does not move the fixed point. Where ``exchange`` loses or delays messages, trees and other
        models that do not settle take 0.999 for 0, so that their first answers arrive before they change.
    level : share of the pull that also holds for the level, in [0, 1]. 1 is the paper's: level and shape
        are coupled alike. 0 leaves every node its own level and lets it learn only the shape; see
        ``runtime.site``. All engines have the same fixed point; on the way there the linear one, which
        knows the level in closed form, takes a longer step in a round.
    distillation : rows labelled by the node's own last model, for models without memory.
    continued : let models that can (warm start, partial_fit) train on instead of starting afresh.
    collapse : average the neighbours' answers on a common public set first, which is exact and
        makes the fit independent of the degree.
    exchange : what stands around the exchange of messages: a layer of ``fedrelax.privacy``,
        ``fedrelax.faults`` or ``fedrelax.attacks``, or a list of them, the first nearest to the sender.
    combine : how a node takes its neighbours' answers: as their "mean", or so that a minority of liars
        cannot pull it away: "median", "trimmed", "clipped", "huber", or a ``fedrelax.combining`` object.
    engine : "auto" takes the first that serves the network of "linear" (least squares) and "softmax"
        (``SoftmaxModel``, on one common public set), which compute all nodes at once, and "sites" (any
        models). A name takes that one or says why not. The result is the same.
    """

    update: str = "auto"
    loss: str | Loss | None = None
    discrepancy: str | Loss | None = None
    order: str = "simultaneous"
    damping: float = 0.0
    level: float = 1.0
    distillation: Distillation | None = None
    continued: bool = False
    collapse: bool = True
    exchange: Layer | Sequence[Layer] | None = None
    combine: str | Combine = "mean"
    engine: str = "auto"
    n_jobs: int | None = None

    @property
    def layers(self) -> tuple[Layer, ...]:
        """What stands around the exchange."""
        return as_layers(self.exchange)

    def losses(self, kind: str) -> tuple[Loss, Loss]:
        """Return the loss on own rows and the loss across edges, for a kind of task."""
        loss = get_loss(self.loss, kind)
        if self.discrepancy is None:
            return loss, loss
        return loss, get_loss(self.discrepancy, kind, "discrepancy")

    def coupling(self, kind: str) -> Coupling:
        """Return these settings as a node uses them, with the objects that names stand for."""
        loss, discrepancy = self.losses(kind)
        given = {f.name: getattr(self, f.name) for f in fields(Settings)}
        made = {"loss": loss, "discrepancy": discrepancy, "combine": as_combine(self.combine)}
        return Coupling(**given | made)

    def check_values(self) -> None:
        """Refuse values that no network could be trained with."""
        super().check_values()
        check_choice("update", self.update, ("auto", "refit", "difference"))
        if self.update == "difference" and (self.continued or self.distillation is not None):
            raise FedRelaxError(
                "update='difference' fits both parts of a model afresh in every round; leave out continued "
                "and distillation, or use update='refit'"
            )
        check_number("damping", self.damping, least=0.0, below=1.0)
        check_choice("order", self.order, ("simultaneous", "sequential", "asynchronous"))
        check_number("level", self.level, least=0.0)
        if self.level > 1:
            raise FedRelaxError(f"level={self.level!r} must be a share, from 0 to 1")
        check_jobs(self.n_jobs)
        check_flag("continued", self.continued)
        check_flag("collapse", self.collapse)
        as_combine(self.combine)
        if self.distillation is not None:
            if not isinstance(self.distillation, Distillation):
                raise FedRelaxError(
                    f"distillation={self.distillation!r} must be None or a "
                    "fedrelax.runtime.Distillation"
                )
            check_count("distillation.rows", self.distillation.rows, least=1)
            check_choice("distillation.draw", self.distillation.draw, tuple(DRAWS))

    def check(self, network: Network) -> None:
        """Refuse settings that make no sense, or not with this network."""
        super().check(network)
        for layer in self.layers:
            layer.check(network, self)
        _, discrepancy = self.losses(network.kind)
        if isinstance(discrepancy, Weighted):
            # Weights that are none are refused before any work is done.
            public = network.public
            for label in network.labels if public.common is None else network.labels[:1]:
                try:
                    discrepancy.weights(public.of(label))
                except FedRelaxError as error:
                    who = "" if public.common is not None else f"public rows of node {label!r}: "
                    raise FedRelaxError(f"{who}{error}") from None
            if self.level != 1:
                raise FedRelaxError(
                    f"level={self.level!r} separates level and shape over all public rows alike, and "
                    f"discrepancy={discrepancy!r} weighs them; use level=1"
                )
        if self.symmetric and not discrepancy.symmetric:
            raise FedRelaxError(
                f"objective='gtvmin' needs a symmetric discrepancy, and {discrepancy.name!r} is not "
                "(a node would have to fit its own prediction as the target of the other); use "
                "discrepancy='squared' or objective='paper'"
            )

    # As plain values, for a file or a letter

    def to_plain(self, without: Collection[str] = ()) -> dict[str, Any]:
        """Return the settings as plain values; refuse objects with settings of their own."""
        values: dict[str, Any] = {}
        for name in (f.name for f in fields(Settings) if f.name not in without):
            value = getattr(self, name)
            if isinstance(value, Combine | Loss):
                usual = (WAYS if isinstance(value, Combine) else LOSSES).get(value.name)
                if usual is None or value != usual():
                    raise FedRelaxError(
                        f"{name}={value!r}: sites and files are given only a name, without settings; "
                        f"give {name}={value.name!r}"
                    )
                value = value.name
            elif isinstance(value, Distillation):
                value = asdict(value)
            values[name] = value.item() if isinstance(value, np.generic) else value
        return values

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> Self:
        """Return settings from plain values, checked."""
        values = dict(values)
        try:
            if values.get("distillation") is not None:
                values["distillation"] = Distillation(**values["distillation"])
            settings = cls(**values)
        except TypeError as error:  # a name that is unknown, or a value that is no table
            raise FedRelaxError(f"a setting cannot be used: {error}") from None
        settings.check_values()
        return settings


@dataclass(frozen=True)
class Coupling(Settings):
    """The settings as a node uses them: with objects where names may be given."""

    loss: Loss = field(default_factory=Squared)
    discrepancy: Loss = field(default_factory=Squared)
    combine: Combine = field(default_factory=Mean)
