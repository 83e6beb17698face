"""Ways to train a network."""

from fedrelax.solvers.base import Result, Solver
from fedrelax.solvers.fedrelax import FedRelax
from fedrelax.solvers.gradient import GradientFedRelax

__all__ = ["FedRelax", "GradientFedRelax", "Result", "Solver"]
