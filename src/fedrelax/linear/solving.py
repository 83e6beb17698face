"""Iterative solvers over all nodes, Anderson acceleration, and inverses of a symmetric matrix per node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fedrelax.linear.arrays import dot, norm
from fedrelax.typing import AnyArray, FloatArray, IntArray

Step = tuple[FloatArray, FloatArray]
"""An input x of the iteration and its image g(x)."""

DEPTH = 5
GROWTH = 2.0
"""A residual that grows by more than this factor begins anew from the last image."""


def conjugate_gradients(
    product: Callable[[AnyArray, AnyArray, AnyArray], object],
    residual: AnyArray,
    x: AnyArray,
    precondition: Callable[[AnyArray, AnyArray], object],
    least: float,
    most: int,
) -> int:
    """Solve ``K x = b``, K symmetric, until ``|b - K x| <= least``; return the steps, at most ``most``.

    ``x`` and its ``residual`` b - K x are changed in place. ``precondition(r, out)`` writes ``M^-1 r``,
    and ``product(p, Mp, out)`` writes ``K p``; ``M p`` follows from the recursion (``M z = r``), so where
    K differs from M by the exchange between nodes, a step reads one matrix per node.
    """
    r, z = residual, np.empty_like(residual)
    precondition(r, z)
    p, Mp, Kp = z.copy(), r.copy(), np.empty_like(r)
    rz = dot(r, z)
    for step in range(most):
        if not rz > 0 or norm(r) <= least:
            return step
        product(p, Mp, Kp)
        curvature = dot(p, Kp)
        if not curvature > 0:
            return step
        length = rz / curvature
        x += np.multiply(p, length, out=z)
        r -= np.multiply(Kp, length, out=Kp)
        precondition(r, z)
        rz, before = dot(r, z), rz
        p *= rz / before
        p += z
        Mp *= rz / before
        Mp += r
    return most


def induced_reduction(
    product: Callable[[AnyArray], AnyArray],
    residual: AnyArray,
    x: AnyArray,
    least: float,
    most: int,
    size: int = 8,
) -> int:
    """Solve ``K x = b`` for any K by IDR(s) with bi-orthogonal directions; return the products with K.

    Residuals are forced into shrinking subspaces defined by ``size`` fixed shadow vectors (van Gijzen and
    Sonneveld, 2011): fixed memory, and sure where restarted methods such as scipy's stall. ``x`` and its
    ``residual`` b - K x, both 1-D, are changed in place.
    """
    r = residual
    size = min(size, max(1, r.size - 1))
    shadow = np.random.default_rng(0).standard_normal((size, r.size)) / r.size**0.5
    G, U, M = np.zeros((size, r.size)), np.zeros((size, r.size)), np.eye(size)
    omega = 1.0
    f = shadow @ r
    for step in range(most):
        if norm(r) <= least:
            return step
        k = step % (size + 1)
        if k == size:
            image = product(r)
            omega = _along(image, r)
            x += omega * r
            r -= omega * image
            f = shadow @ r
            continue
        c = np.linalg.lstsq(M[k:, k:], f[k:], rcond=None)[0]
        u = omega * (r - c @ G[k:]) + c @ U[k:]
        g = product(u)
        for i in range(k):
            share = shadow[i] @ g / M[i, i] if M[i, i] else 0.0
            g -= share * G[i]
            u -= share * U[i]
        G[k], U[k] = g, u
        M[k:, k] = shadow[k:] @ g
        if M[k, k]:
            beta = f[k] / M[k, k]
            r -= beta * g
            x += beta * u
            f[k + 1 :] -= beta * M[k + 1 :, k]
        f[k] = 0.0
    return most


def _along(image: AnyArray, r: AnyArray) -> float:
    """Return the step along r that minimises the residual, enlarged if image and r hardly align."""
    size, inner = norm(image), dot(image, r)
    if not size or not inner:
        return 1.0
    cosine = abs(inner) / (size * norm(r))
    return inner / size**2 * max(1.0, 0.7 / cosine)


def accelerated(steps: Sequence[Step]) -> tuple[FloatArray, list[Step]]:
    """Return the next input after the given steps, and the steps that are worth keeping.

    It is the combination of the last images whose residuals g(x) - x cancel best, in least squares.

    >>> steps, x = [], np.array([8.0, 8.0])
    >>> for _ in range(4):
    ...     steps.append((x, np.array([0.9, 0.5]) * x + 1.0))
    ...     x, steps = accelerated(steps)
    >>> x.round(6).tolist()
    [10.0, 2.0]
    """
    last = list(steps[-DEPTH - 1 :])
    images = np.array([image for _, image in last])
    residuals = np.array([image - x for x, image in last]).reshape(len(last), -1)
    size = np.linalg.norm(residuals, axis=1)
    if len(last) > 1 and size[-1] > GROWTH * size[-2]:
        return images[-1], last[-1:]
    moves = np.diff(residuals, axis=0)
    share = np.linalg.lstsq(moves.T, residuals[-1], rcond=1e-12)[0]
    return images[-1] - np.tensordot(share, np.diff(images, axis=0), axes=1), last


@dataclass(frozen=True)
class Inverses:
    """Symmetric (generalised) inverses (c, d, d) in float64, and how safe they are."""

    matrices: FloatArray
    condition: FloatArray
    """The condition number; for a singular matrix, that of its non-zero part."""
    rank: IntArray


def invert(matrices: AnyArray, least: FloatArray | None = None) -> Inverses:
    """Return the inverses of (c, d, d) positive semidefinite matrices.

    Where ``M w = s`` does not determine w, the generalised inverse G gives the solution ``G s`` that
    minimises ``|least w|``, with ``least`` (p, d) the same for all; by default ``|w|``. Eigenvalues
    below ``d * eps`` times the largest count as zero.
    """
    M = np.asarray(matrices, dtype=np.float64)
    d = M.shape[-1]
    cut = d * float(np.finfo(np.float64).eps)
    hopeless = np.zeros(len(M), dtype=bool)
    try:
        inverse = np.linalg.inv(M)
    except np.linalg.LinAlgError:  # a single zero pivot fails the whole batch
        hopeless = np.linalg.slogdet(M).sign == 0
        inverse = np.linalg.inv(np.where(hopeless[:, None, None], np.eye(d), M))
    condition = np.sqrt(np.einsum("cij,cij->c", M, M) * np.einsum("cij,cij->c", inverse, inverse))
    rank = np.full(len(M), d, dtype=np.int64)
    bad = np.flatnonzero(hopeless | ~(condition < 0.1 / cut))
    if bad.size:
        inverse[bad], condition[bad], rank[bad] = _generalised(M[bad], least, cut)
    symmetric: FloatArray = inverse + inverse.transpose(0, 2, 1)
    symmetric *= 0.5
    return Inverses(symmetric, condition, rank)


def _generalised(
    M: FloatArray, least: FloatArray | None, cut: float
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return generalised inverses, and the condition number and rank of what they invert.

    With eigenvectors N of eigenvalue zero and ``P = I - N (least N)^+ least``, the inverse is
    ``P M^+ P'``: M's pseudo-inverse, moved along N to where ``|least w|`` is smallest.
    """
    values, vectors = np.linalg.eigh(M)
    top = values[:, -1]
    keep = values > cut * top[:, None]
    inner = np.where(keep, 1 / np.where(keep, values, 1.0), 0.0)
    inverse = (vectors * inner[:, None, :]) @ vectors.transpose(0, 2, 1)
    smallest = np.where(keep, values, np.inf).min(axis=1)
    condition = np.where(keep.any(axis=1), top / smallest, 1.0)
    rank: IntArray = keep.sum(axis=1)
    free = M.shape[-1] - rank
    if least is not None:
        for k in np.unique(free[free > 0]):
            nodes = np.flatnonzero(free == k)
            N = vectors[nodes][:, :, :k]
            P = np.eye(M.shape[-1]) - N @ np.linalg.pinv(least @ N) @ least
            inverse[nodes] = P @ inverse[nodes] @ P.transpose(0, 2, 1)
    return inverse, condition, rank
