"""Gaussian process regression: row weights become noise levels, which is exact."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrelax.models.scikit import ScikitModel
from fedrelax.typing import AnyArray, FloatArray


class GaussianProcessModel(ScikitModel):
    """A ``GaussianProcessRegressor`` whose noise ``alpha`` is divided by the row weights.

    Rows at the same point are merged into their weighted mean first (the same posterior), since
    a kernel matrix with equal rows is singular.
    """

    @property
    def weights(self) -> str:
        """Exact: the likelihood of a row with noise alpha / w is that of w such rows."""
        return "exact"

    def _fit_weighted(
        self, estimator: Any, X: AnyArray, y: AnyArray, weight: FloatArray, seed: int
    ) -> Any:
        points, group = np.unique(X, axis=0, return_inverse=True)
        total = np.bincount(group, weights=weight)
        outputs = y.reshape(len(y), -1)
        mean = np.stack(
            [np.bincount(group, weights=weight * column) / total for column in outputs.T], axis=1
        )
        noise = np.broadcast_to(estimator.alpha, len(points)) / total
        estimator.set_params(alpha=noise)
        return estimator.fit(points, mean[:, 0] if y.ndim == 1 else mean)
