"""The engine for networks of least-squares models: arrays over all nodes instead of sites."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from fedrelax.engines.base import Engine, Settings, coupling_factor, of_shape
from fedrelax.engines.linear.checks import reason_in_rows, refusal_of
from fedrelax.engines.linear.preparation import Prepared
from fedrelax.engines.linear.safety import check_safe
from fedrelax.engines.linear.sequential import SequentialRounds
from fedrelax.linear.fixed_point import ExactUpdate, solve_fixed_point
from fedrelax.models import LocalModel
from fedrelax.network import Network
from fedrelax.runtime import NodeMeasures
from fedrelax.typing import FloatArray, Label, SparseMatrix

RESIDUAL = 1e-8
"""``|b - K w| / |b|`` at which a run without a number of rounds has converged, unless ``tol`` is given."""
MOST_ROUNDS = 2000
"""The most accelerated rounds before a run gives up."""


class ArrayEngine(Engine):
    """Models W and messages V, (n, d, q): what all engines for linear models share.

    A node's message is its model, ``v <- (1 - damping) w + damping v``, because predictions on public
    rows are linear in it. ``factor`` is alpha, or alpha / 2 for the paper's objective.
    """

    def __init__(
        self,
        prepared: Prepared,
        start: FloatArray,
        factor: float,
        *,
        damping: float = 0.0,
        zeros_first: bool = False,
    ) -> None:
        self.labels = prepared.network.labels
        self.given = self.edges = prepared.measures.edges
        self.W = start
        self.V: FloatArray | None = None
        self._prepared, self._factor = prepared, factor
        self._damping, self._zeros_first = damping, zeros_first
        self._measures = self._on_given = prepared.measures
        self._change: FloatArray | None = None

    def start(self) -> None:
        """Begin with the given models."""

    def share(self, round: int) -> None:
        """Let every node send its predictions, represented by its model."""
        old, new = self.V, self.W
        if round == 0 and self._zeros_first:
            new = np.zeros_like(new)
        if old is not None and self._damping:
            new = (1 - self._damping) * new + self._damping * old
        self._change = None if old is None else new - old
        self.V = new

    def measure(self) -> NodeMeasures:
        """Return the measures of the current models."""
        assert self.V is not None
        return self._measures(self.W, self.V, self._factor, self._change)

    def snapshot(self) -> tuple[Any, FloatArray]:
        """Return the graph and the models."""
        return self.edges, self.W

    def restore(self, state: tuple[Any, FloatArray]) -> None:
        """Return to earlier models and their graph, and share their predictions."""
        edges, self.W = state
        if edges is not self.edges:
            self.rewire(edges)
        self.V = None
        self.share(-1)

    def state(self) -> dict[str, Any]:
        """Return models, messages and the graph."""
        return {
            "edges": self.as_given(self.edges),
            "models": self.W,
            "messages": self.V,
            "change": self._change,
            "at_rest": bool(self.at_rest),
        }

    def resume(self, state: Any, round: int) -> None:
        """Restore models, messages and the graph."""
        edges, shape = self.edges_from(state["edges"]), self.W.shape
        if edges is not self.edges:
            self.rewire(edges)
        self.W = of_shape(state["models"], shape, "models")
        self.V = of_shape(state["messages"], shape, "messages")
        change = state["change"]
        self._change = None if change is None else of_shape(change, shape, "changes")
        self.at_rest = bool(state["at_rest"])

    def unpacked(self, values: Any, round: int) -> tuple[Any, FloatArray]:
        """Return the graph and the models."""
        edges, models = super().unpacked(values, round)
        return edges, of_shape(models, self.W.shape, "best models")

    def settle(self, round: int) -> None:
        """Do nothing: these models converge from any start."""

    def rewire(self, edges: SparseMatrix) -> None:
        """Continue on another graph."""
        self.edges = edges
        self._measures = self._measures.on(edges)

    def embedding(self) -> FloatArray:
        """Return every node's message as a row whose squared distances are mean squared differences."""
        assert self.V is not None
        return self._measures.variation.embedding(self.V)

    def own_losses(self, edges: SparseMatrix) -> FloatArray:
        """Return node i's loss on its own rows under neighbour j's model.

        Answers on public rows determine a linear model, so i can tell what j would predict on its rows.
        """
        assert self.V is not None
        return self._measures.losses_of_others(edges, self.V)

    def discrepancies(self, edges: SparseMatrix) -> FloatArray:
        """Return d(i, j) for every stored entry of a CSR matrix, in its order."""
        assert self.V is not None
        measures = self._on_given if edges is self.given else self._measures.on(edges)
        return measures.variation.edges(self.W, self.V)

    @property
    def weights(self) -> FloatArray:
        """The current models (n, d, q) in the user's features, the intercept last."""
        return self._prepared.coordinates.back(self.W)

    @property
    def local_models(self) -> Mapping[Label, LocalModel]:
        """The current models, made on demand."""
        return self._prepared.network.fitted(self.weights)

    @property
    def alone_models(self) -> Mapping[Label, LocalModel]:
        """Every node's model trained on its own rows, made on demand."""
        return self._prepared.network.fitted(self._prepared.coordinates.back(self._prepared.alone))


class LinearEngine(ArrayEngine):
    """``w_i <- (H_i + R_i + alpha S_i)^-1 (b_i + alpha sum_j A_ij Q_j v_j)`` for all nodes."""

    name, rank = "linear", 1
    usual_rounds, settles = 200, True

    def __init__(self, prepared: Prepared, exact: ExactUpdate, settings: Settings) -> None:
        super().__init__(
            prepared,
            prepared.alone,
            coupling_factor(settings),
            damping=float(settings.damping),
            zeros_first=settings.first_exchange == "zeros",
        )
        self._exact = exact
        self._sequential = settings.order == "sequential"
        self._passes: SequentialRounds | None = None

    @classmethod
    def refusal(cls, network: Network, settings: Settings) -> str | None:
        """Support squared error, models that minimise it exactly, and rows of features."""
        reason = refusal_of(network.kind, network.distinct_models, settings)
        if reason is None and settings.level < 1 and network.public.common is None:
            reason = f"level={settings.level!r} needs one common set of public rows"
        return reason or reason_in_rows(network)

    @classmethod
    def of(cls, network: Network, settings: Settings) -> LinearEngine:
        """Form and invert the nodes' matrices; refuse what would lose digits or not fit into memory."""
        straight = goes_straight(settings)
        prepared = Prepared.of(
            network,
            settings.weighting,
            system_of(settings),
            level=float(settings.level),
            straight=straight,
        )
        exact = prepared.exact(float(settings.alpha), system_of(settings), fused=straight)
        check_safe(
            prepared.network,
            prepared.coordinates,
            prepared.apart,
            exact,
            prepared.weighting,
        )
        kind = FixedPointEngine if straight else LinearEngine
        return kind(prepared, exact, settings)

    def rewire(self, edges: SparseMatrix) -> None:
        """Continue on another graph, with new inverses where they change."""
        super().rewire(edges)
        self._exact = self._exact.on(edges)
        self._passes = None

    def state(self) -> dict[str, Any]:
        """Return the state, with sequential passes, and inverses if they depend on earlier graphs."""
        inverse = None if self.edges is self.given else self._exact.inverse
        passes = None if self._passes is None else self._passes.state()
        return {**super().state(), "inverse": inverse, "passes": passes}

    def resume(self, state: Any, round: int) -> None:
        """Restore that state."""
        super().resume(state, round)
        if self.edges is not self.given:
            shape = self._exact.inverse.shape
            self._exact.inverse = of_shape(state["inverse"], shape, "inverses")
        if state["passes"] is not None:
            assert self.V is not None
            self._passes = SequentialRounds(self._exact, self.V, damping=self._damping)
            self._passes.resume(state["passes"])

    def update(self, round: int) -> int:
        """Take the argmin at every node, all at once or one after the other; W is replaced."""
        exact = self._exact
        if exact.coupling.alpha == 0:
            return 1
        assert self.V is not None
        if not self._sequential:
            s = exact.coupling(self.V, np.empty_like(self.V), exact.problem.moment)
            self.W = exact.models(s)
            return 1
        if self._passes is None:
            self._passes = SequentialRounds(exact, self.V, damping=self._damping)
        self._passes.step()
        self.W = self._passes.models
        return 1


class FixedPointEngine(LinearEngine):
    """Goes to the fixed point in one update, by conjugate gradients or an accelerated iteration."""

    usual_rounds = MOST_ROUNDS

    def __init__(self, prepared: Prepared, exact: ExactUpdate, settings: Settings) -> None:
        super().__init__(prepared, exact, settings)
        self._tol = RESIDUAL if settings.tol is None else float(settings.tol)

    def update(self, round: int) -> int:
        """Solve to a relative residual of ``tol``, starting from the messages of round 0.

        Where the rows of all nodes together leave weights undetermined, the fixed point depends on the
        start; these methods keep the same part of the start as plain rounds do.
        """
        exact = self._exact
        if exact.coupling.alpha == 0:
            self.at_rest = True
            return 1
        found = solve_fixed_point(exact, self.V, tol=self._tol, max_rounds=MOST_ROUNDS)
        self.W, self.at_rest = found.models, found.converged
        return found.rounds


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


def system_of(settings: Any) -> Literal["paper", "symmetric"]:
    """Return the system whose solution is the fixed point."""
    return "symmetric" if settings.objective == "gtvmin" else "paper"
