"""Ways to train a network."""

from fedrelax.solvers.base import Result, Solver
from fedrelax.solvers.choice import solve_by_engine, why_not_linear
from fedrelax.solvers.fedrelax import FedRelax
from fedrelax.solvers.linear import LinearFedRelax
from fedrelax.solvers.softmax import SoftmaxFedRelax

__all__ = [
    "FedRelax",
    "LinearFedRelax",
    "Result",
    "SoftmaxFedRelax",
    "Solver",
    "solve_by_engine",
    "why_not_linear",
]
