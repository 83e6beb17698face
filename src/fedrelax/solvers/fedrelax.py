"""FedRelax for any model: Algorithm 1 of the paper, and the symmetric variant."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

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
from fedrelax.solvers.checks import check_choice, check_count, check_rounds
from fedrelax.solvers.edges import EdgeValues, kept_graph
from fedrelax.wiring import Wiring

FEW_ROUNDS, MANY_ROUNDS = 20, 200
"""The most rounds where none are given: of any models, and of linear ones, which are cheap."""


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
    rounds : the most of them. Default: 20, and 200 for linear least squares, where a round costs next
        to nothing.
    engine : "auto" computes all nodes at once where every model is linear least squares, or a
        ``SoftmaxModel`` on one common public set, and node by node otherwise ("general"); "linear"
        refuses the otherwise. The result is the same.
    """

    alpha: float = 0.1
    loss: str | Loss | None = None
    discrepancy: str | Loss | None = None
    rounds: int | None = None
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
    engine: str = "auto"
    n_jobs: int | None = None
    random_state: int | None = 0

    def solve(self, network: Network, callbacks: Sequence[Callback] = ()) -> Result:
        """Train the network by the engine that was asked for, or the fastest that serves it."""
        from fedrelax.solvers.choice import solve_by_engine

        network.check()
        definite = replace(self, rounds=self.rounds_for(network))
        return solve_by_engine(self.engine, definite, network, callbacks)

    def solve_by_sites(self, network: Network, callbacks: Sequence[Callback] = ()) -> Result:
        """Train the network node by node."""
        return super().solve(network, callbacks)

    def settles(self, network: Network) -> bool:
        """Tell whether rounds are cheap and lead to one point: all models are linear least squares."""
        from fedrelax.solvers.choice import is_linear

        return self.engine != "general" and is_linear(network, self)

    def rounds_for(self, network: Network) -> int:
        """Return the most rounds: as given, or as many as suit the models."""
        if self.rounds is not None:
            return self.rounds
        return MANY_ROUNDS if self.settles(network) else FEW_ROUNDS

    def check(self, network: Network) -> None:
        """Check settings, then every node's model against the pair of losses."""
        check_rounds(self, network)
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
            stopping = Stopping(self.rounds_for(network), float(self.tol), self.patience)
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
