"""Keras 3 networks as local models (extra ``keras``)."""

from fedrelax.models.keras.estimator import KerasModel, mlp
from fedrelax.models.keras.node import KerasNode, is_keras

__all__ = ["KerasModel", "KerasNode", "is_keras", "mlp"]
