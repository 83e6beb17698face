"""The usual ways: what a statistician would try on a grouped table with a few lines of code.

A way takes standardised training rows, targets and groups (0 .. n-1), the test rows and their groups, and
returns predictions: numbers, or class probabilities.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from fedrelax.baselines.mixed import fit_intercept, fit_slopes
from fedrelax.linear.arrays import with_constant

PENALTIES = np.logspace(-4, 3, 15)
"""Ridge penalties that cross-validation chooses from, for a sum (not a mean) of losses over rows."""
Way = Callable[[Any, Any, Any, Any, Any], Any]


def _one_hot(g: Any, n: int) -> Any:
    return np.eye(n)[g]


def local(X: Any, y: Any, g: Any, T: Any, h: Any) -> Any:
    """Ridge per group, each with its own penalty by leave-one-out."""
    out = np.empty(len(T))
    for i in np.unique(h):
        own = g == i
        out[h == i] = RidgeCV(PENALTIES).fit(X[own], y[own]).predict(T[h == i])
    return out


def pooled(X: Any, y: Any, g: Any, T: Any, h: Any) -> Any:
    """One ridge for all rows."""
    return RidgeCV(PENALTIES).fit(X, y).predict(T)


def pooled_groups(X: Any, y: Any, g: Any, T: Any, h: Any) -> Any:
    """One ridge for all rows with a column for each group."""
    n = int(g.max()) + 1
    model = RidgeCV(PENALTIES).fit(np.hstack([X, _one_hot(g, n)]), y)
    return model.predict(np.hstack([T, _one_hot(h, n)]))


def mixed_intercept(X: Any, y: Any, g: Any, T: Any, h: Any) -> Any:
    """Linear mixed model with a random intercept."""
    return (with_constant(T) * fit_intercept(X, y, g)[h]).sum(axis=1)


def mixed_slopes(X: Any, y: Any, g: Any, T: Any, h: Any) -> Any:
    """Linear mixed model with random intercept and slopes of all columns that vary within groups."""
    return (with_constant(T) * fit_slopes(X, y, g)[h]).sum(axis=1)


def _trees(X: Any, g: Any) -> tuple[Any, dict[str, Any]]:
    settings = {"n_estimators": 200, "learning_rate": 0.1, "num_leaves": 4, "verbose": -1,
                "min_child_samples": 3, "random_state": 0, "n_jobs": 1,
                "min_data_per_group": 1, "cat_smooth": 1.0, "cat_l2": 1.0}  # fmt: skip
    return np.column_stack([X, g]), settings


def boosted(X: Any, y: Any, g: Any, T: Any, h: Any) -> Any:
    """LightGBM on all rows, small trees, the group as a category."""
    from lightgbm import LGBMRegressor

    rows, settings = _trees(X, g)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LGBMRegressor(**settings).fit(rows, y, categorical_feature=[X.shape[1]])
        return model.predict(np.column_stack([T, h]))


REGRESSION: dict[str, Way] = {
    "local": local,
    "pooled": pooled,
    "pooled+groups": pooled_groups,
    "mixed intercept": mixed_intercept,
    "mixed slopes": mixed_slopes,
    "lightgbm": boosted,
}


def _classes(X: Any, y: Any, T: Any, n_classes: int, folds: int = 5) -> Any:
    """Logistic regression with a cross-validated penalty, or with C = 1 if a class has only one row."""
    seen, counts = np.unique(y, return_counts=True)
    out = np.zeros((len(T), n_classes))
    if len(seen) == 1:
        out[:, int(seen[0])] = 1.0
        return out
    folds = min(folds, int(counts.min()))
    model: Any = LogisticRegression(max_iter=500)
    if folds >= 2:
        parts = StratifiedKFold(folds, shuffle=True, random_state=0)
        grid = {"C": np.logspace(-3, 2, 6)}
        model = GridSearchCV(model, grid, scoring="neg_log_loss", cv=parts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out[:, seen.astype(int)] = model.fit(X, y).predict_proba(T)
    return out


def local_classes(X: Any, y: Any, g: Any, T: Any, h: Any) -> Any:
    """Logistic regression per group, averaged with the overall class shares at a weight of one tenth."""
    n_classes = int(y.max()) + 1
    shares = np.bincount(y, minlength=n_classes) / len(y)
    out = np.empty((len(T), n_classes))
    for i in np.unique(h):
        own = g == i
        out[h == i] = 0.9 * _classes(X[own], y[own], T[h == i], n_classes, 3) + 0.1 * shares
    return out


def pooled_classes(X: Any, y: Any, g: Any, T: Any, h: Any) -> Any:
    """One logistic regression for all rows."""
    return _classes(X, y, T, int(y.max()) + 1)


def pooled_groups_classes(X: Any, y: Any, g: Any, T: Any, h: Any) -> Any:
    """One logistic regression for all rows with a column for each group."""
    n = int(g.max()) + 1
    return _classes(
        np.hstack([X, _one_hot(g, n)]), y, np.hstack([T, _one_hot(h, n)]), int(y.max()) + 1
    )


def boosted_classes(X: Any, y: Any, g: Any, T: Any, h: Any) -> Any:
    """LightGBM on all rows, small trees, the group as a category."""
    from lightgbm import LGBMClassifier

    rows, settings = _trees(X, g)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LGBMClassifier(**settings).fit(rows, y, categorical_feature=[X.shape[1]])
        return model.predict_proba(np.column_stack([T, h]))


CLASSES: dict[str, Way] = {
    "local": local_classes,
    "pooled": pooled_classes,
    "pooled+groups": pooled_groups_classes,
    "lightgbm": boosted_classes,
}
