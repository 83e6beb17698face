"""``LogisticRegression`` on soft labels of many classes, without a copy of each row for each class."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression

from fedrelax.losses import Log
from fedrelax.models.base import Rows
from fedrelax.models.linear import SoftmaxModel
from fedrelax.typing import AnyArray, FloatArray, Model

MANY_NUMBERS = 2_000_000
"""Copies times classes (the size of what scikit-learn computes in every step) above which this pays."""


def is_served(template: Model, share: FloatArray) -> bool:
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

    Minimises scikit-learn's ``sum_rc share_rc (-log p_c(x_r)) + |coef|^2 / 2C``, to more digits.
    """
    seen = share.any(axis=0)
    X, share = np.asarray(X, dtype=float), share[:, seen]
    found = SoftmaxModel(ridge=0.5 / estimator.C, fit_intercept=estimator.fit_intercept)
    found.fit_terms([Rows(X, share, np.ones(len(X)), Log())])
    estimator.classes_, estimator.n_features_in_ = classes[seen], X.shape[1]
    estimator.coef_, estimator.intercept_ = found.coef_, found.intercept_
    estimator.n_iter_ = np.ones(1, dtype=np.int32)
    return estimator
