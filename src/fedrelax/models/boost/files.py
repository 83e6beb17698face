"""Boosted models on disk: a zip of the library's own model file and JSON. Loading runs no code from it.

A library may crash on a manipulated file; ``storage.child`` tries files from others first.
"""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.extras import need
from fedrelax.models.archive import json_member, member, opened
from fedrelax.models.boost.classifier import BoostedClassifier, CodedClassifier
from fedrelax.models.boost.libraries import package_of

KNOWN = {
    "xgboost": ("XGBRegressor", "XGBClassifier", "XGBRFRegressor", "XGBRFClassifier"),
    "lightgbm": ("LGBMRegressor", "LGBMClassifier"),
    "catboost": ("CatBoostRegressor", "CatBoostClassifier"),
}
ABOUT, MODEL = "about.json", "model"


def library_of(model: Any) -> str | None:
    """Return the library in whose format a model is saved, or None if it belongs to none."""
    inner = _inside(model)
    package = package_of(inner)
    return package if type(inner).__name__ in KNOWN.get(package, ()) else None


def library_in(data: bytes) -> str | None:
    """Return the library that a file names, if it is a known one."""
    try:
        named = json_member(opened(data), ABOUT).get("library")
    except FedRelaxError:
        return None
    return named if isinstance(named, str) and named in KNOWN else None


def check_savable(model: Any) -> None:
    """Refuse settings that JSON cannot hold, such as a function, before the model is trained."""
    _settings(_inside(model))


def to_bytes(model: Any) -> bytes:
    """Return a fitted model of a boosting library as a zip file."""
    inner = _inside(model)
    package = package_of(inner)
    name = type(inner).__name__
    about: dict[str, Any] = {
        "class": name,
        "library": package,
        "form": _form(model),
        "settings": _settings(inner),
        "classes": None,
    }
    classes = getattr(model, "classes_", None) if "Classifier" in name else None
    if classes is not None:
        classes = np.asarray(classes)
        about |= {"classes": classes.tolist(), "classes_type": classes.dtype.str}
    if isinstance(model, BoostedClassifier):
        about |= {"start": model.start_.tolist(), "features": model.n_features_in_}
        content = _write_booster(package, model.booster_)
    else:
        content = _WRITERS[package](inner)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(ABOUT, json.dumps(about))
        file.writestr(MODEL, content)
    return buffer.getvalue()


def from_bytes(data: bytes, trust: Sequence[str]) -> Any:
    """Return the model in a zip file."""
    members = opened(data)
    about, content = json_member(members, ABOUT), member(members, MODEL)
    package, name = about["library"], about["class"]
    if name not in KNOWN.get(package, ()):
        raise FedRelaxError(f"its file names {package}.{name}, which is not a boosted model")
    library = need(package, "boost")
    inner = getattr(library, name)(**about["settings"])
    classes: Any = None
    if about["classes"] is not None:
        classes = np.asarray(about["classes"], dtype=np.dtype(about["classes_type"]))
    if about["form"] == "soft":
        made = BoostedClassifier(inner)
        made.classes_, made.n_features_in_ = classes, about["features"]
        made.start_ = np.asarray(about["start"], dtype=float)
        made.booster_ = _read_booster(package, content)
        return made
    inner = _READERS[package](inner, content, classes)
    if about["form"] == "coded":
        coded = CodedClassifier(inner)
        coded.estimator_, coded.classes_ = inner, classes
        return coded
    return inner


def _form(model: Any) -> str:
    if isinstance(model, BoostedClassifier):
        return "soft"
    return "coded" if isinstance(model, CodedClassifier) else "plain"


def _inside(model: Any) -> Any:
    """Return the library's own estimator."""
    if isinstance(model, BoostedClassifier):
        return model.template
    if isinstance(model, CodedClassifier):
        return getattr(model, "estimator_", model.estimator)
    return model


def _settings(estimator: Any) -> dict[str, Any]:
    found = {}
    for name, value in estimator.get_params().items():
        value = value.item() if isinstance(value, np.generic) else value
        try:
            json.dumps(value)
        except TypeError:
            raise FedRelaxError(
                f"its model {type(estimator).__name__} has {name}={value!r}, which cannot be saved; "
                "use a string, a number or a list of these"
            ) from None
        found[name] = value
    return found


def _write_booster(package: str, booster: Any) -> bytes:
    if booster is None:
        return b""
    if package == "xgboost":
        return bytes(booster.save_raw("ubj"))
    return str(booster.model_to_string(num_iteration=-1)).encode()


def _read_booster(package: str, content: bytes) -> Any:
    if not content:
        return None
    if package == "xgboost":
        import xgboost

        booster = xgboost.Booster()
        booster.load_model(bytearray(content))
        return booster
    import lightgbm

    return lightgbm.Booster(model_str=content.decode())


def _read_xgboost(estimator: Any, content: bytes, classes: Any) -> Any:
    estimator.load_model(bytearray(content))
    return estimator


def _read_lightgbm(estimator: Any, content: bytes, classes: Any) -> Any:
    """Set the booster of the scikit-learn class, which has no method for that."""
    from sklearn.preprocessing import LabelEncoder

    estimator._Booster = _read_booster("lightgbm", content)
    estimator._n_features = estimator._n_features_in = estimator._Booster.num_feature()
    estimator.fitted_ = True
    if classes is not None:
        estimator._le = LabelEncoder()
        estimator._le.classes_ = estimator._classes = classes
        estimator._n_classes = len(classes)
    return estimator


def _write_catboost(estimator: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.cbm"
        estimator.save_model(str(file), format="cbm")
        return file.read_bytes()


def _read_catboost(estimator: Any, content: bytes, classes: Any) -> Any:
    return estimator.load_model(blob=content)


_WRITERS: dict[str, Callable[[Any], bytes]] = {
    "xgboost": lambda estimator: _write_booster("xgboost", estimator.get_booster()),
    "lightgbm": lambda estimator: _write_booster("lightgbm", estimator.booster_),
    "catboost": _write_catboost,
}
_READERS: dict[str, Callable[[Any, bytes, Any], Any]] = {
    "xgboost": _read_xgboost,
    "lightgbm": _read_lightgbm,
    "catboost": _read_catboost,
}
