"""``LogisticRegression`` on soft labels of many classes, without a copy of each row for each class."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from fedrelax.linear.arrays import with_constant
from fedrelax.losses import Log
from fedrelax.models.base import Rows
from fedrelax.models.linear import objective_of
from fedrelax.typing import AnyArray, FloatArray

MANY_NUMBERS = 2_000_000
"""Copies times classes (the size of what scikit-learn computes in every step) above which this pays."""


def is_served(template: Any, share: FloatArray) -> bool:
    """Tell whether ``fit_soft`` pays for soft labels ``share`` (rows, classes) and supports the model."""
    if type(template) is not LogisticRegression:
        return False
    copies = np.count_nonzero(share)
    classes = np.count_nonzero(share.any(axis=0))
    if classes < 3 or copies == len(share) or copies * classes <= MANY_NUMBERS:
        return False
    given = template.get_params(deep=False)
    return (
        given["solver"] == "lbfgs"
        and given["penalty"] in ("l2", "deprecated")
        and not given.get("l1_ratio")
        and given["class_weight"] is None
        and not given["warm_start"]
        and np.isfinite(given["C"])
        and given["C"] > 0
    )


def fit_soft(
    estimator: LogisticRegression, X: AnyArray, share: FloatArray, classes: AnyArray
) -> LogisticRegression:
    """Fit to rows whose label is c with weight ``share[:, c]``, as K copies of each row would.

    The objective is scikit-learn's, ``(sum_rc share_rc (-log p_c(x_r)) + |coef|^2 / 2C) / sum share``,
    and so are start, method and tolerances; only the sum over a row's copies is taken first. The
    steps are the same up to rounding.
    """
    seen = share.any(axis=0)
    X, share = np.asarray(X, dtype=float), share[:, seen]
    free = int(estimator.fit_intercept)
    total = float(share.sum())
    penalty = np.append(np.full(X.shape[1], 0.5 / (estimator.C * total)), np.zeros(free))
    shape = (len(penalty), share.shape[1])
    term = Rows(X, share, np.full(len(X), 1 / total), Log())
    found = minimize(
        objective_of([term], [with_constant(X, bool(free))], penalty, shape, link=True),
        np.zeros(shape).ravel(),
        jac=True,
        method="L-BFGS-B",
        options={
            "maxiter": estimator.max_iter,
            "maxls": 50,
            "gtol": estimator.tol,
            "ftol": 64 * np.finfo(float).eps,
        },
    )
    W = found.x.reshape(shape)
    estimator.classes_ = classes[seen]
    estimator.coef_ = np.ascontiguousarray(W[: X.shape[1]].T)
    estimator.intercept_ = W[-1].copy() if free else np.zeros(shape[1])
    estimator.n_features_in_ = X.shape[1]
    estimator.n_iter_ = np.array([found.nit], dtype=np.int32)
    return estimator
