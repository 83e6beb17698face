"""What fedrelax gives: everything found from the rows, and the estimators with nothing set."""

from __future__ import annotations

from typing import Any

from benchmarks.league.usual import Way
from fedrelax import FedRelaxClassifier, FedRelaxRegressor

AUTO = "fedrelax auto"


def auto(X: Any, y: Any, g: Any, T: Any, h: Any) -> Any:
    """``FedRelaxRegressor("auto", alpha="auto")``."""
    return FedRelaxRegressor("auto", alpha="auto").fit(X, y, nodes=g).predict(T, nodes=h)


def auto_classes(X: Any, y: Any, g: Any, T: Any, h: Any) -> Any:
    """``FedRelaxClassifier("auto", alpha="auto")``."""
    return FedRelaxClassifier("auto", alpha="auto").fit(X, y, nodes=g).predict_proba(T, nodes=h)


def newcomer(X: Any, y: Any, g: Any, T: Any, h: Any) -> Any:
    """``FedRelaxRegressor()`` with nothing set."""
    return FedRelaxRegressor().fit(X, y, nodes=g).predict(T, nodes=h)


def newcomer_classes(X: Any, y: Any, g: Any, T: Any, h: Any) -> Any:
    """``FedRelaxClassifier()`` with nothing set."""
    return FedRelaxClassifier().fit(X, y, nodes=g).predict_proba(T, nodes=h)


OURS: dict[str, dict[str, Way]] = {
    "regression": {AUTO: auto},
    "classes": {AUTO: auto_classes},
}
NEWCOMER: dict[str, dict[str, Way]] = {
    "regression": {"fedrelax": newcomer},
    "classes": {"fedrelax": newcomer_classes},
}
