"""Ways to train a network."""

from fedrelax.solvers.base import Result, Solver
from fedrelax.solvers.fedrelax import FedRelax

__all__ = ["FedRelax", "Result", "Solver"]
