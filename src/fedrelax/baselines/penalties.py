"""The penalty of a linear model, and how to change it."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge

from fedrelax.models import LinearModel, SoftmaxModel
from fedrelax.models.criteria import last_step

FACTORS = (1.0, 0.001, 0.1, 10.0)
"""Factors of a penalty, where several are tried."""


def with_penalty(model: Any, factor: float) -> Any:
    """Return a model with its penalty multiplied by ``factor``, or the model itself if it has none.

    >>> with_penalty(Ridge(2.0), 0.1), with_penalty(LogisticRegression(), 0.1)
    (Ridge(alpha=0.2), LogisticRegression(C=10.0))
    """
    name, penalty = penalty_of(model)
    if not penalty or factor == 1.0:
        return model
    changed = clone(model)
    step = last_step(changed)
    step.set_params(**{name: step.C / factor if name == "C" else factor * penalty})
    return changed


def penalty_of(model: Any) -> tuple[str, float]:
    """Return the parameter that sets the penalty, and the penalty; 0 where there is none."""
    step = last_step(model)
    if isinstance(step, Ridge) and np.ndim(step.alpha) == 0:
        return "alpha", float(step.alpha)
    if isinstance(step, LinearModel | SoftmaxModel):
        return "ridge", float(step.ridge)
    if isinstance(step, LogisticRegression):
        return "C", 1.0 / step.C
    return "", 0.0
