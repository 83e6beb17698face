"""The Keras model of the command line."""

from __future__ import annotations

from typing import Any

from fedrelax.models.keras.backend import load_keras
from fedrelax.models.keras.estimator import KerasModel


def regression_net(shape: tuple[int, ...], outputs: int) -> Any:
    """Return a network of one hidden layer of 32 units, for squared error."""
    return _net(shape, outputs, "linear", "mean_squared_error")


def classification_net(shape: tuple[int, ...], outputs: int) -> Any:
    """Return a network of one hidden layer of 32 units and class probabilities, for cross-entropy."""
    return _net(shape, outputs, "softmax", "categorical_crossentropy")


def _net(shape: tuple[int, ...], outputs: int, ending: str, loss: str) -> Any:
    keras = load_keras()
    layers = keras.layers
    decay = keras.regularizers.L2(1e-3)  # nodes have few rows
    network = keras.Sequential(
        [
            layers.Input(shape),
            layers.Flatten(),
            layers.Dense(32, activation="relu", kernel_regularizer=decay),
            layers.Dense(outputs, activation=ending),
        ]
    )
    network.compile(keras.optimizers.Adam(0.02), loss)
    return network


def mlp(classify: bool) -> KerasModel:
    """Return a small network on standardised rows, for the name ``keras-mlp``."""
    load_keras()
    factory = classification_net if classify else regression_net
    return KerasModel(factory, epochs=40, batch_size=64, scale=True)
