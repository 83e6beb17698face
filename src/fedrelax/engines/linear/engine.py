"""The engine for networks of least-squares models: arrays over all nodes instead of sites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from fedrelax.engines.answers import learners_of
from fedrelax.engines.base import UnsupportedNetworkError
from fedrelax.engines.batch import BatchEngine
from fedrelax.engines.linear.checks import check_safe, unsupported_models, unsupported_rows
from fedrelax.engines.linear.measures import Prepared, Variation
from fedrelax.engines.linear.network import Coordinates, LinearNetwork
from fedrelax.errors import FedRelaxError
from fedrelax.linear.fixed_point import System, solve_fixed_point
from fedrelax.linear.memory import Method, estimate_bytes, require_memory
from fedrelax.losses import Squared
from fedrelax.models import LocalModel
from fedrelax.network import Network
from fedrelax.network.rows import entries_in_order
from fedrelax.runtime import Coupling, NodeMeasures, Settings
from fedrelax.typing import FloatArray, Label, SparseMatrix

RESIDUAL = 1e-8
"""``|b - K w| / |b|`` at which a run without a number of rounds has converged, unless ``tol`` is given."""
MOST_ROUNDS = 2000
"""The most accelerated rounds before a run gives up."""


class ArrayEngine(BatchEngine):
    """Models W (n, d, q): what all engines for linear models share.

    A node's message is its model, because predictions on public rows are linear in it; what is measured
    on public rows is measured by their Gram matrices.
    """

    task, losses, needs = "regression", (Squared,), {"distillation": None}

    def __init__(
        self, prepared: Prepared, start: FloatArray, coupling: Coupling, first_exchange: str
    ) -> None:
        network = prepared.network
        self._prepared, self.models, self.alone = prepared, start, prepared.alone
        self._on_given = Variation(prepared.problem, prepared.public_rows)
        held = prepared.validation
        self.validation_rows = np.zeros(len(start)) if held is None else held.counts
        edges = prepared.problem.adjacency if network.order is None else network.graph.adjacency
        super().__init__(network.labels, edges, coupling, first_exchange)

    @classmethod
    def unsupported_network(cls, network: Network, settings: Settings) -> str | None:
        """Support models that minimise squared error exactly, on rows of features."""
        return unsupported_models(network.distinct_models) or unsupported_rows(network)

    @classmethod
    def prepared(
        cls,
        network: Network,
        settings: Any,
        *,
        level: float = 1.0,
        straight: bool = False,
        local: bool = False,
    ) -> Prepared:
        """Return the network in standardised coordinates, if it fits into memory."""
        stacked = LinearNetwork.of(network)
        _check_memory(stacked, system_of(settings), straight)
        if local:
            stacked = stacked.in_local_order()
        coordinates = Coordinates.standard(stacked.own.X, stacked.intercept)
        return Prepared(stacked, coordinates, settings.weighting, level)

    def answers_of(self, models: FloatArray) -> FloatArray:
        """Return the models themselves."""
        return models

    def measure(self) -> NodeMeasures:
        """Return the measures of the current models, in the given order of nodes."""
        measures = super().measure()
        ordered = self._prepared.network.in_given_order
        return NodeMeasures(*(ordered(getattr(measures, f.name)) for f in fields(measures)))

    def mean_squares(self, values: FloatArray) -> FloatArray:
        """Return the mean squared predictions on every node's public rows."""
        return np.asarray(self._variation.own(values) / values.shape[2])

    def mean_losses(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean squared errors on own rows and on validation rows."""
        validation = self._prepared.validation
        held = (
            np.full(len(self.models), np.nan)
            if validation is None
            else validation.losses(self.models)
        )
        return self._prepared.own_losses(self.models), held

    def variations(self) -> tuple[FloatArray, FloatArray]:
        """Return each node's part of GTV, and the coupling term of its objective without alpha."""
        gtv = self._variation.nodes(self.models, self.sent)
        if self.coupling.weighting == "mean":
            return gtv, gtv
        edges = self._variation.problem.adjacency
        learner = learners_of(edges)
        counts = self._prepared.network.counts
        share = self._prepared.public_rows[edges.indices] / counts[learner]
        terms = edges.data * share * self._variation.edges(self.models, self.sent)
        return gtv, np.asarray(np.bincount(learner, terms, len(gtv)), dtype=np.float64)

    def rewire(self, edges: SparseMatrix) -> None:
        """Continue on another graph."""
        super().rewire(edges)
        self._variation = self._variation_on(edges)

    def _variation_on(self, edges: SparseMatrix) -> Variation:
        if edges is self.given:
            return self._on_given
        return Variation(self._prepared.problem.on(edges), self._prepared.public_rows)

    def embedding(self) -> FloatArray:
        """Return every node's message as a row whose squared distances are mean squared differences."""
        return self._variation.embedding(self.sent)

    def own_losses(self, edges: SparseMatrix) -> FloatArray:
        """Return node i's loss on its own rows under neighbour j's model.

        Answers on public rows determine a linear model, so i can tell what j would predict on its rows.
        """
        return self._prepared.losses_of_others(edges, self.sent)

    def discrepancies(self, edges: SparseMatrix) -> FloatArray:
        """Return d(i, j) for every stored entry of a CSR matrix, in its order."""
        variation, network = self._variation_on(edges), self._prepared.network
        values = variation.edges(self.models, self.sent)
        if network.order is None:
            return values
        return values[entries_in_order(variation.problem.adjacency.indptr, network.place)[0]]

    # Checkpoints hold nodes in the given order.

    def state(self) -> dict[str, Any]:
        """Return models, messages and the graph."""
        ordered = self._prepared.network.in_given_order
        return {
            **super().state(),
            "messages": ordered(self.sent),
            "moved": ordered(self._moved),
        }

    def resume(self, state: Any, round: int) -> None:
        """Restore models, messages and the graph."""
        super().resume(state, round)
        ordered = self._prepared.network.from_given_order
        self.messages, self._moved = ordered(self.sent), ordered(self._moved)

    def packed_models(self, models: FloatArray) -> FloatArray:
        """Return the models, one array."""
        return self._prepared.network.in_given_order(models)

    def models_from(self, values: Any, round: int) -> FloatArray:
        """Return the models, one array."""
        return self._prepared.network.from_given_order(super().models_from(values, round))

    @property
    def weights(self) -> FloatArray:
        """The current models (n, d, q) in the user's features, the intercept last."""
        prepared = self._prepared
        return prepared.network.in_given_order(prepared.coordinates.back(self.models))

    def plain_models(self, models: FloatArray) -> Mapping[Label, LocalModel]:
        """Return models in the user's features, made on demand."""
        return self._prepared.network.fitted(self._prepared.coordinates.back(models))


class LinearEngine(ArrayEngine):
    """``w_i <- (H_i + R_i + alpha S_i)^-1 (b_i + alpha sum_j A_ij Q_j v_j)`` for all nodes.

    Where only the fixed point matters, one update goes there, by conjugate gradients or an accelerated
    iteration.
    """

    name, rank = "linear", 1
    usual_rounds, settles = 200, True

    def __init__(self, network: Network, settings: Settings) -> None:
        self._settings, self._straight = settings, goes_straight(settings)
        if self._straight:
            self.usual_rounds = MOST_ROUNDS
        prepared = self.prepared(
            network,
            settings,
            level=float(settings.level),
            straight=self._straight,
            local=settings.wiring is None and settings.order == "simultaneous",
        )
        alpha, system = float(settings.alpha), system_of(settings)
        self.exact = prepared.exact(alpha, system, fused=self._straight)
        check_safe(prepared, self.exact)
        coupling = settings.coupling("regression")
        super().__init__(prepared, prepared.alone, coupling, settings.first_exchange)

    @classmethod
    def unsupported_network(cls, network: Network, settings: Settings) -> str | None:
        """Support a level only on one common set of public rows."""
        if settings.level < 1 and network.public.common is None:
            return f"level={settings.level!r} needs one common set of public rows"
        return super().unsupported_network(network, settings)

    @classmethod
    def of(cls, network: Network, settings: Settings) -> LinearEngine:
        """Form and invert the nodes' matrices; refuse what would lose digits or not fit into memory."""
        return cls(network, settings)

    def rewire(self, edges: SparseMatrix) -> None:
        """Continue on another graph, with new inverses."""
        super().rewire(edges)
        local = self._prepared.network.order is not None  # then the graph never changes
        if not local and edges is not self.exact.problem.adjacency:
            self.exact = self.exact.on(edges)

    def refit(self) -> FloatArray:
        """Return the argmin at every node, all at once or one after the other."""
        exact, sent = self.exact, self.sent
        if self.coupling.alpha == 0:
            return self.alone
        if self._settings.order == "sequential":
            return exact.in_turn(sent, self.coupling.damping)[0]
        return exact.after(sent)

    def update(self, round: int) -> int:
        """Refit all nodes, or solve to a relative residual of ``tol`` from the messages of round 0.

        Where the rows of all nodes together leave weights undetermined, the fixed point depends on the
        start; these methods keep the same part of the start as plain rounds do.
        """
        if not self._straight:
            return super().update(round)
        if self.coupling.alpha == 0:
            self.at_rest = True
            return 1
        tol = RESIDUAL if self._settings.tol is None else float(self._settings.tol)
        solution = solve_fixed_point(self.exact, self.sent, tol=tol, max_rounds=MOST_ROUNDS)
        self.models, self.at_rest = solution.models, solution.converged
        return solution.rounds


def goes_straight(settings: Settings) -> bool:
    """Tell whether only the fixed point matters: no number of rounds, nothing to do on the way."""
    return (
        settings.rounds is None
        and settings.wiring is None
        and settings.patience is None
        and not settings.damping
        and settings.order == "simultaneous"
        and (settings.tol is None or settings.tol > 0)
    )


def system_of(settings: Any) -> System:
    """Return the system whose solution is the fixed point."""
    return "symmetric" if settings.objective == "gtvmin" else "paper"


def _check_memory(network: LinearNetwork, system: System, straight: bool) -> None:
    """Refuse a problem that does not fit into memory before any of it is built."""
    n, d, q = len(network.labels), network.n_weights, network.task.n_outputs
    common = network.public_offsets is None
    method: Method = "rounds"
    if straight:
        method = "conjugate" if common or system == "symmetric" else "accelerated"
    needed = estimate_bytes(
        n,
        d,
        q,
        network.graph.n_edges,
        m=int(network.own.counts.max()),
        m_pub=None if common else int(network.public_counts.max()),
        method=method,
    )
    needed += 8 * n * d * d * (1 if common else 2) + network.own.X.nbytes + network.public.nbytes
    try:
        require_memory(needed, n=n, d=d, common=common)
    except FedRelaxError as error:
        raise UnsupportedNetworkError("linear", str(error)) from None
