"""Small pieces of arithmetic that are needed everywhere: standardising, softmax, Anderson acceleration."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.sparse.linalg import LinearOperator

from fedrelax.typing import AnyArray, FloatArray

FEW_NUMBERS = 1 << 16
"""Numbers whose squares are summed at a time, in cache."""

Step = tuple[FloatArray, FloatArray]
"""An input x of the iteration and its image g(x)."""

DEPTH = 5
GROWTH = 2.0
"""A residual that grows by more than this factor begins anew from the last image."""


def nonzero(sizes: AnyArray) -> FloatArray:
    """Return sizes to divide by: 1 in place of 0, so that a constant column stays as it is.

    >>> nonzero(np.array([2.0, 0.0]))
    array([2., 1.])
    """
    return np.where(sizes > 0, sizes, 1.0)


def centre_and_spread(X: AnyArray) -> tuple[FloatArray, FloatArray]:
    """Return every column's mean and standard deviation, 1 for a constant column.

    >>> centre_and_spread(np.array([[1.0, 5.0], [3.0, 5.0]]))
    (array([2., 5.]), array([1., 1.]))
    """
    X = np.asarray(X, dtype=float)
    centre, few = X.mean(axis=0), max(1, FEW_NUMBERS // max(1, X[:1].size))
    parts = (X[lo : lo + few] - centre for lo in range(0, len(X), few))
    squares = sum(
        (np.einsum("r...,r...->...", part, part) for part in parts), np.zeros(centre.shape)
    )
    return centre, nonzero(np.sqrt(squares / len(X)))


def with_constant(X: AnyArray, intercept: bool = True) -> FloatArray:
    """Return rows with a constant column last, or as they are."""
    X = np.asarray(X, dtype=float)
    return np.column_stack([X, np.ones(len(X))]) if intercept else X


def softmax(scores: AnyArray) -> FloatArray:
    """Return softmax over the last axis."""
    shifted: FloatArray = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shifted /= shifted.sum(axis=-1, keepdims=True)
    return shifted


def norm(x: AnyArray) -> float:
    """Return the Euclidean norm over all nodes, on one thread."""
    flat = x.reshape(-1)
    return float(np.sqrt(np.einsum("i,i->", flat, flat)))


def operator(image: Callable[[FloatArray], FloatArray], shape: tuple[int, ...]) -> LinearOperator:
    """Return a linear map of arrays of this shape as scipy's solvers take it, which know vectors only."""
    size = int(np.prod(shape))
    return LinearOperator(
        (size, size), matvec=lambda x: image(x.reshape(shape)).reshape(-1), dtype=float
    )


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
