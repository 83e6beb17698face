"""What an estimator's class and settings tell: the loss it minimises, and how row weights reach it."""

from __future__ import annotations

import inspect

import numpy as np

from fedrelax.typing import FloatArray, IntArray, Model

SQUARED = frozenset({"squared"})
ABSOLUTE = frozenset({"absolute"})
LOG = frozenset({"log"})

FIXED = {
    **dict.fromkeys(
        str.split("""
        LinearRegression Ridge RidgeCV Lasso LassoCV ElasticNet ElasticNetCV BayesianRidge KernelRidge
        GaussianProcessRegressor KNeighborsRegressor MLPRegressor RidgeClassifier
        """),
        SQUARED,
    ),
    **dict.fromkeys(
        str.split("""
        LogisticRegression LogisticRegressionCV MLPClassifier HistGradientBoostingClassifier
        """),
        LOG,
    ),
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
OBJECTIVES: dict[str, frozenset[str]] = {
    **dict.fromkeys(("mean_squared_error", "reg:squarederror", "regression"), SQUARED),
    **dict.fromkeys(("mean_absolute_error", "reg:absoluteerror", "regression_l1"), ABSOLUTE),
    **dict.fromkeys(
        [f"{kind}_crossentropy" for kind in ("categorical", "sparse_categorical", "binary")], LOG
    ),
}
"""What Keras, XGBoost and LightGBM call these losses."""


def last_step(estimator: Model) -> Model:
    """Return the estimator that learns: the last step of a pipeline, or the estimator itself."""
    while hasattr(estimator, "steps") and hasattr(estimator, "named_steps"):
        estimator = estimator.steps[-1][1]
    return estimator


def package_of(estimator: Model) -> str:
    """Return the name of the package that defines an estimator's class."""
    return type(estimator).__module__.partition(".")[0]


def criterion_of(estimator: Model) -> frozenset[str] | None:
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
        for setting in (getattr(estimator, name, None) for name in ("loss", "criterion")):
            if isinstance(setting, str) and setting in SETTINGS:
                return SETTINGS[setting]
    return None


def weight_argument(estimator: Model) -> str | None:
    """Return the name under which ``estimator.fit`` takes row weights, or None if it takes none.

    A pipeline passes them to its last step, a search or a wrapper to the estimator inside.

    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.neighbors import KNeighborsRegressor
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> weight_argument(make_pipeline(StandardScaler(), Ridge()))
    'ridge__sample_weight'
    >>> weight_argument(make_pipeline(StandardScaler(), KNeighborsRegressor())) is None
    True
    """
    if hasattr(estimator, "steps") and hasattr(estimator, "named_steps"):
        last_name, last = estimator.steps[-1]
        inner = None if last in (None, "passthrough") else weight_argument(last)
        return None if inner is None else f"{last_name}__{inner}"
    parameters = inspect.signature(estimator.fit).parameters
    inside = _inner_estimators(estimator)
    if "sample_weight" in parameters:
        plain = all(weight_argument(inner) == "sample_weight" for inner in inside)
        return "sample_weight" if plain else None
    passes_on = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    return weight_argument(inside[0]) if passes_on and len(inside) == 1 else None


def _inner_estimators(estimator: Model) -> list[Model]:
    """Return the estimators that a meta-estimator trains with the weights it is given."""
    if type(estimator).__name__.startswith("Bagging"):
        return []  # Bagging turns weights into draws, so its members need not take any.
    names = ("estimator", "regressor", "base_estimator", "final_estimator")
    parts = [getattr(estimator, name, None) for name in names]
    members = getattr(estimator, "estimators", None)
    if isinstance(members, list):
        parts += [m[1] if isinstance(m, tuple) else m for m in members]
    return [part for part in parts if hasattr(part, "fit")]


def resample(weight: FloatArray, size: int, rng: np.random.Generator) -> IntArray:
    """Return ``size`` row numbers, in which row r occurs about size * weight_r / sum(weight) times.

    Systematic resampling: a row's count differs from that number by less than one, so the noise is far
    below that of independent draws.

    >>> resample(np.array([1.0, 1.0, 2.0]), 4, np.random.default_rng(0)).tolist()
    [0, 1, 2, 2]
    """
    ends = np.cumsum(weight)
    points = (np.arange(size) + rng.random()) * (ends[-1] / size)
    rows = np.searchsorted(ends, points, side="right")
    return np.asarray(np.minimum(rows, len(weight) - 1), dtype=np.int64)
