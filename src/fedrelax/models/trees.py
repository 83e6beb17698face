"""Which models are trees and forests of scikit-learn."""

from __future__ import annotations

from typing import Any

MODULES = ("sklearn.tree._classes", "sklearn.ensemble._forest")


def is_tree(estimator: Any) -> bool:
    """Whether this is a tree or a forest of scikit-learn itself."""
    return type(estimator).__module__ in MODULES


def is_forest(estimator: Any) -> bool:
    """Whether the estimator consists of several trees."""
    return hasattr(estimator, "n_estimators")
