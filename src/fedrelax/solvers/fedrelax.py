"""FedRelax for any model: Algorithm 1 of the paper, and the symmetric variant."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedrelax.errors import FedRelaxError, FedRelaxWarning, listing
from fedrelax.losses import Loss, get_loss, requirement
from fedrelax.models import LocalModel, Task, adapt
from fedrelax.network import Network, Node
from fedrelax.public import DRAWS
from fedrelax.runtime import (
    Callback,
    Coupling,
    Distillation,
    LocalExchange,
    Site,
    SiteEngine,
    Stopping,
    Workers,
    run,
)
from fedrelax.solvers.base import Result, Solver
from fedrelax.solvers.checks import (
    check_choice,
    check_count,
    check_flag,
    check_rounds,
    check_running,
)
from fedrelax.solvers.edges import EdgeValues, kept_graph
from fedrelax.wiring import Wiring


@dataclass
class FedRelax(Solver):
    """Every round, each node refits its model to its own rows and its neighbours' predictions.

    Node i minimises  L_i(h) + alpha sum_j A_ij d(i, j),  with L_i the mean loss over its own rows
    and d(i, j) the mean discrepancy to the predictions of neighbour j on j's public rows.

    objective : "paper" (default) as above. Its fixed point is not the minimiser of GTVMin; with one
        common public set it is GTVMin at alpha / 2. "gtvmin" adds the terms d(j, i), in which node
        i is the neighbour, and so minimises  sum_i L_i + alpha sum_ij A_ij d(i, j)  itself.
    order : "simultaneous" as in the paper, or "sequential". Sequential exact updates of the
        symmetric objective never increase it.
    damping : share of the last message that stays in the next one, in [0, 1). It slows oscillation
        and does not move the fixed point.
    weighting : "mean" normalises by row counts as in the formula; "rows" weighs every own row 1 and
        every pseudo-row alpha A_ij, as the paper's tree experiment does.
    distillation : rows labelled by the node's own last model, for models without memory.
    continued : let models that can (warm start, partial_fit) train on instead of starting afresh.
    collapse : average the neighbours' answers on a common public set first, which is exact and
        makes the fit independent of the degree.
    first_exchange : "models", or "zeros" as the authors' public code does.
    wiring : a ``fedrelax.wiring`` that changes the graph between rounds; None keeps it.
    """

    alpha: float = 0.1
    loss: str | Loss | None = None
    discrepancy: str | Loss | None = None
    rounds: int = 20
    tol: float = 1e-4
    patience: int | None = None
    objective: str = "paper"
    order: str = "simultaneous"
    damping: float = 0.0
    weighting: str = "mean"
    distillation: Distillation | None = None
    continued: bool = False
    collapse: bool = True
    first_exchange: str = "models"
    wiring: Wiring | None = None
    n_jobs: int | None = None
    random_state: int | None = 0

    def check(self, network: Network) -> None:
        """Check settings, then every node's model against the pair of losses."""
        check_rounds(self, network)
        check_running(self)
        check_flag("collapse", self.collapse)
        if self.random_state is not None:
            check_count("random_state", self.random_state, least=0)
        if self.distillation is not None:
            check_count("distillation.rows", self.distillation.rows, least=1)
            check_choice("distillation.draw", self.distillation.draw, tuple(DRAWS))
        coupling = self.coupling(network)
        if coupling.symmetric and not coupling.discrepancy.symmetric:
            raise FedRelaxError(
                "objective='gtvmin' needs a symmetric discrepancy, and "
                f"{coupling.discrepancy.name!r} is not (a node would have to fit its own "
                "prediction as the target of the other); "
                "use discrepancy='squared' or objective='paper'"
            )
        self._check_models(network, coupling)

    def _check_models(self, network: Network, coupling: Coupling) -> None:
        task = network.task
        asked = self.loss is not None or self.discrepancy is not None
        needs_gradients = requirement(coupling.loss, coupling.discrepancy) == "gradients"
        resampled: dict[str, None] = {}
        seen: set[int] = set()
        for node in network:
            model = _adapt(node, task)
            if id(node.model) not in seen:
                seen.add(id(node.model))
                _check_rows(node, model)
            if needs_gradients and not model.gradients and self.alpha > 0:
                raise FedRelaxError(
                    f"node {node.label!r}: loss={coupling.loss.name!r} with "
                    f"discrepancy={coupling.discrepancy.name!r} needs a model that minimises a sum "
                    f"of two losses by gradients, and {model.name} fits weighted rows under one; "
                    "use one loss for both, or fedrelax.models.LinearModel"
                )
            if asked and model.fits is not None and coupling.loss.name not in model.fits:
                own = " or ".join(sorted(model.fits)) or "another loss"
                raise FedRelaxError(
                    f"node {node.label!r}: {model.name} as configured minimises {own}, not "
                    f"loss={coupling.loss.name!r}; configure the model for it, or choose another "
                    "model or loss"
                )
            if model.weights == "resampled":
                resampled[model.name] = None
        if resampled and self.alpha > 0:
            warnings.warn(
                f"{listing(resampled)} take no sample weights: their rows are resampled in "
                "proportion to the weights instead, with a fixed seed",
                FedRelaxWarning,
                stacklevel=4,
            )

    def losses(self, network: Network) -> tuple[Loss, Loss]:
        """Return the loss on own rows and the one across edges."""
        loss = get_loss(self.loss, network.kind)
        if self.discrepancy is None:
            return loss, loss
        return loss, get_loss(self.discrepancy, network.kind, "discrepancy")

    def coupling(self, network: Network) -> Coupling:
        """Return the settings as what a node needs to know of them."""
        loss, discrepancy = self.losses(network)
        return Coupling(
            alpha=float(self.alpha),
            loss=loss,
            discrepancy=discrepancy,
            symmetric=self.objective == "gtvmin",
            weighting=self.weighting,
            collapse=self.collapse,
            distillation=self.distillation,
            continued=self.continued,
            damping=float(self.damping),
        )

    def _solve(self, network: Network, callbacks: Sequence[Callback]) -> Result:
        coupling, graph = self.coupling(network), network.graph
        task, public = network.task, network.public
        seeds = np.random.SeedSequence(self.random_state).generate_state(len(network)) >> 1
        sites = [
            Site(
                node=node,
                task=task,
                model=_adapt(node, task),
                public=public,
                neighbours=graph.neighbours(node.label),
                coupling=coupling,
                seed=int(seed),
            )
            for node, seed in zip(network, seeds, strict=True)
        ]
        workers = Workers(self.n_jobs, threads=all(site.model.releases_gil for site in sites))
        with workers.open() as mapped:
            engine = SiteEngine(sites, LocalExchange(), mapped, self.order, self.first_exchange)
            stopping = Stopping(int(self.rounds), float(self.tol), self.patience)
            outcome = run(engine, stopping, callbacks, self.wiring)
            values = engine.discrepancies(engine.given)
        return Result(
            local_models={site.label: site.model for site in sites},
            alone=engine.alone,
            task=task,
            graph=graph,
            discrepancies=EdgeValues(graph, values),
            kept=kept_graph(graph, engine.edges, self.wiring),
            history=outcome.history,
            n_rounds=outcome.n_rounds,
            reason=outcome.reason,
            losses=(coupling.loss.name, coupling.discrepancy.name),
        )


def _adapt(node: Node, task: Task) -> LocalModel:
    try:
        return adapt(node.model, task)
    except FedRelaxError as error:
        raise FedRelaxError(f"node {node.label!r}: {error}") from None


def _check_rows(node: Node, model: LocalModel) -> None:
    try:
        model.check(node.X)
    except FedRelaxError as error:
        raise FedRelaxError(f"node {node.label!r}: {error}") from None
