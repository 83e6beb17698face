"""The adapter for Keras: a ``KerasModel``, or a bare compiled ``keras.Model``."""

from __future__ import annotations

import copy
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError
from fedrelax.linear.arrays import centre_and_spread
from fedrelax.models.base import LocalModel, Rows, Task, stack
from fedrelax.models.criteria import ABSOLUTE, LOG, SQUARED
from fedrelax.models.keras.estimator import (
    SCALES,
    KerasModel,
    check_model,
    load_keras,
    loss_name,
    steady,
)
from fedrelax.models.scikit import shaped
from fedrelax.typing import AnyArray, FloatArray

CRITERIA = {
    "mean_squared_error": SQUARED,
    "mean_absolute_error": ABSOLUTE,
    "categorical_crossentropy": LOG,
    "sparse_categorical_crossentropy": LOG,
    "binary_crossentropy": LOG,
}
SPARSE, BINARY = "sparse_categorical_crossentropy", "binary_crossentropy"


def is_keras(estimator: Any) -> bool:
    """Whether this is a ``KerasModel`` or a Keras model; the check does not import Keras."""
    if isinstance(estimator, KerasModel):
        return True
    keras = sys.modules.get("keras")
    return keras is not None and isinstance(estimator, getattr(keras, "Model", ()))


class KerasNode(LocalModel):
    """A Keras network at a node, with sample weights, soft labels, and training that can continue."""

    def __init__(self, estimator: Any, task: Task) -> None:
        self.task = task
        self._estimator = estimator if isinstance(estimator, KerasModel) else KerasModel(estimator)
        template = self._estimator.model
        check_model(template)
        if not isinstance(template, load_keras().Model):
            return
        self.fits = CRITERIA.get(loss_name(template.loss))
        if template.built:
            width = int(template.output_shape[-1])
            check_outputs(width, template.loss, task.n_outputs, task.is_classification)

    @property
    def estimator(self) -> KerasModel:
        """The fitted ``KerasModel``, or before the first fit the one that was passed in."""
        return self._estimator

    def forgets(self, continued: bool) -> bool:
        """Whether every fit starts from the initial weights: always, unless training is ``continued``."""
        return not continued

    def fit(self, terms: Sequence[Rows], *, seed: int, continued: bool = False) -> KerasNode:
        """Return a network trained for ``epochs``, from the present weights or from the initial ones."""
        rows, before = stack(terms), self._estimator
        goes_on = continued and hasattr(before, "weights_")
        made = KerasModel(before.model, before.epochs, before.batch_size, before.scale)
        made.classes_ = self.task.classes
        made.input_shape_, made.outputs_ = rows.X.shape[1:], self.task.n_outputs
        if made.scale and goes_on:
            for name in SCALES:
                setattr(made, name, getattr(before, name))
        elif made.scale:
            made.center_, made.spread_ = centre_and_spread(rows.X)
            made.target_center_, made.target_spread_ = centre_and_spread(rows.target)
        with steady(seed):
            network = made.build(made.input_shape_, made.outputs_)
            if goes_on:
                network.set_weights(before.weights_)
            self._train(network, made, rows)
            made.adopt(network)
        fitted = copy.copy(self)
        fitted._estimator = made
        return fitted

    def _train(self, network: Any, made: KerasModel, rows: Rows) -> None:
        width, classify = int(network.output_shape[-1]), self.task.is_classification
        check_outputs(width, network.loss, self.task.n_outputs, classify)
        X, target, weight = made.scaled(rows.X), rows.target, rows.weight
        if classify:
            X, target, weight = training_rows(X, target, weight, network.loss, width)
        elif made.scale:
            target = (target - made.target_center_) / made.target_spread_
        network.fit(
            X,
            target,
            sample_weight=weight / weight.mean(),  # Keras divides by rows, not by weights.
            epochs=made.epochs,
            batch_size=made.batch_size,
            verbose=0,
        )

    def predict(self, X: AnyArray) -> FloatArray:
        """Return numbers, or class probabilities."""
        return shaped(self._estimator.outputs_for(X), len(X), self.task.n_outputs)


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
