"""The engine for networks of least-squares models: arrays over all nodes instead of sites."""

from __future__ import annotations

import numpy as np

from fedrelax.engines.base import UnsupportedNetworkError
from fedrelax.engines.batch import BatchEngine
from fedrelax.engines.linear.network import (
    Coordinates,
    unsupported_models,
    unsupported_rows,
)
from fedrelax.linear.arrays import with_constant
from fedrelax.linear.fixed_point import ExactUpdate, invert, solve_fixed_point
from fedrelax.linear.problem import BUFFER_NUMBERS, LinearProblem, with_level
from fedrelax.losses import Squared
from fedrelax.models import Rows, adapt
from fedrelax.network import Network
from fedrelax.runtime import Coupling, Settings
from fedrelax.threads import one_thread
from fedrelax.typing import AnyArray, FloatArray, SparseMatrix

RESIDUAL = 1e-8
"""``|b - K w| / |b|`` at which a run without a number of rounds has converged, unless ``tol`` is given."""
MOST_ROUNDS = 2000
"""The most accelerated rounds before a run gives up."""
APART_CONDITION, TOGETHER_CONDITION = 1e11, 1e8
"""Largest condition numbers: round 0 is corrected with the rows themselves, later rounds are not."""
LEAST_SPREAD = 1e-5
"""Share of the largest spread below which ``LinearRegression`` may take a direction for constant."""
REFINEMENTS = 2


class ArrayEngine(BatchEngine):
    """Models W (n, d, q): what all engines for linear models share.

    A node's message is its model, because predictions on public rows are linear in it; what is measured
    on public rows is measured by factors or Gram matrices of them.
    """

    task, loss = "regression", Squared()

    def __init__(self, network: Network, coupling: Coupling) -> None:
        super().__init__(network, coupling)
        self._take(Coordinates.standard(self.network.own.X, self.network.intercept))
        self.models = self.alone = self._trained_alone()

    @classmethod
    def unsupported_network(cls, network: Network, settings: Settings) -> str | None:
        """Support models that minimise squared error exactly, on rows of features."""
        return unsupported_models(network.distinct_models) or unsupported_rows(network)

    def _take(self, coordinates: Coordinates) -> None:
        """Set up rows and problem in these coordinates."""
        self.coordinates, network, level = coordinates, self.network, self.coupling.level
        own, ends = network.node_rows(network.own, coordinates), network.public_offsets
        self.own = list(own.groups())
        self.held = list(network.node_rows(network.validation, coordinates).groups())
        public = coordinates.rows(network.public)
        self.problem = LinearProblem(
            own,
            None,
            network.edges,
            public,
            public_offsets=ends,
            ridge=network.ridge / coordinates.scale**2 / own.counts[:, None],
            level=level,
        )
        self._factor: FloatArray | None = None
        if ends is None:
            public = with_constant(public, network.intercept)
            self._factor = _factor(public)
            self._levelled = _factor(with_level(public, level))

    def _trained_alone(self) -> FloatArray:
        """Solve ``(H_i + R_i) u = b_i``, then refine with residuals of the rows themselves.

        The refinement ``u <- u - (H + R)^-1 [X'(X u - y)/m + R u]`` recovers the digits lost in forming H.
        Where rows hardly determine a weight, the node's model itself is fitted.
        """
        problem, network = self.problem, self.network
        inverse, condition = invert(problem.own)
        alone = inverse @ problem.moment
        scale, each = self.coordinates.scale, np.arange(problem.d - problem.intercept)
        ridge = np.zeros((problem.n, problem.d, 1))
        ridge[:, each, 0] = network.ridge / scale**2 / network.own.counts[:, None]
        for group in self.own * REFINEMENTS:
            nodes, U = group.nodes, alone[group.nodes]
            slopes = group.rows.transpose(0, 2, 1) @ (group.rows @ U - group.targets)
            slopes /= group.mask.sum(axis=1)[:, None, None]
            alone[nodes] -= inverse[nodes] @ (slopes + ridge[nodes] * U)
        unsafe = np.flatnonzero(
            ~(condition <= APART_CONDITION) | self._may_look_constant(condition)
        )
        if len(unsafe):
            fitted = np.zeros((len(unsafe), *alone.shape[1:]))
            with one_thread():
                for k, i in enumerate(unsafe.tolist()):
                    fitted[k] = self._fitted_alone(i)
            alone[unsafe] = self.coordinates.forth(fitted)
        return alone

    def _fitted_alone(self, i: int) -> FloatArray:
        """Return the weights (d, q), in raw coordinates, that node i's own model finds on its own rows."""
        network = self.network
        X, y = network.own.part(i)
        local = adapt(network.kinds[network.codes[i]], network.task)
        target = y.reshape(len(X), -1)
        model = local.fit([Rows(X, target, np.ones(len(X)), self.loss)], seed=0).estimator
        coefficients = np.atleast_2d(model.coef_).T
        constant = [np.broadcast_to(model.intercept_, target.shape[1:])] * network.intercept
        return np.vstack([coefficients, *constant])

    def _may_look_constant(self, condition: FloatArray) -> AnyArray:
        """Tell where features without a penalty differ so much in scale that models may drop some."""
        scale, free = self.coordinates.scale, (self.network.ridge == 0).any(axis=1)
        stretch = float(scale.max() / scale.min())
        return np.asarray(free & (LEAST_SPREAD * stretch * np.sqrt(condition) > 1))

    def _predict(self, rows: AnyArray, models: AnyArray) -> FloatArray:
        return np.asarray(rows @ models)

    def _answers_of(self, models: FloatArray) -> FloatArray:
        return models

    @property
    def sent_models(self) -> FloatArray:
        """The messages of the last round, which are models."""
        return self.sent

    def _mean_squares(self, values: FloatArray) -> FloatArray:
        if self._factor is not None:
            predictions = self._factor @ values
            squares = np.einsum("nrq,nrq->n", predictions, predictions)
        else:
            squares = np.einsum("ndq,ndq->n", values, self.problem.public @ values)
        return np.asarray(squares / values.shape[2])

    def embedding(self) -> FloatArray:
        """Return every node's message as a row whose squared distances are mean squared differences."""
        return np.asarray(self._levelled @ self.sent).reshape(len(self.sent), -1)

    def discrepancies(self, edges: SparseMatrix) -> FloatArray:
        """Return d(i, j) for every stored entry of a CSR matrix, in its order."""
        common = self._factor is not None
        mine, theirs = self.models, self.sent
        if common:
            mine, theirs = self._levelled @ mine, self._levelled @ theirs
        learners, values = edges.tocoo(copy=False).row, np.empty(edges.nnz)
        few = max(1, BUFFER_NUMBERS // (mine[0].size if common else self.problem.public[0].size))
        for lo in range(0, len(values), few):
            part = slice(lo, lo + few)
            j = edges.indices[part]
            gap = mine[learners[part]] - theirs[j]
            image = gap if common else self.problem.public[j] @ gap
            values[part] = np.einsum("erq,erq->e", gap, image)
        return values

    def weights_of(self, models: FloatArray) -> FloatArray:
        """Return models in the user's features."""
        return self.coordinates.back(models)


def _factor(P: FloatArray) -> FloatArray:
    """Return C with ``C'C = P'P / m``, with as few rows as it has columns: mean squares of predictions."""
    return np.asarray(np.linalg.qr(P, mode="r") / np.sqrt(len(P)))


class LinearEngine(ArrayEngine):
    """``w_i <- (H_i + R_i + alpha S_i)^-1 (b_i + alpha sum_j A_ij Q_j v_j)`` for all nodes.

    Where only the fixed point matters, one update goes there, by conjugate gradients or GMRES.
    """

    name, rank = "linear", 1
    usual_rounds, settles = 200, True

    def __init__(self, network: Network, settings: Settings) -> None:
        self._settings = settings
        self._straight = (
            settings.rounds is None
            and settings.wiring is None
            and settings.patience is None
            and not settings.damping
            and (settings.tol is None or settings.tol > 0)
        )
        """Whether only the fixed point matters: no number of rounds, nothing to do on the way."""
        if self._straight:
            self.usual_rounds = MOST_ROUNDS
        super().__init__(network, settings.coupling("regression"))
        self.exact = ExactUpdate(
            self.problem, settings.alpha, system=settings.system, alone=self.alone
        )
        condition = self.exact.condition
        unsafe = ~(condition <= TOGETHER_CONDITION) | self._may_look_constant(condition)
        if settings.alpha > 0 and unsafe.any():
            worst = int(np.argmax(np.where(unsafe, condition, 0.0)))
            raise UnsupportedNetworkError(
                "linear",
                f"node {self.labels[worst]!r}: its rows and its neighbours' public rows barely determine a "
                f"weight (condition number {condition[worst]:.1e}), or features differ too much in scale, "
                "so the linear engine would not be exact",
            )

    @classmethod
    def unsupported_network(cls, network: Network, settings: Settings) -> str | None:
        """Support a level only on one common set of public rows."""
        if settings.level < 1 and network.public.common is None:
            return f"level={settings.level!r} needs one common set of public rows"
        return super().unsupported_network(network, settings)

    def rewire(self, edges: SparseMatrix) -> None:
        """Continue on another graph, with new inverses."""
        super().rewire(edges)
        self.exact = self.exact.on(edges)

    def refit(self) -> FloatArray:
        """Return the argmin at every node."""
        return self.alone if self.coupling.alpha == 0 else self.exact.after(self.sent)

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
