"""Ways to train a network."""

from fedrelax.solvers.base import Result, Solver
from fedrelax.solvers.fedrelax import FedRelax, GradientFedRelax
from fedrelax.solvers.whole import WholeNetwork

__all__ = ["FedRelax", "GradientFedRelax", "Result", "Solver", "WholeNetwork"]
