"""fedrelax: federated learning over a graph of unlike models."""

from fedrelax.errors import FedRelaxError, FedRelaxWarning, NodeFitError
from fedrelax.estimators import FedRelaxClassifier, FedRelaxRegressor
from fedrelax.graph import Graph
from fedrelax.models import LinearModel, SoftmaxModel, register_adapter
from fedrelax.network import Network
from fedrelax.runtime import Callback, Distillation
from fedrelax.solvers import FedRelax

__version__ = "0.1.0"

__all__ = [
    "Callback",
    "Distillation",
    "FedRelax",
    "FedRelaxClassifier",
    "FedRelaxError",
    "FedRelaxRegressor",
    "FedRelaxWarning",
    "Graph",
    "LinearModel",
    "Network",
    "NodeFitError",
    "SoftmaxModel",
    "register_adapter",
]
