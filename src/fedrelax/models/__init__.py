"""Local models: their common interface, the adapters, and the names that the command line knows."""

from typing import TYPE_CHECKING, Any

from fedrelax.extras import need
from fedrelax.models.base import BatchedModel, LocalModel, Rows, Task, stack
from fedrelax.models.linear import LinearModel, SoftmaxModel
from fedrelax.models.registry import adapt, register_adapter
from fedrelax.models.scikit import ScikitModel

if TYPE_CHECKING:
    from fedrelax.models.torch import TorchModel

__all__ = [
    "BatchedModel",
    "LinearModel",
    "LocalModel",
    "Rows",
    "ScikitModel",
    "SoftmaxModel",
    "Task",
    "TorchModel",
    "adapt",
    "register_adapter",
    "stack",
]


def __getattr__(name: str) -> Any:
    if name != "TorchModel":
        raise AttributeError(f"module 'fedrelax.models' has no attribute {name!r}")
    need("torch", "torch")
    from fedrelax.models.torch import TorchModel

    return TorchModel
