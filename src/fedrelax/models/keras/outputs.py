"""What a network's outputs and targets mean under the loss it was compiled with."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, softmax

from fedrelax.errors import FedRelaxError
from fedrelax.models.criteria import ABSOLUTE, LOG, SQUARED
from fedrelax.models.keras.backend import load_keras
from fedrelax.typing import AnyArray, FloatArray

CRITERIA = {
    "mean_squared_error": SQUARED,
    "mean_absolute_error": ABSOLUTE,
    "categorical_crossentropy": LOG,
    "sparse_categorical_crossentropy": LOG,
    "binary_crossentropy": LOG,
}
SPARSE, BINARY = "sparse_categorical_crossentropy", "binary_crossentropy"


def loss_name(loss: Any) -> str:
    """Return the full name of a compiled loss: "mean_squared_error" for "mse"."""
    found = load_keras().losses.get(loss)
    return str(getattr(found, "name", None) or getattr(found, "__name__", type(found).__name__))


def takes_scores(loss: Any) -> bool:
    """Whether a compiled loss has ``from_logits=True``."""
    settings = loss.get_config() if hasattr(loss, "get_config") else {}
    return bool(settings.get("from_logits", False))


def criterion_of(model: Any) -> frozenset[str] | None:
    """Return the losses that a compiled model minimises, or None if its loss is not a known one."""
    return CRITERIA.get(loss_name(model.loss))


def check_outputs(width: int, loss: Any, outputs: int, classify: bool) -> None:
    """Refuse a network with too few or too many outputs."""
    if width == outputs:
        return
    if classify and width == 1 and outputs == 2 and loss_name(loss) == BINARY:
        return
    what = "classes" if classify else "numbers"
    raise FedRelaxError(
        f"the Keras model has {width} output{'s' * (width != 1)} and there are {outputs} {what} to "
        f"predict; end it with a layer of {outputs}"
    )


def training_rows(
    X: AnyArray, target: FloatArray, weight: FloatArray, loss: Any, width: int
) -> tuple[AnyArray, AnyArray, FloatArray]:
    """Return soft labels in the form that the loss takes, with the rows and weights to match.

    A loss on class numbers gets K copies of every row, each with its share of the weight.
    """
    if loss_name(loss) == SPARSE:
        share = target * weight[:, None]
        row, label = np.nonzero(share)
        return X[row], label, share[row, label]
    if width == 1:
        return X, target[:, 1:], weight
    return X, target, weight


def probabilities(answer: FloatArray, loss: Any, outputs: int) -> FloatArray:
    """Return a classifier's outputs as probabilities of shape (rows, outputs)."""
    if not np.isfinite(answer).all():
        raise FedRelaxError("predicted NaN or infinity; the training probably diverged")
    if answer.shape[1] == 1 and outputs == 2:
        answer = expit(answer) if takes_scores(loss) else answer
        return np.hstack([1 - answer, answer])
    if takes_scores(loss):
        return np.asarray(softmax(answer, axis=1))
    if (answer < 0).any() or not np.allclose(answer.sum(axis=1), 1, atol=1e-3):
        raise FedRelaxError(
            "the outputs of the Keras model are not probabilities; end it with softmax, or compile "
            "it with a loss of from_logits=True"
        )
    return answer
