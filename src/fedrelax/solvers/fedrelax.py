"""FedRelax for any model: Algorithm 1 of the paper, and the symmetric variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedrelax.combining import Combine, as_combine
from fedrelax.engines import NAMES, Engine, engine_for, losses_of, prepare
from fedrelax.errors import FedRelaxError
from fedrelax.losses import Loss, Weighted
from fedrelax.models import adapt
from fedrelax.network import Network
from fedrelax.public import DRAWS
from fedrelax.runtime import Distillation, Layer
from fedrelax.runtime.exchange import Promise, as_layers
from fedrelax.solvers.base import Solver
from fedrelax.solvers.checks import (
    check_choice,
    check_flag,
    check_rounds,
    check_running,
    check_weights,
)
from fedrelax.validation import check_count, check_number
from fedrelax.wiring import Wiring


@dataclass
class FedRelax(Solver):
    """Every round, each node refits its model to its own rows and its neighbours' predictions.

    Node i minimises  L_i(h) + alpha sum_j A_ij d(i, j),  with L_i the mean loss over its own rows
    and d(i, j) the mean discrepancy to the predictions of neighbour j on j's public rows.

    update : "refit" (default, the paper) fits one model to own rows and neighbours' answers. "difference"
        fits a model to the neighbours' mean answers and a second, smaller one to what that leaves open on
        own rows, which alpha pulls towards zero on public rows; the node's model is the sum. For classes,
        see ``models.class_difference``.
    loss, discrepancy : the loss on own rows and the one between neighbours' predictions, by name or as an
        object of ``fedrelax.losses``; the same for both unless given. ``losses.Weighted`` makes the latter
        depend on x.
    objective : "paper" (default) as above. Its fixed point is not the minimiser of GTVMin; with one
        common public set it is GTVMin at alpha / 2. "gtvmin" adds the terms d(j, i), in which node
        i is the neighbour, and so minimises  sum_i L_i + alpha sum_ij A_ij d(i, j)  itself.
    order : "simultaneous" as in the paper, "sequential" or "asynchronous". Sequential exact updates of the
        symmetric objective never increase it. In asynchronous order there are no common rounds: nodes
        wake up at random (by ``random_state``), each takes the newest answers, refits and tells. As many
        wake as there are nodes, some twice and some not, count as a round; all rounds are run.
    damping : share of the last message that stays in the next one, in [0, 1). It slows oscillation
        and does not move the fixed point. Where ``exchange`` loses or delays messages, trees and other
        models that do not settle take 0.999 for 0, so that their first answers arrive before they change.
    weighting : "mean" normalises by row counts as in the formula; "rows" weighs every own row 1 and
        every pseudo-row alpha A_ij, as the paper's tree experiment does.
    level : share of the pull that also holds for the level, in [0, 1]. 1 is the paper's: level and shape
        are coupled alike. 0 leaves every node its own level and lets it learn only the shape; see
        ``runtime.site``. All engines have the same fixed point; on the way there the linear one, which
        knows the level in closed form, takes a longer step in a round.
    distillation : rows labelled by the node's own last model, for models without memory.
    continued : let models that can (warm start, partial_fit) train on instead of starting afresh.
    collapse : average the neighbours' answers on a common public set first, which is exact and
        makes the fit independent of the degree.
    first_exchange : "models", or "zeros" as the authors' public code does.
    rounds : the most rounds; None runs until predictions rest. Where the models are linear and nothing
        is asked for on the way (no wiring, patience or damping), that goes straight to the fixed point,
        in far fewer rounds; the history then holds round 0 and the last.
    tol : the change of predictions from round to round, relative to their size, that counts as rest;
        default 1e-4. On the straight way: the relative residual of the fixed point; default 1e-8.
    wiring : a ``fedrelax.wiring`` that changes the graph between rounds; None keeps it.
    exchange : what stands around the exchange of messages: a layer of ``fedrelax.privacy``,
        ``fedrelax.faults`` or ``fedrelax.attacks``, or a list of them, the first nearest to the sender.
    combine : how a node takes its neighbours' answers: as their "mean", or so that a minority of liars
        cannot pull it away: "median", "trimmed", "clipped", "huber", or a ``fedrelax.combining`` object.
    engine : "auto" takes the first that serves the network of "linear" (least squares), "softmax"
        (``SoftmaxModel``) and "trees" (trees and forests), both on one common public set, all three of
        which compute all nodes at once, and "sites" (any models, node by node). A name takes that one or
        says why not. The result is the same.
    """

    alpha: float = 0.1
    update: str = "refit"
    loss: str | Loss | None = None
    discrepancy: str | Loss | None = None
    rounds: int | None = None
    tol: float | None = None
    patience: int | None = None
    objective: str = "paper"
    order: str = "simultaneous"
    damping: float = 0.0
    weighting: str = "mean"
    level: float = 1.0
    distillation: Distillation | None = None
    continued: bool = False
    collapse: bool = True
    first_exchange: str = "models"
    wiring: Wiring | None = None
    exchange: Layer | Sequence[Layer] | None = None
    combine: str | Combine = "mean"
    engine: str = "auto"
    n_jobs: int | None = None
    random_state: int | None = 0

    def check(self, network: Network) -> None:
        """Check the settings."""
        check_choice("engine", self.engine, NAMES)
        check_choice("update", self.update, ("refit", "difference"))
        if self.update == "difference" and (self.continued or self.distillation is not None):
            raise FedRelaxError(
                "update='difference' fits both parts of a model afresh in every round; leave out continued "
                "and distillation, or use update='refit'"
            )
        check_rounds(self, network)
        check_number("damping", self.damping, least=0.0, below=1.0)
        check_choice("order", self.order, ("simultaneous", "sequential", "asynchronous"))
        check_running(self)
        check_number("level", self.level, least=0.0)
        if self.level > 1:
            raise FedRelaxError(f"level={self.level!r} must be a share, from 0 to 1")
        check_flag("collapse", self.collapse)
        as_combine(self.combine)
        for layer in as_layers(self.exchange):
            layer.check(network, self)
        if self.distillation is not None:
            check_count("distillation.rows", self.distillation.rows, least=1)
            check_choice("distillation.draw", self.distillation.draw, tuple(DRAWS))
        _, discrepancy = self.losses(network)
        if isinstance(discrepancy, Weighted):
            check_weights(discrepancy, network)
            if self.level != 1:
                raise FedRelaxError(
                    f"level={self.level!r} separates level and shape over all public rows alike, and "
                    f"discrepancy={discrepancy!r} weighs them; use level=1"
                )
        if self.objective == "gtvmin" and not discrepancy.symmetric:
            raise FedRelaxError(
                f"objective='gtvmin' needs a symmetric discrepancy, and {discrepancy.name!r} is not "
                "(a node would have to fit its own prediction as the target of the other); use "
                "discrepancy='squared' or objective='paper'"
            )

    def prepare(self, network: Network) -> Engine:
        """Return the engine of the given name, or the first that serves this network."""
        return prepare(self.engine, network, self)

    def losses(self, network: Network) -> tuple[Loss, Loss]:
        """Return the loss on own rows and the one across edges."""
        return losses_of(self, network.kind)

    def around(self, network: Network) -> tuple[str, ...]:
        """Return what stands around the exchange, a sentence each."""
        return tuple(layer.describe(network, self) for layer in as_layers(self.exchange))

    def promises(self, network: Network) -> tuple[Promise, ...]:
        """Return the privacy that the layers promise to every node."""
        found = (layer.promise(network, self) for layer in as_layers(self.exchange))
        return tuple(promise for promise in found if promise is not None)

    def settles(self, network: Network) -> bool:
        """Tell whether rounds are cheap and lead to one point, wherever they start."""
        return engine_for(self.engine, network, self).settles

    def rounds_for(self, network: Network) -> int:
        """Return the most rounds: as given, or as many as suit the models."""
        if self.rounds is not None:
            return self.rounds
        kind = engine_for(self.engine, network, self)
        models = network.distinct_models.values()
        if self.update == "refit" or all(adapt(model, network.task).settles for model in models):
            return kind.usual_rounds
        return kind.few_rounds
