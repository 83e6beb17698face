"""The exact update of every node, and the fixed point of a network of linear models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import cg, gmres
from threadpoolctl import threadpool_limits

from fedrelax.linear.arrays import norm, operator
from fedrelax.linear.problem import BUFFER_NUMBERS, LinearProblem
from fedrelax.typing import AnyArray, FloatArray, SparseMatrix

System = Literal["paper", "symmetric"]
RESTART = 300
"""Rounds after which GMRES begins anew. It needs far fewer, except where public rows are few; then methods
that keep only some directions stall."""


class NeighbourTerms:
    """What neighbours contribute to node i, in terms of their models.

    paper:     ``alpha sum_j A_ij Q_j w_j``, the neighbours' predictions on their own public sets;
    symmetric: ``alpha sum_j A_ij (Q_i + Q_j) w_j``, as in the GTVMin objective.
    """

    def __init__(self, problem: LinearProblem, alpha: float, system: System) -> None:
        self.problem, self.alpha, self.system = problem, float(alpha), system
        self.common, self.symmetric = problem.public.ndim == 2, system == "symmetric"

    def __call__(self, W: AnyArray) -> FloatArray:
        """Return the neighbour terms of models ``W``."""
        problem = self.problem
        terms = problem.near(problem.shared(W))
        if self.symmetric:
            terms += terms if self.common else problem.shared(problem.near(W))
        terms *= self.alpha
        return terms

    def node_matrices(self) -> FloatArray:
        """Return ``M_i = H_i + R_i + alpha sum_j A_ij Q_j`` (symmetric: ``Q_i + Q_j``), (n, d, d)."""
        problem, degree = self.problem, self.problem.degree[:, None, None]
        matrices = degree * problem.public
        if self.common:
            matrices *= 2.0 if self.symmetric else 1.0
        else:
            near = problem.near(problem.public)
            matrices = near + matrices if self.symmetric else near
        matrices *= self.alpha
        matrices += problem.own
        return np.asarray(matrices)


class ExactUpdate:
    """All nodes' argmin at once: ``M_i w_i = s_i``, ``s_i = b_i + coupling_i(w)``.

    ``condition`` tells, node by node, how safe the inverses are. Nodes without neighbours keep the models
    ``alone`` if these are given: their matrix then need not have an inverse.
    """

    def __init__(
        self,
        problem: LinearProblem,
        alpha: float,
        *,
        system: System = "paper",
        alone: FloatArray | None = None,
    ) -> None:
        self.problem, self._alone = problem, alone
        self.coupling = NeighbourTerms(problem, alpha, system)
        self.matrices, self.right = self.coupling.node_matrices(), problem.moment
        if alone is not None:
            isolated = problem.degree == 0
            self.matrices[isolated] = np.eye(problem.d)
            self.right = np.where(isolated[:, None, None], alone, problem.moment)
        self.inverse, self.condition = invert(self.matrices)

    def on(self, edges: SparseMatrix) -> ExactUpdate:
        """Return the update on another graph, with the same settings."""
        coupling = self.coupling
        return ExactUpdate(
            self.problem.on(edges), coupling.alpha, system=coupling.system, alone=self._alone
        )

    def after(self, W: AnyArray) -> FloatArray:
        """Return the models after one simultaneous round from models ``W``."""
        right = self.coupling(W)
        right += self.right
        return np.asarray(self.inverse @ right)


def invert(matrices: AnyArray) -> tuple[FloatArray, FloatArray]:
    """Return the inverses of symmetric matrices (c, d, d), and their condition; infinity for none."""
    M = np.asarray(matrices, dtype=np.float64)
    found, condition = np.empty_like(M), np.empty(len(M))
    few = max(1, BUFFER_NUMBERS // (M[0].size or 1)) if len(M) else 1
    for lo in range(0, len(M), few):
        part, hopeless = M[lo : lo + few], np.zeros(len(M[lo : lo + few]), dtype=bool)
        try:
            inverse = np.linalg.inv(part)
        except np.linalg.LinAlgError:  # a single zero pivot fails the whole batch
            hopeless = np.linalg.slogdet(part).sign == 0
            inverse = np.linalg.inv(np.where(hopeless[:, None, None], np.eye(M.shape[-1]), part))
        sizes = np.einsum("cij,cij->c", part, part) * np.einsum("cij,cij->c", inverse, inverse)
        found[lo : lo + few] = 0.5 * (inverse + inverse.transpose(0, 2, 1))
        condition[lo : lo + few] = np.where(hopeless, np.inf, np.sqrt(sizes))
    return found, condition


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
    (block-Jacobi from the right, so that residuals are those of the system itself), by GMRES.
    One round is one exchange.
    """
    coupling, b, start = update.coupling, update.right, update.problem.start(initial)
    least, rounds = tol * (norm(b) or 1.0), 0

    def counted(W: FloatArray) -> FloatArray:
        nonlocal rounds
        rounds += 1
        return coupling(W)

    stop = {"rtol": 0.0, "atol": least}
    with threadpool_limits(1):
        if coupling.common or coupling.symmetric:
            K = operator(lambda W: update.matrices @ W - counted(W), b.shape)
            inverse = operator(lambda r: update.inverse @ r, b.shape)
            flat, failed = cg(
                K, b.reshape(-1), start.reshape(-1), maxiter=max_rounds, M=inverse, **stop
            )
            models = flat.reshape(b.shape)
        else:
            K = operator(lambda s: s - counted(update.inverse @ s), b.shape)
            flat, failed = gmres(
                K,
                b.reshape(-1),
                (update.matrices @ start).reshape(-1),
                restart=min(RESTART, max_rounds),
                maxiter=-(-max_rounds // RESTART),
                **stop,
            )
            models = update.inverse @ flat.reshape(b.shape)
    return Solution(models, max(rounds, 1), not failed)
