"""The engine for networks of softmax models on one common public set: all nodes at once."""

from fedrelax.engines.softmax.engine import SoftmaxEngine

__all__ = ["SoftmaxEngine"]
