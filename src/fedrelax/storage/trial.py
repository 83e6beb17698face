"""One row of zeros, which a model predicts when it is saved and again when it is loaded.

A model with a NaN coefficient or the wrong number of features or classes cannot predict it. Whether it
could is written down, as some sound models cannot (one that takes logarithms of its inputs, for
instance).
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
    """Return the shape of a row; neural nets may take images."""
    trained = getattr(estimator, "trained_", None)
    shape = getattr(trained, "input_shape", None) or getattr(estimator, "input_shape_", None)
    return (features,) if shape is None else tuple(shape)
