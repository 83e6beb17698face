"""The exact update: every node takes the argmin, with one inverse per node, formed once."""

from __future__ import annotations

import copy
from typing import Any, Literal

import numpy as np

from fedrelax.engines.linear.inverse import invert
from fedrelax.engines.linear.memory import require_memory
from fedrelax.engines.linear.neighbours import NeighbourSums, times_common
from fedrelax.engines.linear.problem import LinearProblem
from fedrelax.engines.linear.rows import BUFFER_NUMBERS
from fedrelax.errors import FedRelaxError
from fedrelax.typing import AnyArray, FloatArray

System = Literal["paper", "symmetric"]
SAFE = 1e6
"""Matrices with smaller condition numbers stay safe if some neighbours are dropped."""
MinimumNorm = Literal["coefficients", "all"] | FloatArray


class NeighbourTerms:
    """What neighbours contribute to node i, in terms of their models.

    paper:     ``alpha sum_j A_ij Q_j w_j``, the neighbours' predictions on their own public sets;
    symmetric: ``alpha sum_j A_ij (Q_i + Q_j) w_j``, as in the GTVMin objective.
    """

    def __init__(self, problem: LinearProblem, alpha: float, system: System) -> None:
        if not (np.isfinite(alpha) and alpha >= 0):
            raise FedRelaxError(f"alpha: expected a number >= 0, found {alpha}")
        if system not in ("paper", "symmetric"):
            raise FedRelaxError(f"system: expected 'paper' or 'symmetric', found {system!r}")
        self.problem = problem
        self.alpha = float(alpha)
        self.system = system
        twice = 2.0 if system == "symmetric" else 1.0
        self.symmetric = system == "symmetric" and problem.public is not None
        self.common: AnyArray | None = None
        if problem.common is not None:
            self.common = twice * self.alpha * problem.common
        scale = self.alpha if problem.common is None else 1.0
        self.exchange = NeighbourSums(problem.adjacency, problem.d * problem.q, scale)
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

    def diagonal(self, matrices: AnyArray) -> None:
        """Add ``alpha sum_j A_ij Q_j`` (symmetric: ``Q_i + Q_j``) to each node's matrix."""
        problem, public = self.problem, self.problem.public
        if self.alpha == 0:
            return
        for a in range(problem.d):
            if public is None:
                assert self.common is not None
                matrices[:, a, :] += problem.degree[:, None] * self.common[a]
                continue
            row = public.row(a)
            matrices[:, a, :] += self.exchange.graph @ row
            if self.symmetric:
                matrices[:, a, :] += (self.alpha * problem.degree[:, None]) * row


def node_matrices(coupling: NeighbourTerms) -> AnyArray:
    """Return ``M_i = H_i + R_i + alpha sum_j A_ij Q_j`` (n, d, d)."""
    problem = coupling.problem
    M = problem.own.dense() if problem.own.low_rank else problem.own.dense().copy()
    coupling.diagonal(M)
    steps = np.arange(problem.d)
    M[:, steps, steps] += problem.ridge
    return M


def _least(problem: LinearProblem, minimum_norm: MinimumNorm) -> FloatArray | None:
    """Return the matrix C of ``|C w|``, or None for ``|w|``."""
    if not isinstance(minimum_norm, str):
        return minimum_norm
    over_coefficients = problem.intercept and minimum_norm == "coefficients"
    return np.eye(problem.d)[:-1] if over_coefficients else None


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
        self._minimum_norm: MinimumNorm = minimum_norm
        self._own: AnyArray | None = None
        fused = fused and system == "paper" and problem.public is not None
        block = problem.n * problem.d**2 * 8
        require_memory(
            block * (1 + fused),
            n=problem.n,
            d=problem.d,
            common=problem.public is None,
        )
        self.inverse = node_matrices(self.coupling)
        self.fused = np.empty_like(self.inverse) if fused else None
        least = _least(problem, minimum_norm)
        self.condition = np.empty(problem.n)
        self.rank = np.empty(problem.n, dtype=np.int64)
        group = max(1, BUFFER_NUMBERS // problem.d**2)
        for lo in range(0, problem.n, group):
            part = slice(lo, min(lo + group, problem.n))
            found = invert(self.inverse[part], least)
            self.inverse[part] = found.matrices
            self.condition[part], self.rank[part] = found.condition, found.rank
            if self.fused is not None:
                assert problem.public is not None
                np.matmul(problem.public.dense(part), found.matrices, out=self.fused[part])
        self._w = np.empty((problem.n, problem.d, problem.q))

    def on(self, edges: Any) -> ExactUpdate:
        """Return the update on another graph, with the same settings.

        With one common public set, a node's matrix depends only on its degree: nodes whose degree stays
        the same keep their inverse.
        """
        problem = self.problem.on(edges)
        if problem.common is None:
            return ExactUpdate(
                problem,
                self.coupling.alpha,
                system=self.coupling.system,
                minimum_norm=self._minimum_norm,
                fused=self.fused is not None,
            )
        other, steps = copy.copy(self), np.arange(problem.d)
        other.problem = problem
        other.coupling = NeighbourTerms(problem, self.coupling.alpha, self.coupling.system)
        other.inverse = self.inverse.copy()
        other._w = np.empty_like(self._w)
        if self._own is None:
            self._own = other._own = problem.own.dense().copy()
            self._own[:, steps, steps] += problem.ridge
        changed = np.flatnonzero(problem.degree != self.problem.degree)
        group = max(1, BUFFER_NUMBERS // problem.d**2)
        common = other.coupling.common
        assert common is not None
        for lo in range(0, len(changed), group):
            part = changed[lo : lo + group]
            M = problem.degree[part, None, None] * common
            M += self._own[part]
            whole = (self.rank[part] == problem.d).all() and (problem.degree[part] > 0).all()
            if whole and self.condition[part].max() < SAFE:
                other.inverse[part] = np.linalg.inv(M)
            else:
                other.inverse[part] = invert(M, _least(problem, self._minimum_norm)).matrices
        return other

    @property
    def nbytes(self) -> int:
        """The size of the update's own arrays in bytes."""
        fused = 0 if self.fused is None else self.fused.nbytes
        return int(self.inverse.nbytes + fused + 2 * self._w.nbytes)

    def models(self, s: AnyArray, out: AnyArray | None = None) -> AnyArray:
        """Return ``w = M^-1 s``."""
        return np.matmul(self.inverse, s, out=np.empty_like(s) if out is None else out)

    def sources(self, W: AnyArray) -> AnyArray:
        """Return ``s = M w``; needed once per run, to start from given models."""
        problem, common = self.problem, self.coupling.common
        if common is None:
            return np.asarray(np.matmul(node_matrices(self.coupling), W))
        s = times_common(W, common, np.empty_like(W))
        s *= problem.degree[:, None, None]
        s += problem.own.apply(W, np.empty_like(W))
        s += problem.ridge[:, :, None] * W
        return s

    def advance(self, s: AnyArray, out: AnyArray) -> AnyArray:
        """Write the next right-hand sides ``b + coupling(M^-1 s)``: one simultaneous round."""
        return self.pass_on(s, out, self.problem.moment)

    def pass_on(self, s: AnyArray, out: AnyArray, start: AnyArray | None = None) -> AnyArray:
        """Write ``start + coupling(M^-1 s)``."""
        if self.fused is None:
            return self.coupling(self.models(s, self._w), out, start)
        return self.coupling.exchange(np.matmul(self.fused, s, out=self._w), out, start)
