"""Local models: the contract, the adapters, and the names of the command line."""

from fedrelax.models.base import LocalModel, Rows, Task, stack
from fedrelax.models.linear import LinearModel, SoftmaxModel
from fedrelax.models.registry import adapt, register_adapter
from fedrelax.models.scikit import ScikitModel

__all__ = [
    "LinearModel",
    "LocalModel",
    "Rows",
    "ScikitModel",
    "SoftmaxModel",
    "Task",
    "adapt",
    "register_adapter",
    "stack",
]
