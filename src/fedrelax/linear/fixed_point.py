"""The exact update of every node, and the fixed point of a network of linear models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from fedrelax.linear.arrays import norm, times_common
from fedrelax.linear.gram import BUFFER_NUMBERS
from fedrelax.linear.problem import LinearProblem, NeighbourSums
from fedrelax.linear.solving import conjugate_gradients, induced_reduction, invert
from fedrelax.typing import AnyArray, FloatArray, SparseMatrix

System = Literal["paper", "symmetric"]
MinimumNorm = Literal["coefficients", "all"] | FloatArray


class NeighbourTerms:
    """What neighbours contribute to node i, in terms of their models.

    paper:     ``alpha sum_j A_ij Q_j w_j``, the neighbours' predictions on their own public sets;
    symmetric: ``alpha sum_j A_ij (Q_i + Q_j) w_j``, as in the GTVMin objective.
    """

    def __init__(self, problem: LinearProblem, alpha: float, system: System) -> None:
        self.problem = problem
        self.alpha = float(alpha)
        self.system = system
        twice = 2.0 if system == "symmetric" else 1.0
        self.symmetric = system == "symmetric" and problem.public is not None
        self.common: AnyArray | None = None
        if problem.common is not None:
            self.common = twice * self.alpha * problem.common
        scale = self.alpha if problem.common is None else 1.0
        self.exchange = NeighbourSums(problem.adjacency, scale)
        self._u = np.empty((problem.n, problem.d, problem.q))
        self._v = np.empty_like(self._u) if self.symmetric else self._u

    def on_public(self, W: AnyArray, out: AnyArray) -> AnyArray:
        """Write ``Q_j w_j``, what node j sends.

        The factor alpha is in the exchange, or in the common Q (doubled if symmetric).
        """
        if self.common is not None:
            return times_common(W, self.common, out)
        assert self.problem.public is not None
        return self.problem.public.apply(W, out)

    def __call__(self, W: AnyArray, out: AnyArray, start: AnyArray | None = None) -> AnyArray:
        """Write ``start`` plus the neighbour terms of models ``W``."""
        exchange = self.exchange
        if not self.symmetric:
            return exchange(self.on_public(W, self._u), out, start)
        exchange(W, self._u)
        self.on_public(self._u, self._v)
        self.on_public(W, self._u)
        exchange(self._u, out, start)
        return np.add(out, self._v, out=out)

    def node_matrices(self, nodes: slice | AnyArray = slice(None)) -> AnyArray:
        """Return ``M_i = H_i + R_i + alpha sum_j A_ij Q_j`` (symmetric: ``Q_i + Q_j``), (c, d, d)."""
        problem, public, degree = self.problem, self.problem.public, self.problem.degree[nodes]
        M = problem.own_matrices(nodes)
        if self.common is not None:
            M += degree[:, None, None] * self.common
        elif public is not None and self.alpha:
            M += self.alpha * problem.around[nodes]
            if self.symmetric:
                M += (self.alpha * degree[:, None, None]) * public.dense(nodes)
        return M


class ExactUpdate:
    """All nodes' argmin at once: ``M_i w_i = s_i``, ``s_i = b_i + coupling_i(w)``.

    Iterations run on the right-hand sides s, because ``s_new - s`` is then the residual of the system
    at ``w = M^-1 s``, at no extra cost. With per-node public sets and the paper's system,
    ``C_i = Q_i M_i^-1`` is stored too (``fused``): a round ``s <- b + alpha A (C s)`` then reads
    one matrix per node, not two.

    A node whose ``M_i`` is singular takes the minimum-norm solution: over all entries of w_i
    (``minimum_norm="all"``), over all but the intercept ("coefficients": scikit-learn's choice,
    and the same without an intercept), or with the smallest ``|C w_i|`` for a given matrix C.
    ``condition`` and ``rank`` tell, node by node, how safe the inverses are.
    """

    def __init__(
        self,
        problem: LinearProblem,
        alpha: float,
        *,
        system: System = "paper",
        minimum_norm: MinimumNorm = "coefficients",
        fused: bool = True,
    ) -> None:
        self.problem = problem
        self.coupling = NeighbourTerms(problem, alpha, system)
        self._least: FloatArray | None = None
        if not isinstance(minimum_norm, str):
            self._least = minimum_norm
        elif problem.intercept and minimum_norm == "coefficients":
            self._least = np.eye(problem.d)[:-1]
        shape = (problem.n, problem.d, problem.d)
        self.inverse = np.empty(shape)
        self.fused: AnyArray | None = None
        if fused and system == "paper" and problem.public is not None:
            self.fused = np.empty(shape)
        self.condition = np.empty(problem.n)
        self.rank = np.empty(problem.n, dtype=np.int64)
        self._w = np.empty((problem.n, problem.d, problem.q))
        for part in self._groups():
            inverses = invert(self.coupling.node_matrices(part), self._least)
            self.inverse[part] = inverses.matrices
            self.condition[part], self.rank[part] = inverses.condition, inverses.rank
            if self.fused is not None and problem.public is not None:
                self.fused[part] = np.matmul(problem.public.dense(part), inverses.matrices)

    def _groups(self) -> Iterator[slice]:
        """Yield all nodes, a few at a time, whose matrices stay in cache."""
        group = max(1, BUFFER_NUMBERS // self.problem.d**2)
        return (slice(lo, lo + group) for lo in range(0, self.problem.n, group))

    def on(self, edges: SparseMatrix) -> ExactUpdate:
        """Return the update on another graph, with the same settings."""
        return ExactUpdate(
            self.problem.on(edges),
            self.coupling.alpha,
            system=self.coupling.system,
            minimum_norm="all" if self._least is None else self._least,
            fused=self.fused is not None,
        )

    def models(self, s: AnyArray, out: AnyArray | None = None) -> AnyArray:
        """Return ``w = M^-1 s``."""
        out = np.empty(s.shape) if out is None else out
        n, d, q = s.shape
        if q > 1:
            return np.matmul(self.inverse, s, out=out)
        # As s'M^-1, which is the same, because BLAS is then a fifth faster.
        np.matmul(s.reshape(n, 1, d), self.inverse, out=np.reshape(out, (n, 1, d), copy=False))
        return out

    def sources(self, W: AnyArray) -> AnyArray:
        """Return ``s = M w``; needed once per run, to start from given models."""
        s = np.empty_like(W)
        for part in self._groups():
            np.matmul(self.coupling.node_matrices(part), W[part], out=s[part])
        return s

    def pass_on(self, s: AnyArray, out: AnyArray, start: AnyArray | None = None) -> AnyArray:
        """Write ``start + coupling(M^-1 s)``; with b as ``start`` this is one simultaneous round."""
        if self.fused is None:
            return self.coupling(self.models(s, self._w), out, start)
        return self.coupling.exchange(np.matmul(self.fused, s, out=self._w), out, start)

    def after(self, W: AnyArray) -> AnyArray:
        """Return the models after one simultaneous round from models ``W``."""
        return self.models(self.coupling(W, self._w, self.problem.moment))

    def in_turn(self, messages: AnyArray, damping: float = 0.0) -> tuple[AnyArray, AnyArray]:
        """Return models and messages after one pass in which nodes 0, 1, 2, ... hear the newest messages.

        A node sends its new model, or with ``damping``, ``(1 - damping) argmin + damping last message``.
        Nodes that do not depend on each other are updated together; the result is the same as one by one.
        On the symmetric objective, an undamped pass never increases the objective.
        """
        coupling, public = self.coupling, self.problem.public
        W, V = np.empty_like(messages), messages.copy()
        sent = coupling.on_public(V, np.empty_like(V))

        def on_public(nodes: AnyArray, values: AnyArray) -> AnyArray:
            return (coupling.common if public is None else public.dense(nodes)) @ values

        for nodes, graph in coupling.exchange.turns:
            s = self.problem.moment[nodes] + _near(graph, sent)
            if coupling.symmetric:
                s += on_public(nodes, _near(graph, V))
            W[nodes] = new = self.inverse[nodes] @ s
            V[nodes] = new = (1 - damping) * new + damping * V[nodes] if damping else new
            sent[nodes] = on_public(nodes, new)
        return W, V


def _near(graph: SparseMatrix, values: AnyArray) -> AnyArray:
    """Return the neighbour sums of the nodes whose rows of the adjacency are given."""
    flat = graph @ values.reshape(len(values), -1)
    return np.asarray(flat).reshape(graph.shape[0], *values.shape[1:])


@dataclass(frozen=True)
class Solution:
    """Models (n, d, q), the rounds used, and whether ``|b - K w| / |b|`` came down to the tolerance."""

    models: AnyArray
    rounds: int
    converged: bool


def solve_fixed_point(
    update: ExactUpdate,
    initial: npt.ArrayLike | None = None,
    *,
    tol: float = 1e-6,
    max_rounds: int = 10_000,
) -> Solution:
    """Find the fixed point of plain rounds, in a fraction of the rounds.

    ``K w = b`` with ``K = M - coupling``. K is symmetric for the symmetric system (GTVMin), and for the
    paper's with one common public set, where it is GTVMin at alpha/2: conjugate gradients, preconditioned
    with the nodes' inverses. Otherwise, solve ``(I - N) s = b`` with N one exchange and ``w = M^-1 s``
    (block-Jacobi from the right, so that residuals are those of the system itself), by IDR(s).
    One round is one exchange; starting from given models costs one more.
    """
    b = update.problem.moment
    least = tol * (norm(b) or 1.0)
    symmetric = update.problem.public is None or update.coupling.symmetric
    x, r = update.problem.start(initial), b.copy()
    if initial is not None:
        s = update.sources(x)
        r -= s
        r += (
            update.coupling(x, np.empty_like(x))
            if symmetric
            else update.pass_on(s, np.empty_like(x))
        )
        x = x if symmetric else s
    with threadpool_limits(1):
        solve = _conjugate if symmetric else _reduced
        rounds = solve(update, r, x, least, max_rounds)
    models = x if symmetric else update.models(x)
    return Solution(models, max(rounds, 1), norm(r) <= least)


def _conjugate(update: ExactUpdate, r: AnyArray, w: AnyArray, least: float, most: int) -> int:
    """Solve ``(M - coupling) w = b``; return the rounds."""

    def product(p: AnyArray, Mp: AnyArray, out: AnyArray) -> AnyArray:
        return np.subtract(Mp, update.coupling(p, out), out=out)

    return conjugate_gradients(product, r, w, update.models, least, most)


def _reduced(update: ExactUpdate, r: AnyArray, s: AnyArray, least: float, most: int) -> int:
    """Solve ``(I - N) s = b``; return the rounds."""

    def product(flat: AnyArray) -> AnyArray:
        p = flat.reshape(r.shape)
        return np.subtract(p, update.pass_on(p, np.empty_like(p))).reshape(-1)

    b, rest, x = update.problem.moment.reshape(-1), r.reshape(-1), s.reshape(-1)
    rounds = 0
    while norm(rest) > least and rounds < most:
        rounds += induced_reduction(product, rest, x, least, most - rounds)
        np.subtract(b, product(x), out=rest)  # what the recursion has lost to rounding counts, too
    return rounds
