"""Which trees and forests are grown at once, and by which rules."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

SQUARED_ERROR, GINI, ENTROPY = 0, 1, 2
CRITERIA = {
    "squared_error": SQUARED_ERROR,
    "gini": GINI,
    "entropy": ENTROPY,
    "log_loss": ENTROPY,
}
NO_LIMIT = 2**31 - 1
MODULES = ("sklearn.tree._classes", "sklearn.ensemble._forest")
LEFT_OUT = {
    "splitter": "best",
    "max_leaf_nodes": None,
    "ccp_alpha": 0.0,
    "min_impurity_decrease": 0.0,
    "min_weight_fraction_leaf": 0.0,
    "monotonic_cst": None,
    "class_weight": None,
    "oob_score": False,
    "warm_start": False,
}
"""Settings that are supported at one value only."""


class Rules(NamedTuple):
    """How trees are grown, the same for all nodes of a batch."""

    criterion: int
    max_features: int
    max_depth: int
    min_samples_split: int
    """At least twice ``min_samples_leaf``."""
    min_samples_leaf: int
    forest: bool
    trees: int
    bootstrap: bool
    draws: int
    """Rows of a bootstrap; 0 for as many as there are, or ``draws_share`` of them where positive."""
    draws_share: float


def is_tree(estimator: Any) -> bool:
    """Whether this is a tree or a forest of scikit-learn itself."""
    return type(estimator).__module__ in MODULES


def is_forest(estimator: Any) -> bool:
    """Whether the estimator consists of several trees."""
    return hasattr(estimator, "n_estimators")


def unsupported_reason(estimator: Any) -> str | None:
    """Return why an estimator is left to scikit-learn, or None if its trees can be grown at once.

    >>> from sklearn.tree import DecisionTreeRegressor
    >>> unsupported_reason(DecisionTreeRegressor(max_depth=3))
    >>> unsupported_reason(DecisionTreeRegressor(criterion="absolute_error"))
    "criterion='absolute_error'"
    """
    kind = type(estimator).__name__
    if not is_tree(estimator):
        return f"{kind} is not a tree or forest of scikit-learn"
    settings = estimator.get_params(deep=False)
    if kind.startswith("ExtraTree") or kind == "RandomTreesEmbedding":
        return f"{kind} draws its thresholds"
    try:
        estimator._validate_params()
    except ValueError as error:
        return str(error)
    if settings["criterion"] not in CRITERIA:
        return f"criterion={settings['criterion']!r}"
    for name, value in LEFT_OUT.items():
        given = settings.get(name, value)
        if given is not value and given != value:
            return f"{name}={given!r}"
    for name in ("min_samples_split", "min_samples_leaf"):
        if not isinstance(settings[name], Integral):
            return f"{name}={settings[name]!r}, a share of the rows"
    seed = settings["random_state"]
    if seed is not None and not isinstance(seed, Integral):
        return "random_state is a generator, which every fit advances"
    if settings.get("max_samples") is not None and not settings["bootstrap"]:
        return "max_samples without bootstrap"
    return None


def rules_of(estimator: Any, features: int) -> Rules | None:
    """Return the rules, or None where ``unsupported_reason`` gives a reason."""
    if unsupported_reason(estimator) is not None:
        return None
    settings = estimator.get_params(deep=False)
    leaf = int(settings["min_samples_leaf"])
    samples, depth = settings.get("max_samples"), settings["max_depth"]
    whole, drawn = isinstance(samples, Integral), settings["max_features"]
    if drawn in ("sqrt", "log2"):
        drawn = max(1, int(getattr(np, drawn)(features)))
    elif drawn is not None and not isinstance(drawn, Integral):
        drawn = max(1, int(drawn * features))
    return Rules(
        criterion=CRITERIA[settings["criterion"]],
        max_features=features if drawn is None else int(drawn),
        max_depth=NO_LIMIT if depth is None else int(depth),
        min_samples_split=max(int(settings["min_samples_split"]), 2 * leaf),
        min_samples_leaf=leaf,
        forest=is_forest(estimator),
        trees=int(settings.get("n_estimators", 1)),
        bootstrap=bool(settings.get("bootstrap", False)),
        draws=int(samples) if whole else 0,
        draws_share=0.0 if whole or samples is None else float(samples),
    )
