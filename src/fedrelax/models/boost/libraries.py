"""What differs between the boosting libraries: names of settings, and training on soft labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedrelax.typing import AnyArray, FloatArray

Gradient = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""From scores of shape (rows, K), or (rows,) for two classes, to first and second derivatives."""


@dataclass(frozen=True)
class Library:
    """Names that one library uses; ``train`` and ``scores`` where it takes soft labels."""

    threads: str
    """The setting that holds the number of threads."""
    grows: str
    """The argument of ``fit`` that takes the model to which trees are added."""
    soft: str = ""
    """The class that is trained on soft labels directly, under one of the ``objectives``."""
    objectives: tuple[Any, ...] = ()
    hard: tuple[str, ...] = ()
    """Settings that make sense for hard labels only."""
    curvature: Callable[[int], float] = lambda outputs: 1.0
    """The factor before p (1 - p) in the second derivative for several classes."""
    train: Callable[[Any, AnyArray, Gradient, int, Any], Any] | None = None
    scores: Callable[[Any, Any, AnyArray], FloatArray] | None = None


def _train_xgboost(
    template: Any, X: AnyArray, gradient: Gradient, outputs: int, before: Any
) -> Any:
    import xgboost

    settings = {k: v for k, v in template.get_xgb_params().items() if v is not None}
    settings |= {"base_score": 0.0, "n_jobs": 1, "disable_default_eval_metric": True}
    settings.pop("objective", None)
    if outputs > 2:
        settings["num_class"] = outputs
    return xgboost.train(
        settings,
        _xgboost_rows(template, X, label=np.zeros(len(X))),
        template.get_num_boosting_rounds(),
        obj=lambda scores, _: gradient(scores),
        xgb_model=before,
        verbose_eval=False,
    )


def _score_xgboost(template: Any, booster: Any, X: AnyArray) -> FloatArray:
    rows = _xgboost_rows(template, X)
    return np.asarray(booster.predict(rows, output_margin=True), dtype=float)


def _xgboost_rows(template: Any, X: AnyArray, **given: Any) -> Any:
    """Return rows with the template's missing value and categories, which the booster does not know."""
    import xgboost

    return xgboost.DMatrix(
        X,
        missing=template.missing,
        feature_types=template.feature_types,
        enable_categorical=bool(template.enable_categorical),
        nthread=1,
        **given,
    )


def _train_lightgbm(
    template: Any, X: AnyArray, gradient: Gradient, outputs: int, before: Any
) -> Any:
    import lightgbm

    ours = ("n_estimators", "class_weight", "importance_type", "objective", "n_jobs")
    given = template.get_params().items()
    settings = {k: v for k, v in given if v is not None and k not in ours}
    settings |= {"objective": lambda scores, _: gradient(scores), "num_threads": 1}
    settings.setdefault("verbosity", -1)
    # LightGBM fails if no feature can be split; with few rows, it must not drop them all.
    settings.setdefault("min_data_in_bin", 1)
    settings["feature_pre_filter"] = False
    if outputs > 2:
        settings["num_class"] = outputs
    rows = lightgbm.Dataset(X, np.zeros(len(X)))
    return lightgbm.train(settings, rows, template.n_estimators, init_model=before)


def _score_lightgbm(template: Any, booster: Any, X: AnyArray) -> FloatArray:
    return np.asarray(booster.predict(X, raw_score=True, num_threads=1), dtype=float)


LIBRARIES: dict[str, Library] = {
    "xgboost": Library(
        threads="n_jobs",
        grows="xgb_model",
        soft="XGBClassifier",
        objectives=(None, "binary:logistic", "multi:softprob", "multi:softmax"),
        hard=("scale_pos_weight", "early_stopping_rounds", "callbacks"),
        curvature=lambda outputs: 2.0,
        train=_train_xgboost,
        scores=_score_xgboost,
    ),
    "lightgbm": Library(
        threads="n_jobs",
        grows="init_model",
        soft="LGBMClassifier",
        objectives=(None, "binary", "multiclass", "softmax", "cross_entropy"),
        hard=("class_weight", "scale_pos_weight", "is_unbalance"),
        curvature=lambda outputs: outputs / (outputs - 1),
        train=_train_lightgbm,
        scores=_score_lightgbm,
    ),
    "catboost": Library(threads="thread_count", grows="init_model"),
}
"""By the name of the package."""


def package_of(estimator: Any) -> str:
    """Return the name of the package that defines an estimator's class."""
    return type(estimator).__module__.partition(".")[0]


def takes_soft_labels(template: Any) -> bool:
    """Whether a classifier's settings mean the same when it is trained on soft labels directly."""
    library = LIBRARIES[package_of(template)]
    if library.train is None or type(template).__name__ != library.soft:
        return False
    settings = template.get_params()
    if settings.get("objective") not in library.objectives:
        return False
    if settings.get("boosting_type") == "rf":
        return False
    return all(settings.get(name) in (None, False, 1, 1.0) for name in library.hard)
