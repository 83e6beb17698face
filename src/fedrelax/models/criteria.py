"""Which loss a scikit-learn estimator minimises, read off its class and its settings."""

from __future__ import annotations

from typing import Any

SQUARED = frozenset({"squared"})
ABSOLUTE = frozenset({"absolute"})
LOG = frozenset({"log"})

FIXED: dict[str, frozenset[str]] = {
    "LinearRegression": SQUARED,
    "Ridge": SQUARED,
    "RidgeCV": SQUARED,
    "Lasso": SQUARED,
    "LassoCV": SQUARED,
    "ElasticNet": SQUARED,
    "ElasticNetCV": SQUARED,
    "BayesianRidge": SQUARED,
    "KernelRidge": SQUARED,
    "GaussianProcessRegressor": SQUARED,
    "KNeighborsRegressor": SQUARED,
    "MLPRegressor": SQUARED,
    "RidgeClassifier": SQUARED,
    "LogisticRegression": LOG,
    "LogisticRegressionCV": LOG,
    "MLPClassifier": LOG,
    "HistGradientBoostingClassifier": LOG,
}
SETTINGS: dict[str, frozenset[str]] = {
    "squared_error": SQUARED,
    "friedman_mse": SQUARED,
    "squared_loss": SQUARED,
    "absolute_error": ABSOLUTE,
    "huber": frozenset({"huber"}),
    "log_loss": LOG,
    "entropy": LOG,
    "gini": SQUARED | LOG,  # A leaf's class shares minimise both.
}
SETTING_NAMES = ("loss", "criterion")


def last_step(estimator: Any) -> Any:
    """Return the estimator that learns: the last step of a pipeline, or the estimator itself."""
    while hasattr(estimator, "steps") and hasattr(estimator, "named_steps"):
        estimator = estimator.steps[-1][1]
    return estimator


def criterion_of(estimator: Any) -> frozenset[str] | None:
    """Return the names of the losses that ``fit`` minimises, or None where it cannot be told.

    >>> from sklearn.tree import DecisionTreeRegressor
    >>> sorted(criterion_of(DecisionTreeRegressor(criterion="absolute_error")))
    ['absolute']
    """
    estimator = last_step(estimator)
    kind = type(estimator).__name__
    if kind == "QuantileRegressor":
        return ABSOLUTE if estimator.quantile == 0.5 else frozenset()
    if kind in FIXED and getattr(estimator, "loss", "squared_error") != "poisson":
        return FIXED[kind]
    if kind == "GradientBoostingRegressor" or not kind.startswith("GradientBoosting"):
        for name in SETTING_NAMES:
            setting = getattr(estimator, name, None)
            if isinstance(setting, str) and setting in SETTINGS:
                return SETTINGS[setting]
    return None
