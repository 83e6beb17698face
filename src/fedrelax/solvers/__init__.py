"""Ways to train a network."""

from fedrelax.solvers.base import Result, Solver
from fedrelax.solvers.fedrelax import FedRelax, GradientFedRelax
from fedrelax.solvers.pooling import PartialPooling

__all__ = ["FedRelax", "GradientFedRelax", "PartialPooling", "Result", "Solver"]
