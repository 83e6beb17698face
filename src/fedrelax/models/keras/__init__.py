"""Keras 3 networks as local models (extra ``keras``)."""

from fedrelax.models.keras.estimator import KerasModel, KerasNode, is_keras, mlp

__all__ = ["KerasModel", "KerasNode", "is_keras", "mlp"]
