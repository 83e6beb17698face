"""XGBoost and LightGBM as local models, and on disk (extra ``boost``).

A file is a zip of the library's own model file and JSON. Loading runs no code from it, but a library may
crash on a manipulated file; ``storage.child`` tries files from others first.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyClassifier
from sklearn.utils.validation import check_is_fitted

from fedrelax.errors import FedRelaxError
from fedrelax.extras import need
from fedrelax.models.archive import (
    classes_in,
    closed,
    described_classes,
    json_member,
    member,
    opened,
)
from fedrelax.models.base import MostLikelyClass, Task, some
from fedrelax.models.criteria import LOG, OBJECTIVES, last_step, package_of
from fedrelax.models.scikit import UNROUTED, ScikitModel, fresh
from fedrelax.typing import AnyArray, FloatArray, Model

LIBRARIES = {
    "xgboost": ("XGBRegressor", "XGBClassifier", "XGBRFRegressor", "XGBRFClassifier"),
    "lightgbm": ("LGBMRegressor", "LGBMClassifier"),
}
ABOUT, MODEL = "about.json", "model"


@dataclass(eq=False, repr=False)
class CodedClassifier(MostLikelyClass, BaseEstimator):  # type: ignore[misc]
    """Any labels for a classifier that accepts only 0 to k - 1, as that of XGBoost does.

    estimator : the classifier that gets the codes; after ``fit`` it is ``estimator_``.
    """

    estimator: Model
    classes_: AnyArray = field(init=False)

    def fit(self, X: AnyArray, y: AnyArray, **arguments: Any) -> Self:
        """Fit the estimator to codes; ``arguments`` are passed to its ``fit``."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.estimator_ = self.estimator.fit(X, codes, **arguments)
        return self

    def predict_proba(self, X: AnyArray) -> FloatArray:
        """Return class probabilities in the order of ``classes_``."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict_proba(X))


class BoostModel(ScikitModel):
    """A model of XGBoost or LightGBM.

    Every fit uses one thread and starts afresh. XGBoost's classifiers become a ``CodedClassifier``.
    """

    def __init__(self, estimator: Model, task: Task) -> None:
        super().__init__(estimator, task)
        step = last_step(estimator)
        if task.is_classification:
            self.fits = LOG
        else:
            asked = step.get_params()["objective"] or "regression"
            self.fits = OBJECTIVES.get(asked) if isinstance(asked, str) else None
        if task.n_outputs > 1 and not task.is_classification and "LGBM" in self.name:
            raise FedRelaxError(
                f"{self.name} predicts one number per row and the target has {task.n_outputs}; wrap "
                "it in sklearn.multioutput.MultiOutputRegressor"
            )

    def forgets(self, continued: bool) -> bool:
        """Every fit starts afresh: more trees on top of those for other targets help no round."""
        return True

    def _fit_estimator(
        self, X: AnyArray, y: AnyArray, weight: FloatArray, seed: int, continued: bool
    ) -> Model:
        classify = self.task.is_classification
        alike = isinstance(X, np.ndarray) and bool((X[0] == X).all())
        if classify and alike:
            return DummyClassifier(strategy="prior").fit(X, y, weight)
        if len(X) == 1:  # LightGBM refuses a single row; two copies of half its weight are the same
            X, y, weight = some(X, np.array([0, 0])), y[[0, 0]], weight[[0, 0]] / 2
        estimator = fresh(self._template, seed)
        inner = last_step(estimator)
        inner.set_params(n_jobs=1)
        arguments: dict[str, Any] = {}
        if self._weight_argument is not None:
            arguments[self._weight_argument] = weight
        if classify and type(inner).__name__.startswith("XGB"):
            estimator = CodedClassifier(estimator)
        with config_context(**UNROUTED):
            return estimator.fit(X, y, **arguments)


# Files


def library_of(model: Model) -> str | None:
    """Return the library in whose format a model is saved, or None if it belongs to none."""
    inner = _inside(model)
    package = package_of(inner)
    return package if type(inner).__name__ in LIBRARIES.get(package, ()) else None


def check_savable(model: Model) -> None:
    """Refuse settings that JSON cannot hold, such as a function, before the model is trained."""
    _settings(_inside(model))


def to_bytes(model: Model) -> bytes:
    """Return a fitted model of a boosting library as a zip file."""
    inner = _inside(model)
    package, name = package_of(inner), type(inner).__name__
    classes = getattr(model, "classes_", None) if "Classifier" in name else None
    about = {
        "class": name,
        "library": package,
        "form": "coded" if inner is not model else "plain",
        "settings": _settings(inner),
        **described_classes(None if classes is None else np.asarray(classes)),
    }
    members = {ABOUT: json.dumps(about).encode(), MODEL: _write(package, inner)}
    return closed(members, zipfile.ZIP_DEFLATED)


def from_bytes(data: bytes, trust: Sequence[str]) -> Model:
    """Return the model in a zip file."""
    members = opened(data)
    about, content = json_member(members, ABOUT), member(members, MODEL)
    package, name = about["library"], about["class"]
    if name not in LIBRARIES.get(package, ()):
        raise FedRelaxError(f"its file names {package}.{name}, which is not a boosted model")
    if about["form"] not in ("plain", "coded"):
        raise FedRelaxError(
            f"its {name} was saved by an earlier version of fedrelax, in a form that is no longer read; "
            "run the fit again"
        )
    classes = classes_in(about)
    inner = getattr(need(package, "boost"), name)(**about["settings"])
    inner = _read(package, inner, content, classes)
    if about["form"] == "plain":
        return inner
    coded = CodedClassifier(inner)
    coded.estimator_, coded.classes_ = inner, np.asarray(classes)
    return coded


def _inside(model: Model) -> Model:
    """Return the library's own estimator."""
    if not isinstance(model, CodedClassifier):
        return model
    return getattr(model, "estimator_", model.estimator)


def _settings(estimator: Model) -> dict[str, Any]:
    settings = {}
    for name, value in estimator.get_params().items():
        value = value.item() if isinstance(value, np.generic) else value
        try:
            json.dumps(value)
        except TypeError:
            raise FedRelaxError(
                f"its model {type(estimator).__name__} has {name}={value!r}, which cannot be saved; "
                "use a string, a number or a list of these"
            ) from None
        settings[name] = value
    return settings


def _write(package: str, estimator: Model) -> bytes:
    """Return a model as the bytes of its library's own format."""
    if package == "xgboost":
        return bytes(estimator.get_booster().save_raw("ubj"))
    return str(estimator.booster_.model_to_string(num_iteration=-1)).encode()


def _read(package: str, estimator: Model, content: bytes, classes: AnyArray | None) -> Model:
    """Return the estimator with the trees of a file."""
    if package == "xgboost":
        estimator.load_model(bytearray(content))
    else:  # LightGBM's scikit-learn classes have no method for that.
        from sklearn.preprocessing import LabelEncoder

        estimator._Booster = need(package, "boost").Booster(model_str=content.decode())
        estimator._n_features = estimator._n_features_in = estimator._Booster.num_feature()
        estimator.fitted_ = True
        if classes is not None:
            estimator._le = LabelEncoder()
            estimator._le.classes_ = estimator._classes = classes
            estimator._n_classes = len(classes)
            usual = "multiclass" if len(classes) > 2 else "binary"
            estimator._objective = estimator.objective or usual
    return estimator


# Files from others


def try_file(data: bytes, features: int, rows: int) -> None:
    """Load a file, check its trees and predict some rows; raise an error if anything is wrong.

    For a child process only: it may crash, hang or run out of memory, which, too, tells that the file
    is bad.
    """
    model = from_bytes(data, ())
    _check_trees(_inside(model), features)
    # A row of zeros, and rows of many orders of magnitude.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, features)) * 10.0 ** rng.integers(-3, 6, size=(rows, 1))
    X[0] = 0.0
    classes = model.classes_ if hasattr(model, "predict_proba") else None
    answer = np.asarray(model.predict(X) if classes is None else model.predict_proba(X))
    if len(answer) != rows or answer.dtype.kind != "f" or not np.isfinite(answer).all():
        raise FedRelaxError("its saved model predicts something other than finite numbers")
    if classes is not None and answer.shape != (rows, len(classes)):
        raise FedRelaxError(f"its saved model does not predict its {len(classes)} classes")


def _check_trees(estimator: Model, features: int) -> None:
    """Check trees as the library has understood them."""
    asked: list[int] = []
    if package_of(estimator) == "xgboost":
        booster = estimator.get_booster()
        takes = booster.num_features()
        gradient = json.loads(bytes(booster.save_raw("json")))["learner"]["gradient_booster"]
        for tree in (gradient.get("model") or gradient["gbtree"]["model"]).get("trees", []):
            left = np.asarray(tree["left_children"], dtype=np.int64)
            parents = np.flatnonzero(left != -1)
            for side in ("left_children", "right_children"):
                children = np.asarray(tree[side], dtype=np.int64)[parents]
                if (children <= parents).any() or (children >= len(left)).any():
                    raise FedRelaxError("its saved model has a damaged tree")
            asked += np.asarray(tree["split_indices"], dtype=np.int64)[parents].tolist()
    else:
        takes = estimator.booster_.num_feature()
        waiting = [tree["tree_structure"] for tree in estimator.booster_.dump_model()["tree_info"]]
        while waiting:
            node = waiting.pop()
            if "split_feature" in node:
                asked.append(node["split_feature"])
                waiting += [node["left_child"], node["right_child"]]
    if takes != features:
        raise FedRelaxError(
            f"its saved model takes {takes} features, and the result has {features}"
        )
    if not all(0 <= feature < features for feature in asked):
        raise FedRelaxError(f"its saved model asks for more than {features} features")
