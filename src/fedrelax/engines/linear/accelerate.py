"""Solve the coupled system to a given residual in few rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fedrelax.engines.linear.krylov import InducedReduction, TruncatedResidual
from fedrelax.engines.linear.update import ExactUpdate
from fedrelax.engines.linear.vectors import dot, norm, scale_of
from fedrelax.errors import FedRelaxError
from fedrelax.typing import AnyArray

DIVERGED = 1e6
"""Growth of the residual since the first round at which a run counts as diverged."""
RoundProgress = Callable[[int, float], None]
PATIENCE = 20
"""Rounds in which the residual must at least halve, or the short-memory method is abandoned."""


@dataclass
class Solution:
    """Models (n, d, q), the rounds used, and ``|b - K w| / |b|`` after each round."""

    models: AnyArray
    rounds: int
    residuals: list[float] = field(repr=False)
    converged: bool


class _Log:
    """Records residuals, reports progress, and decides when to stop."""

    def __init__(self, tol: float, max_rounds: int, progress: RoundProgress | None) -> None:
        if not tol > 0 or max_rounds < 1:
            raise FedRelaxError(
                f"tol and max_rounds: expected positive numbers, found {tol} and {max_rounds}"
            )
        self.tol, self.max_rounds, self.progress = tol, max_rounds, progress
        self.residuals: list[float] = []

    def add(self, residual: float) -> bool:
        """Record one round; return whether to continue."""
        self.residuals.append(residual)
        if self.progress is not None:
            self.progress(len(self.residuals), residual)
        if not residual < DIVERGED * max(1.0, self.residuals[0]):
            raise FedRelaxError(
                f"round {len(self.residuals)}: the rounds diverged, with a residual of {residual}; use "
                "solve_accelerated, damping, more public rows or a smaller alpha"
            )
        return not self.converged and len(self.residuals) < self.max_rounds

    @property
    def converged(self) -> bool:
        return bool(self.residuals) and self.residuals[-1] <= self.tol

    def solution(self, models: AnyArray) -> Solution:
        return Solution(models, len(self.residuals), self.residuals, self.converged)


def solve_accelerated(
    update: ExactUpdate,
    initial: npt.ArrayLike | None = None,
    *,
    tol: float = 1e-6,
    max_rounds: int = 10_000,
    window: int = 5,
    progress: RoundProgress | None = None,
) -> Solution:
    """Find the same fixed point as plain rounds, in a fraction of the rounds; for any public sets.

    The fixed point solves ``(I - N) s = b`` with N one exchange and ``w = M^-1 s``: block-Jacobi
    from the right, so residuals are those of the system itself. A truncated conjugate residual
    method with ``window`` directions minimises the residual; it is nearly optimal if public sets are
    similar, because N is then nearly self-adjoint. If it stalls, induced dimension reduction takes
    over. One round is one application of N; starting from given models costs one more.
    """
    b = update.problem.moment
    scale = scale_of(b)
    log = _Log(tol, max_rounds, progress)

    def operator(p: AnyArray, out: AnyArray) -> AnyArray:
        return np.subtract(p, update.pass_on(p, out), out=out)

    s = update.problem.start(initial)
    r = b.copy()
    if initial is not None:
        s = update.sources(s)
        r -= operator(s, np.empty_like(s))
    short = TruncatedResidual(operator, s, r, window)
    go_on = norm(r) > 0
    if not go_on:
        log.add(0.0)
    while go_on:
        go_on = log.add(short.step() / scale)
        past = log.residuals[-PATIENCE - 1 : -PATIENCE]
        if past and log.residuals[-1] > past[0] / 2:
            break
    del short
    if go_on:
        long = InducedReduction(operator, s, r)
        while go_on:
            go_on = log.add(long.step() / scale)
    return log.solution(update.models(s))


def solve_conjugate(
    update: ExactUpdate,
    initial: npt.ArrayLike | None = None,
    *,
    tol: float = 1e-6,
    max_rounds: int = 10_000,
    progress: RoundProgress | None = None,
) -> Solution:
    """Solve ``K w = b``, K symmetric, by conjugate gradients preconditioned with the nodes' inverses.

    For the symmetric system (GTVMin) with any public sets, and for the paper's system with one
    common set: there ``K = M - alpha A (x) Q`` is symmetric, and the paper's system at alpha is
    GTVMin at alpha/2. The product ``M p`` follows the recursion of p (``M z = r``), so a round
    reads one inverse per node and no other matrix (with per-node sets also Q, and ``Q w`` is
    exchanged along with ``w``).
    """
    problem, coupling = update.problem, update.coupling
    if problem.public is not None and not coupling.symmetric:
        raise FedRelaxError(
            "conjugate gradients: the paper's system is not symmetric if public sets differ; use "
            "solve_accelerated, system='symmetric', or one common public set"
        )
    b = problem.moment
    scale = scale_of(b)
    log = _Log(tol, max_rounds, progress)
    x = problem.start(initial)
    r = b.copy()
    if initial is not None:
        r -= update.sources(x)
        r += coupling(x, np.empty_like(x))
    z = update.models(r)
    p, Mp, Kp = z.copy(), r.copy(), np.empty_like(r)
    rz = dot(r, z)
    if not rz > 0:
        log.add(norm(r) / scale)
        return log.solution(x)
    while True:
        np.subtract(Mp, coupling(p, Kp), out=Kp)
        curvature = dot(p, Kp)
        if not curvature > 0:
            break
        step = rz / curvature
        np.multiply(p, step, out=z)
        x += z
        Kp *= step
        r -= Kp
        if not log.add(norm(r) / scale):
            break
        update.models(r, z)
        rz, before = dot(r, z), rz
        ratio = rz / before
        p *= ratio
        p += z
        Mp *= ratio
        Mp += r
    return log.solution(x)
