"""Does the softmax engine apply? If not, one sentence says why."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from fedrelax.engines.base import Settings, reason_in_settings
from fedrelax.losses import Log
from fedrelax.models import SoftmaxModel, Task, adapt
from fedrelax.models.linear import LinearNode
from fedrelax.models.newton import MOST_WEIGHTS
from fedrelax.network import Network
from fedrelax.typing import Label

ONLY = {
    "objective": "paper",
    "order": "simultaneous",
    "weighting": "mean",
    "first_exchange": "models",
}
"""The settings that the softmax engine supports."""


def refusal_of(kind: str, models: Mapping[Label, Any], settings: Settings) -> str | None:
    """Return which setting or which node's model the engine does not support, or None."""
    reason = reason_in_settings(settings, kind, "classification", Log)
    if reason is not None:
        return reason
    for name, value in ONLY.items():
        if getattr(settings, name) != value:
            return f"it needs {name}={value!r}, not {getattr(settings, name)!r}"
    return _reason_in_models(models)


def reason_in_rows(network: Network) -> str | None:
    """Return what about the rows, alike at all nodes, or the public rows is not supported, or None."""
    first = next(iter(network))
    if first.X.ndim != 2:
        return f"node {first.label!r}: its rows have the shape {first.X.shape[1:]}"
    weights = (first.X.shape[1] + bool(first.model.fit_intercept)) * network.task.n_outputs
    if weights > MOST_WEIGHTS:
        return f"node {first.label!r}: its model has {weights} weights, more than {MOST_WEIGHTS}"
    if network.public.common is None:
        return "it needs one common set of public rows"
    return None


def _reason_in_models(models: Mapping[Label, Any]) -> str | None:
    task = Task("classification", 2, np.arange(2))
    seen: set[int] = set()
    first: tuple[Label, bool] | None = None
    for label, model in models.items():
        if id(model) in seen:
            continue
        seen.add(id(model))
        name = f"node {label!r}"
        if type(model) is not SoftmaxModel:
            return (
                f"the task is {task.kind}, and {name} has {type(model).__name__}, not SoftmaxModel"
            )
        if type(adapt(model, task)) is not LinearNode:
            return f"{name}: SoftmaxModel has its own adapter"
        if not (isinstance(model.ridge, Real) and 0 < float(model.ridge) < math.inf):
            return f"{name}: SoftmaxModel has ridge={model.ridge!r}, not one number above 0"
        intercept = bool(model.fit_intercept)
        if first is None:
            first = label, intercept
        elif intercept != first[1]:
            return f"{name} has fit_intercept={intercept} and node {first[0]!r} has {first[1]}"
    return None
