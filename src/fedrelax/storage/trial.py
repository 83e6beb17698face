"""One row of zeros, asked of a model when it is saved and again when it is loaded.

A model with a coefficient that is not a number, with the wrong number of features or of classes does
not answer it. Whether it did is written down, as some models rightly do not (a logarithm of the
inputs, for instance).
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from fedrelax.models import LocalModel


def answers_one_row(model: LocalModel, features: int) -> bool:
    """Tell whether a model predicts finite numbers, as many as the task has, from a row of zeros."""
    row = np.zeros((1, *_shape_of_row(model.estimator, features)))
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            answer = np.asarray(model.predict(row), dtype=float)
    except Exception:  # a damaged model may raise anything, and so may a healthy one
        return False
    return answer.shape == (1, model.task.n_outputs) and bool(np.isfinite(answer).all())


def _shape_of_row(estimator: Any, features: int) -> tuple[int, ...]:
    """Return the shape of a row; nets may take pictures."""
    trained = getattr(estimator, "trained_", None)
    shape = getattr(trained, "input_shape", None) or getattr(estimator, "input_shape_", None)
    return (features,) if shape is None else tuple(shape)
