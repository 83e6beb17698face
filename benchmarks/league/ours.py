"""What fedrelax predicts with its defaults, and whether it says that something else would be better."""

from __future__ import annotations

from typing import Any

from benchmarks.league.usual import Way
from fedrelax import FedRelaxClassifier, FedRelaxRegressor

AUTO = "fedrelax"


def auto(X: Any, y: Any, g: Any, T: Any, h: Any) -> Any:
    """``FedRelaxRegressor()``: predictions, and what it says would be better."""
    model = FedRelaxRegressor().fit(X, y, nodes=g)
    return model.predict(T, nodes=h), _said(model)


def auto_classes(X: Any, y: Any, g: Any, T: Any, h: Any) -> Any:
    """``FedRelaxClassifier()``: probabilities, and what it says would be better."""
    model = FedRelaxClassifier().fit(X, y, nodes=g)
    return model.predict_proba(T, nodes=h), _said(model)


def _said(model: Any) -> str:
    choice = model.choice_
    return "" if choice is None or choice.better is None else str(choice.better)


OURS: dict[str, dict[str, Way]] = {
    "regression": {AUTO: auto},
    "classes": {AUTO: auto_classes},
}
