"""Does the linear engine apply? If not, one sentence says why."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Real

import numpy as np
from sklearn.linear_model import LinearRegression, Ridge

from fedrelax.errors import FedRelaxError
from fedrelax.losses import Squared
from fedrelax.models import LinearModel, LocalModel, ScikitModel, SoftmaxModel, Task, adapt
from fedrelax.models.linear import LinearNode
from fedrelax.network import Network
from fedrelax.typing import FloatArray, Label, Model

EXACT_SOLVERS = ("auto", "svd", "cholesky")
"""Settings of ``Ridge(solver=)`` that do not stop early."""
WIDE = 1500
"""Columns above which a matrix of columns x columns for every node costs more than it saves."""


def unsupported_models(
    models: Mapping[Label, Model],
    check: Callable[[Model], str | None] | None = None,
    kind: str = "regression",
) -> str | None:
    """Return which node's model ``check`` refuses or has another intercept setting, or None.

    By default, models must be linear least squares.
    """
    task = Task(kind, 1) if kind == "regression" else Task(kind, 2, np.arange(2))
    intercepts = {label: getattr(model, "fit_intercept", None) for label, model in models.items()}
    first = next(iter(models))
    for label, model in models.items():
        reason = (check or _reason_in_model)(model) or _reason_in_adapter(model, task)
        if reason is not None:
            return f"node {label!r}: {reason}"
        if bool(intercepts[label]) != bool(intercepts[first]):
            return (
                f"node {label!r} has fit_intercept={intercepts[label]} and node {first!r} has "
                f"fit_intercept={intercepts[first]}"
            )
    return None


def _reason_in_adapter(model: Model, task: Task) -> str | None:
    try:
        adapted: LocalModel = adapt(model, task)
    except FedRelaxError as error:
        return str(error)
    if type(adapted) not in (ScikitModel, LinearNode):
        return f"{type(model).__name__} has its own adapter, {type(adapted).__name__}"
    return None


def unsupported_shape(network: Network) -> str | None:
    """Return why the rows, alike at all nodes, are not rows of features, or None."""
    first = next(iter(network))
    plain = first.X.ndim == 2
    return None if plain else f"node {first.label!r}: its rows have the shape {first.X.shape[1:]}"


def unsupported_rows(network: Network) -> str | None:
    """Return why the rows are not rows of features, or of too many for linear models, or None."""
    reason = unsupported_shape(network)
    if reason is not None:
        return reason
    first, models = next(iter(network)), network.distinct_models.values()
    if first.X.shape[1] > WIDE and all(isinstance(m, Ridge | LinearRegression) for m in models):
        return (
            f"{first.X.shape[1]} columns are more than {WIDE}, where scikit-learn's own solver is faster: "
            "it has as many unknowns as there are rows"
        )
    return None


def ridge_of(model: Model, features: int) -> FloatArray:
    """Return the factor of each ``coef^2``, relative to a sum over own rows of weight 1."""
    if isinstance(model, LinearModel | SoftmaxModel):
        return model.penalties(features)
    return np.full(features, float(model.alpha) if isinstance(model, Ridge) else 0.0)


def _reason_in_model(model: Model) -> str | None:
    reason = None
    if type(model) not in (LinearRegression, Ridge, LinearModel):
        return f"{type(model).__name__} is not LinearRegression, Ridge or LinearModel"
    if getattr(model, "positive", False):
        reason = "positive=True"
    elif isinstance(model, Ridge):
        reason = _penalty("alpha", model.alpha)
        if model.solver not in EXACT_SOLVERS:
            reason = f"solver={model.solver!r}, which stops at its own tolerance"
    elif isinstance(model, LinearModel):
        reason = _penalty("ridge", model.ridge)
        if not (model.loss == "squared" or isinstance(model.loss, Squared)):
            reason = f"loss={model.loss!r}"
    return None if reason is None else f"{type(model).__name__} has {reason}"


def _penalty(name: str, value: object) -> str | None:
    if isinstance(value, Real) and 0 <= float(value) < math.inf:
        return None
    return f"{name}={value!r}, not one number of at least 0"
