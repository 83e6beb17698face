"""Small pieces of arithmetic that are needed everywhere: standardising, inner products, softmax."""

from __future__ import annotations

import numpy as np

from fedrelax.typing import AnyArray, FloatArray

SMALL_PRODUCT = 1 << 18
"""Multiplications up to which BLAS stays on one thread; more threads can stall on a busy machine."""

FEW_NUMBERS = 1 << 16
"""Numbers whose squares are summed at a time, in cache."""

FAR = 1e6
"""Spreads from the centre beyond which a column is measured anew."""


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


def rescaled(centre: FloatArray, spread: FloatArray, X: AnyArray) -> tuple[FloatArray, FloatArray]:
    """Return centre and spread; columns in which rows lie extremely far from the centre are measured anew.

    The earlier rows had no values of such a column, or all the same, so they did not tell its unit.

    >>> rescaled(np.zeros(2), np.ones(2), np.array([[1.0, 2e9], [-1.0, 4e9]]))
    (array([0.e+00, 3.e+09]), array([1.e+00, 1.e+09]))
    """
    far = np.abs((X - centre) / spread).max(axis=0) > FAR
    new_centre, new_spread = centre_and_spread(X)
    return np.where(far, new_centre, centre), np.where(far, new_spread, spread)


def with_constant(X: AnyArray, intercept: bool = True) -> FloatArray:
    """Return rows with a constant column last, or as they are."""
    X = np.asarray(X, dtype=float)
    return np.column_stack([X, np.ones(len(X))]) if intercept else X


def softmax(scores: AnyArray) -> FloatArray:
    """Return softmax over the last axis."""
    shifted: FloatArray = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shifted /= shifted.sum(axis=-1, keepdims=True)
    return shifted


def dot(x: AnyArray, y: AnyArray) -> float:
    """Return the inner product over all nodes, on one thread."""
    return float(np.einsum("i,i->", x.reshape(-1), y.reshape(-1)))


def norm(x: AnyArray) -> float:
    """Return the Euclidean norm over all nodes."""
    return float(np.sqrt(dot(x, x)))


def times_common(W: AnyArray, Q: AnyArray, out: AnyArray) -> AnyArray:
    """Write ``Q' w_i`` for one matrix Q and all nodes, a few at a time; W and out are (n, d, q)."""
    n, d, q = W.shape
    if q > 1:
        return np.matmul(Q.T, W, out=out)
    few = max(1, SMALL_PRODUCT // max(1, d * d))
    rows, sums, whole = np.ascontiguousarray(W).reshape(n, d), out.reshape(n, d), n // few * few
    if whole:
        np.matmul(rows[:whole].reshape(-1, few, d), Q, out=sums[:whole].reshape(-1, few, d))
    np.matmul(rows[whole:], Q, out=sums[whole:])
    return out
