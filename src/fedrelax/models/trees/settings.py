"""Which estimators the tree engine grows, and by which rules."""

from __future__ import annotations

import inspect
from collections.abc import Hashable
from numbers import Integral
from typing import Any

import numpy as np

from fedrelax.models.trees.rules import ENTROPY, GINI, SQUARED_ERROR, Rules

CRITERIA = {
    "squared_error": SQUARED_ERROR,
    "gini": GINI,
    "entropy": ENTROPY,
    "log_loss": ENTROPY,
}
NO_LIMIT = 2**31 - 1
MODULES = ("sklearn.tree._classes", "sklearn.ensemble._forest")
KEPT = 1000
_known: dict[Hashable, Rules | None] = {}
LEFT_OUT = {
    "ccp_alpha": 0.0,
    "monotonic_cst": None,
    "class_weight": None,
    "oob_score": False,
    "warm_start": False,
}
"""Settings that the engine supports at one value only."""


def why_not(estimator: Any) -> str | None:
    """Return why the engine leaves an estimator to scikit-learn, or None if it grows it itself.

    >>> from sklearn.tree import DecisionTreeRegressor
    >>> why_not(DecisionTreeRegressor(max_depth=3))
    >>> why_not(DecisionTreeRegressor(criterion="absolute_error"))
    "criterion='absolute_error'"
    """
    kind = type(estimator).__name__
    if type(estimator).__module__ not in MODULES:
        return f"{kind} is not a tree or forest of scikit-learn"
    settings = estimator.get_params(deep=False)
    if "criterion" not in settings or kind == "RandomTreesEmbedding":
        return f"{kind} does not predict"
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
    seed = settings["random_state"]
    if seed is not None and not isinstance(seed, Integral):
        return "random_state is a generator, which every fit advances"
    if settings.get("bootstrap"):
        return None if _draws_by_weight() else "this scikit-learn draws bootstraps without weights"
    if settings.get("max_samples") is not None:
        return "max_samples without bootstrap"
    return None


def _draws_by_weight() -> bool:
    """Whether scikit-learn draws the rows of a bootstrap by their weights, as newer versions do."""
    from sklearn.ensemble import _forest

    return "sample_weight" in inspect.signature(_forest._generate_sample_indices).parameters


def known_rules(estimator: Any, features: int) -> Rules | None:
    """Return the rules, or None where ``why_not`` gives a reason.

    Asked for every node in every round, so the answer is cached by all settings and their types.
    """
    settings = tuple((name, type(value), value) for name, value in vars(estimator).items())
    try:
        key = type(estimator), features, settings
        known = key in _known
    except TypeError:  # a list or an array among the settings
        return None if why_not(estimator) else rules_of(estimator, features)
    if not known:
        if len(_known) >= KEPT:
            _known.clear()
        _known[key] = None if why_not(estimator) else rules_of(estimator, features)
    return _known[key]


def rules_of(estimator: Any, features: int) -> Rules:
    """Return the rules for an estimator for which ``why_not`` gives no reason."""
    settings = estimator.get_params(deep=False)
    split, leaf = settings["min_samples_split"], settings["min_samples_leaf"]
    samples, depth = settings.get("max_samples"), settings["max_depth"]
    whole, leaves = isinstance(samples, Integral), settings["max_leaf_nodes"]
    extra = type(estimator).__name__.startswith("ExtraTrees")
    return Rules(
        criterion=CRITERIA[settings["criterion"]],
        random_splits=extra or settings.get("splitter") == "random",
        max_features=_number_of_features(settings["max_features"], features),
        max_depth=NO_LIMIT if depth is None else int(depth),
        min_samples_split=int(split) if isinstance(split, Integral) else 2,
        min_split_share=0.0 if isinstance(split, Integral) else float(split),
        min_samples_leaf=int(leaf) if isinstance(leaf, Integral) else 1,
        min_leaf_share=0.0 if isinstance(leaf, Integral) else float(leaf),
        min_weight_share=float(settings["min_weight_fraction_leaf"]),
        min_impurity_decrease=float(settings["min_impurity_decrease"]),
        max_leaves=0 if leaves is None else int(leaves),
        trees=int(settings.get("n_estimators", 1)),
        bootstrap=bool(settings.get("bootstrap", False)),
        draws=int(samples) if whole else 0,
        draws_share=0.0 if whole or samples is None else float(samples),
    )


def _number_of_features(given: Any, features: int) -> int:
    if given is None:
        return features
    if given == "sqrt":
        return max(1, int(np.sqrt(features)))
    if given == "log2":
        return max(1, int(np.log2(features)))
    if isinstance(given, Integral):
        return int(given)
    return max(1, int(given * features))


def is_forest(estimator: Any) -> bool:
    """Whether the estimator consists of several trees."""
    return hasattr(estimator, "n_estimators")
