"""What fedrelax gives: the choosing core by itself, and the estimators as a newcomer uses them."""

from __future__ import annotations

from typing import Any

from benchmarks.league.usual import Way
from fedrelax.engines.whole.ridge import choose_ridge
from fedrelax.engines.whole.softmax import choose_softmax


def core(X: Any, y: Any, g: Any, T: Any, h: Any) -> Any:
    """Ridge for the whole network: all settings by evidence."""
    return choose_ridge(X, y, g, int(g.max()) + 1).predict(T, h)


def core_straight(X: Any, y: Any, g: Any, T: Any, h: Any) -> Any:
    """The same without curves."""
    return choose_ridge(X, y, g, int(g.max()) + 1, curves=False).predict(T, h)


def core_classes(X: Any, y: Any, g: Any, T: Any, h: Any) -> Any:
    """Softmax for the whole network: all settings by left-out log loss."""
    return choose_softmax(X, y, g, int(g.max()) + 1, int(y.max()) + 1).predict(T, h)


def newcomer(X: Any, y: Any, g: Any, T: Any, h: Any) -> Any:
    """``FedRelaxRegressor()`` with nothing set."""
    from fedrelax import FedRelaxRegressor

    return FedRelaxRegressor().fit(X, y, nodes=g).predict(T, nodes=h)


def newcomer_classes(X: Any, y: Any, g: Any, T: Any, h: Any) -> Any:
    """``FedRelaxClassifier()`` with nothing set."""
    from fedrelax import FedRelaxClassifier

    return FedRelaxClassifier().fit(X, y, nodes=g).predict_proba(T, nodes=h)


CORE: dict[str, dict[str, Way]] = {
    "regression": {"core": core, "core, no curves": core_straight},
    "classes": {"core": core_classes},
}
NEWCOMER: dict[str, dict[str, Way]] = {
    "regression": {"fedrelax": newcomer},
    "classes": {"fedrelax": newcomer_classes},
}
