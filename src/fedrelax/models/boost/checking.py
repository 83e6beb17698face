"""A trial of a boosted model's file: load it, check tree by tree, predict. For a child process only.

The process may crash, hang or run out of memory: that, too, tells that the file is bad.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.models.boost.classifier import BoostedClassifier, CodedClassifier
from fedrelax.models.boost.files import from_bytes


def try_file(data: bytes, features: int, rows: int) -> None:
    """Load a file, check its trees and predict some rows; raise an error if anything is wrong."""
    model = from_bytes(data, ())
    booster = _booster(model)
    if booster is not None:
        _check_booster(booster, features)
    _check_answers(model, features, rows)


def _check_answers(model: Any, features: int, rows: int) -> None:
    """Predict a row of zeros, and rows of many orders of magnitude."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, features)) * 10.0 ** rng.integers(-3, 6, size=(rows, 1))
    X[0] = 0.0
    known = model.classes_ if hasattr(model, "predict_proba") else None
    answer = np.asarray(model.predict(X) if known is None else model.predict_proba(X))
    if len(answer) != rows or answer.dtype.kind != "f" or not np.isfinite(answer).all():
        raise FedRelaxError("its saved model predicts something other than finite numbers")
    if known is not None and answer.shape != (rows, len(known)):
        raise FedRelaxError(f"its saved model does not predict its {len(known)} classes")


def _booster(model: Any) -> Any:
    if isinstance(model, BoostedClassifier):
        return model.booster_
    inner = model.estimator_ if isinstance(model, CodedClassifier) else model
    if hasattr(inner, "get_booster"):
        return inner.get_booster()
    return getattr(inner, "booster_", None)


def _check_booster(booster: Any, features: int) -> None:
    if type(booster).__module__.startswith("xgboost"):
        _check_xgboost(booster, features)
    elif type(booster).__module__.startswith("lightgbm"):
        _check_lightgbm(booster, features)


def _check_xgboost(booster: Any, features: int) -> None:
    """Check the trees as XGBoost would save them again."""
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    _same(booster.num_features(), features)
    model = (
        learner["gradient_booster"].get("model") or learner["gradient_booster"]["gbtree"]["model"]
    )
    for tree in model.get("trees", []):
        left = np.asarray(tree["left_children"], dtype=np.int64)
        right = np.asarray(tree["right_children"], dtype=np.int64)
        asked = np.asarray(tree["split_indices"], dtype=np.int64)
        inner = left != -1
        place = np.flatnonzero(inner)
        for child in (left[inner], right[inner]):
            if (child <= place).any() or (child >= len(left)).any():
                raise FedRelaxError("its saved model has a damaged tree")
        if (asked[inner] < 0).any() or (asked[inner] >= features).any():
            raise FedRelaxError(f"its saved model asks for more than {features} features")


def _check_lightgbm(booster: Any, features: int) -> None:
    """Check the trees as LightGBM dumps them."""
    _same(booster.num_feature(), features)
    waiting = [tree["tree_structure"] for tree in booster.dump_model()["tree_info"]]
    while waiting:
        node = waiting.pop()
        if "split_feature" not in node:
            continue
        if not 0 <= node["split_feature"] < features:
            raise FedRelaxError(f"its saved model asks for more than {features} features")
        waiting += [node["left_child"], node["right_child"]]


def _same(found: int, wanted: int) -> None:
    if found != wanted:
        raise FedRelaxError(f"its saved model takes {found} features, and the result has {wanted}")
