"""fedrelax: federated learning over a graph of unlike models.

The names below are loaded when they are first used, so that ``import fedrelax`` and the command
line start at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedrelax.errors import FedRelaxError, FedRelaxWarning, NodeFitError
    from fedrelax.estimators import FedRelaxClassifier, FedRelaxRegressor
    from fedrelax.graph import Graph
    from fedrelax.models import LinearModel, SoftmaxModel, TorchModel, register_adapter
    from fedrelax.network import Network
    from fedrelax.runtime import Callback, Distillation, StopOnLocalLoss
    from fedrelax.solvers import FedRelax, GradientFedRelax

__version__ = "0.1.0"

__all__ = [
    "Callback",
    "Distillation",
    "FedRelax",
    "FedRelaxClassifier",
    "FedRelaxError",
    "FedRelaxRegressor",
    "FedRelaxWarning",
    "GradientFedRelax",
    "Graph",
    "LinearModel",
    "Network",
    "NodeFitError",
    "SoftmaxModel",
    "StopOnLocalLoss",
    "TorchModel",
    "register_adapter",
]

_HOMES = {
    "errors": ("FedRelaxError", "FedRelaxWarning", "NodeFitError"),
    "estimators": ("FedRelaxClassifier", "FedRelaxRegressor"),
    "graph": ("Graph",),
    "models": ("LinearModel", "SoftmaxModel", "TorchModel", "register_adapter"),
    "network": ("Network",),
    "runtime": ("Callback", "Distillation", "StopOnLocalLoss"),
    "solvers": ("FedRelax", "GradientFedRelax"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'fedrelax' has no attribute {name!r}")
    return getattr(import_module(f"fedrelax.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
