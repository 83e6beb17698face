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

PENALTIES = np.logspace(-4, 3, 15)
"""Ridge penalties that cross-validation chooses from, on rows counted as rows."""
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


def _start(A: Any, y: Any, g: Any, varies: list[int], steps: int = 100) -> tuple[Any, Any]:
    """Return fixed effects and relative covariance after some steps of EM, a start for statsmodels.

    From its own start its optimisers often stop far from the maximum, and take ten times longer.
    """
    n, q = int(g.max()) + 1, len(varies)
    Z = A[:, varies]
    ZZ, ZA, Zy = np.zeros((n, q, q)), np.zeros((n, q, A.shape[1])), np.zeros((n, q))
    np.add.at(ZZ, g, Z[:, :, None] * Z[:, None, :])
    np.add.at(ZA, g, Z[:, :, None] * A[:, None, :])
    np.add.at(Zy, g, Z * y[:, None])
    psi, noise, AA, Ay = np.eye(q), 1.0, A.T @ A, A.T @ y
    beta = np.zeros(A.shape[1])
    for _ in range(steps):
        C = np.linalg.inv(ZZ / noise + np.linalg.pinv(psi))
        inner = C @ ZA / noise
        system = AA - np.einsum("nqa,nqb->ab", ZA, inner)
        beta = np.linalg.lstsq(system, Ay - np.einsum("nqa,nq->a", inner, Zy), rcond=None)[0]
        u = np.einsum("nqr,nr->nq", C, Zy - ZA @ beta) / noise
        psi = (np.einsum("nq,nr->qr", u, u) + C.sum(axis=0)) / n + 1e-9 * np.eye(q)
        rest = y - A @ beta - (Z * u[g]).sum(axis=1)
        noise = max(float((rest @ rest + np.einsum("nqr,nrq->", ZZ, C)) / len(y)), 1e-9)
    return beta, psi / noise


def _mixed(X: Any, y: Any, g: Any, T: Any, h: Any, slopes: bool) -> Any:
    """Fit a linear mixed model by REML; predict with each group's BLUP."""
    from statsmodels.regression.mixed_linear_model import MixedLM, MixedLMParams

    level, scale = y.mean(), y.std() or 1.0
    A, B = np.column_stack([np.ones(len(X)), X]), np.column_stack([np.ones(len(T)), T])
    varies = [0]
    if slopes:
        within = np.array([np.ptp(X[g == i], axis=0) for i in np.unique(g)])
        varies += [c + 1 for c in range(X.shape[1]) if (within[:, c] > 0).mean() > 0.5]
    z = (y - level) / scale
    beta, relative = _start(A, z, g, varies)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MixedLM(z, A, g, exog_re=A[:, varies])
        start = MixedLMParams.from_components(fe_params=beta, cov_re=relative)
        fit = model.fit(start_params=start, reml=True, method=["lbfgs"], maxiter=50)
        effects = fit.random_effects
    deviations = np.zeros((int(g.max()) + 1, len(varies)))
    for i, effect in effects.items():
        deviations[int(i)] = np.asarray(effect, dtype=float)
    out = B @ np.asarray(fit.fe_params) + (B[:, varies] * deviations[h]).sum(axis=1)
    if not np.isfinite(out).all():
        raise np.linalg.LinAlgError("the mixed model's predictions are not finite")
    return level + scale * out


def mixed_intercept(X: Any, y: Any, g: Any, T: Any, h: Any) -> Any:
    """Linear mixed model with a random intercept."""
    return _mixed(X, y, g, T, h, slopes=False)


def mixed_slopes(X: Any, y: Any, g: Any, T: Any, h: Any) -> Any:
    """Linear mixed model with random intercept and slopes of all columns that vary within groups.

    Where the covariance cannot be estimated (statsmodels meets a singular matrix), a statistician
    falls back on the random intercept, and so does this way.
    """
    try:
        return _mixed(X, y, g, T, h, slopes=True)
    except (np.linalg.LinAlgError, ValueError):
        return _mixed(X, y, g, T, h, slopes=False)


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
    """Logistic regression with a penalty by folds; where a class has one row, with C = 1."""
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
    """Logistic regression per group, mixed with a tenth of the overall shares of classes."""
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
