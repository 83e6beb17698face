"""What would a neighbour predict on my rows? A guess from what it predicts on public rows."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from fedrelax.linear.arrays import centre_and_spread
from fedrelax.typing import AnyArray, FloatArray

RIDGE = 1e-3
"""Penalty relative to the mean of the kernel's diagonal: keeps the guess stable between public rows."""


class Smoother:
    """Kernel ridge regression on public rows: k(x, z) = 1 + x'z/d + exp(-|x - z|^2 / (2 h^2)).

    Features are standardised by the public rows, and h is the root mean square distance between them.
    The linear part extends linear models to any row; the Gaussian part adds curvature.
    """

    def __init__(self, public: AnyArray) -> None:
        rows = np.asarray(public, dtype=float).reshape(len(public), -1)
        self._centre, spread = centre_and_spread(rows)
        self._scale = spread * np.sqrt(rows.shape[1])
        self._rows = self._standard(rows)
        self._width = 2.0  # |x - z|^2 of standardised rows over d has the mean 2
        kernel = self._kernel(self._rows)
        kernel[np.diag_indices(len(kernel))] += RIDGE * np.trace(kernel) / len(kernel)
        self._factor = cho_factor(kernel)

    def coefficients(self, answers: FloatArray) -> FloatArray:
        """Return the kernel coefficients of answers (rows, outputs) on the public rows."""
        return np.asarray(cho_solve(self._factor, answers))

    def weights(self, X: AnyArray) -> FloatArray:
        """Return K such that ``K @ coefficients`` is the guess on rows X."""
        rows = np.asarray(X, dtype=float).reshape(len(X), -1)
        return self._kernel(self._standard(rows))

    def carrying(self, X: AnyArray) -> FloatArray:
        """Return W such that ``W @ answers`` is the guess on rows X: for few rows, many nodes.

        Rows whose squares overflow give NaN.
        """
        return np.asarray(cho_solve(self._factor, self.weights(X).T, check_finite=False).T)

    def _standard(self, rows: FloatArray) -> FloatArray:
        return np.asarray((rows - self._centre) / self._scale)

    def _kernel(self, rows: FloatArray) -> FloatArray:
        inner = rows @ self._rows.T
        square = np.square(rows).sum(axis=1)[:, None] + np.square(self._rows).sum(axis=1)
        apart = np.maximum(square - 2 * inner, 0.0)
        return np.asarray(1.0 + inner + np.exp(-apart / (2 * self._width)))
